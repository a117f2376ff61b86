import { z } from 'zod';
import { ConfigurationError } from '../errors.js';
import { toMs } from './duration.js';
import type { EffectTransport } from './effect-transport.js';
import type { TransportOptions } from './options.js';
import { atLeast } from './schema.js';

/** An engine that effects are handed to, with every default filled in. */
export interface EngineRoute {
  readonly transport: EffectTransport;
  /** With a method in this application. */
  readonly effects: readonly string[];
  /** Without one. */
  readonly elsewhere: readonly string[];
  readonly unheardMs: number;
}

const METHODS = ['publish', 'consume', 'report', 'onReports', 'close'] as const;

/** Of an object with the methods of the port. */
export const transportSchema = z.custom<EffectTransport>(
  (value) => METHODS.every((name) => typeof Object(value)[name] === 'function'),
  { error: 'expected an EffectTransport, such as bullmq({ connection })' },
);

export const transportsSchema = z.array(
  z.strictObject({
    transport: transportSchema,
    effects: z.array(z.string()).optional(),
    elsewhere: z.array(z.string()).optional(),
    unheardAfter: atLeast(1_000).optional(),
  }),
);

/** @throws ConfigurationError for an effect that is named twice */
export function resolveTransports(transports: readonly TransportOptions[] = []): EngineRoute[] {
  const seen = new Map<string, string>();
  return transports.map(({ transport, effects = [], elsewhere = [], unheardAfter = '1h' }, index) => {
    for (const name of [...effects, ...elsewhere]) {
      const at = `transports.${index} (${transport.name})`;
      const first = seen.get(name);
      if (first !== undefined) {
        throw new ConfigurationError(
          `WebhooksModule options: effect '${name}' is in ${first} and in ${at}: expected each effect once. ` +
            `An effect goes to one engine`,
        );
      }
      seen.set(name, at);
    }
    return { transport, effects, elsewhere, unheardMs: toMs(unheardAfter)! };
  });
}
