import base, { LONG } from './jest.config.mjs';

/** What lasts for minutes: processes that are killed, fail points, the plans of statements on full tables, the README's commands in another clone, the package as it is published, and what starts many applications. Not part of `npm test`. */
export default {
  ...base,
  testMatch: LONG.map((pattern) => `<rootDir>/${pattern}`),
  testPathIgnorePatterns: [],
};
