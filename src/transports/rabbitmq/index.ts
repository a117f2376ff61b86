export { rabbitmq, type RabbitmqOptions } from './rabbitmq.transport.js';
