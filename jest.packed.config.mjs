import base, { PACKED } from './jest.config.mjs';

/** Folder of the packed package. Without it the sources are tested. */
const { PACKAGE } = process.env;
const entry = (name) => `${PACKAGE}/dist/${name}.js`;
const PUBLISHED = {
  '^(?:\\.\\./)+src/index\\.js$': entry('index'),
  '^(?:\\.\\./)+src/testing/index\\.js$': entry('testing'),
  '^(?:\\.\\./)+migrations/index\\.js$': entry('migrations'),
};

/** What test/e2e/package.spec.ts runs on the packed package: what these tests and examples import is its entries. */
export default {
  ...base,
  testMatch: PACKED,
  moduleNameMapper: { ...(PACKAGE === undefined ? {} : PUBLISHED), ...base.moduleNameMapper },
};
