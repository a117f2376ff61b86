import base from './jest.config.mjs';

/** Tests in a real browser: they need Debian's chromium, or CHROMIUM with the path of one. Not part of `npm test`. */
export default { ...base, testMatch: ['<rootDir>/test/browser/*.browser.ts'], testTimeout: 120_000 };
