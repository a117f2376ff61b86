export { nats, type NatsOptions } from './nats.transport.js';
