import base, { LONG } from './jest.config.mjs';

/** The specs that `npm test` leaves out, since they last for minutes, and those of the examples. */
export default { ...base, testMatch: [...LONG, '<rootDir>/examples/*/*.spec.ts'] };
