export { bullmq, type BullmqOptions } from './bullmq.transport.js';
