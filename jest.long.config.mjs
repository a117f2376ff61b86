import base, { LONG } from './jest.config.mjs';

/** The specs that `npm test` leaves out, since they last for minutes. */
export default { ...base, testMatch: LONG };
