import base, { ENGINES } from './jest.config.mjs';

/** What runs on real servers of engines: redis-server, nats-server and rabbitmq-server must be there. */
export default { ...base, testMatch: [ENGINES], testTimeout: 180_000 };
