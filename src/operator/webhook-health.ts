import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { toMs, type Duration } from '../core/options/duration.js';
import { checkInput, duration } from '../core/options/schema.js';
import { errorText } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { withTimeLimit } from '../core/time/waits.js';
import { RelayLoop } from '../outbox/relay/relay.loop.js';
import { onConnection } from '../storage/postgres/connection.js';
import { RelayStore, type Backlog } from '../storage/desk/relay.store.js';

/** When an instance must not get requests. */
export interface ReadinessOptions {
  /** How long the database may take to answer. @default '3s' */
  readonly timeout?: Duration;
  /** How long the relay may go without reading the outbox, beyond its poll interval; `false` for any time. @default '1m' */
  readonly relaySilence?: Duration | false;
  /** How long the most overdue row may have been due; `false` for any time. @default false */
  readonly backlogAge?: Duration | false;
  /** Dead rows at which the instance is not ready; `false` for any number. @default false */
  readonly deadLetters?: number | false;
}

const orAny = <T extends z.ZodType>(schema: T) => z.union([z.literal(false), schema]).optional();
const READINESS = z.strictObject({
  timeout: duration.optional(),
  relaySilence: orAny(duration),
  backlogAge: orAny(duration),
  deadLetters: orAny(z.int().min(1)),
});

/** As a health indicator of Terminus answers. */
export type HealthResult<K extends string = string> = Readonly<
  Record<K, { readonly status: 'up' | 'down' } & Readonly<Record<string, unknown>>>
>;

/**
 * Health of the module, in the shape that @nestjs/terminus takes: `health.check([() => webhooks.readiness()])`. Backlog and dead letters
 * are the whole fleet's: with a threshold for them all instances leave the load balancer together, so it has no default.
 */
@Injectable()
export class WebhookHealth {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly relays: RelayStore,
    private readonly loop: RelayLoop,
  ) {}

  /** The process answers. Never asks the database: a restart mends no outage. */
  liveness<K extends string = 'webhooks'>(key = 'webhooks' as K): HealthResult<K> {
    return result(key, true, {});
  }

  /**
   * Whether deliveries can be claimed here, and the relay makes its rounds. An outage is reported, and not thrown.
   * @throws InputRefused for a wrong option, which would be a threshold that is never reached
   */
  async readiness<K extends string = 'webhooks'>(
    key = 'webhooks' as K,
    options: ReadinessOptions = {},
  ): Promise<HealthResult<K>> {
    checkInput(READINESS, options, 'readiness');
    const timeoutMs = msOf(options.timeout ?? '3s');
    const relay = this.relay(options);
    try {
      const read = onConnection(this.dataSource, (manager) => this.relays.backlog(manager), timeoutMs);
      const backlog = judged(await withTimeLimit(read, timeoutMs, 'the database'), options);
      return result(key, relay.faults.length + backlog.faults.length === 0, {
        database: 'up',
        ...relay.details,
        ...backlog.details,
        ...faultsOf([...relay.faults, ...backlog.faults]),
      });
    } catch (error) {
      const faults = [`the database does not answer: ${errorText(error)}`, ...relay.faults];
      return result(key, false, { database: 'down', ...relay.details, ...faultsOf(faults) });
    }
  }

  private relay({ relaySilence = '1m' }: ReadinessOptions) {
    const { relay } = this.options;
    if (relay === false) return { faults: [], details: { relay: 'off' } };
    const silentMs = this.loop.silentMs;
    const allowedMs = relay.pollMs + msOf(relaySilence);
    const faults =
      silentMs > allowedMs ? [`the relay has not polled the outbox for ${Math.round(silentMs)} ms`] : [];
    return { faults, details: { relay: faults.length === 0 ? 'up' : 'down' } };
  }
}

function judged(
  { pending, dead, parked, overdue, handed }: Backlog,
  { backlogAge = false, deadLetters = false }: ReadinessOptions,
) {
  const backlogMs = Math.round(overdue[0]?.ageMs ?? 0);
  const faults = [
    ...(backlogMs > msOf(backlogAge)
      ? [`a row of ${overdue[0]!.name} has been due for ${backlogMs} ms`]
      : []),
    ...(deadLetters !== false && dead >= deadLetters ? [`${dead} rows are dead`] : []),
  ];
  const sum = (count: 'rows' | 'unheard') => handed.reduce((total, one) => total + one[count], 0);
  return {
    faults,
    details: { pending, dead, parked, backlogMs, handed: sum('rows'), unheard: sum('unheard') },
  };
}

/** @param limit that was checked; without one, any time is in time */
const msOf = (limit: Duration | false) => (limit === false ? Infinity : toMs(limit)!);

const faultsOf = (faults: readonly string[]) => (faults.length === 0 ? {} : { message: faults.join('; ') });

function result<K extends string>(
  key: K,
  isUp: boolean,
  details: Readonly<Record<string, unknown>>,
): HealthResult<K> {
  return { [key]: { status: isUp ? 'up' : 'down', ...details } } as HealthResult<K>;
}
