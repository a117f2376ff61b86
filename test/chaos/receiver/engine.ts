import type { EffectTransport } from '../../../src/transports/effect-transport.js';
import { bullmq } from '../../../src/transports/bullmq/index.js';
import { nats } from '../../../src/transports/nats/index.js';
import { rabbitmq } from '../../../src/transports/rabbitmq/index.js';

/** The effects that an engine has. */
export const ENGINE_EFFECTS = ['tell'];

/** As `--engine` names it. What a dead consumer held comes to the next one soon: a run is short. */
export function engineTransport(engine: string, url: string): EffectTransport {
  const { hostname: host, port } = new URL(url);
  if (engine === 'nats') return nats({ connection: { servers: url, reconnectTimeWait: 200 }, ackWait: '5s' });
  if (engine === 'rabbitmq') return rabbitmq({ connection: url });
  return bullmq({ connection: { host, port: Number(port) }, lock: '5s' });
}
