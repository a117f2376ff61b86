import {
  metrics,
  type Attributes,
  type Counter,
  type Histogram,
  type Meter,
  type MeterProvider,
} from '@opentelemetry/api';
import { SCOPE } from './tracing.js';

/** Upper bounds of durations, in seconds: from an acknowledgement of a millisecond to a handler of a minute. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const EVENTS = [1, 2, 5, 10, 20, 50, 100];

interface Definition {
  readonly kind: 'counter' | 'histogram' | 'gauge';
  readonly unit: string;
  readonly description: string;
  readonly bounds?: number[];
}
const counter = (unit: string, description: string): Definition => ({ kind: 'counter', unit, description });
const seconds = (description: string): Definition => ({
  kind: 'histogram',
  unit: 's',
  description,
  bounds: SECONDS,
});
const gauge = (unit: string, description: string): Definition => ({ kind: 'gauge', unit, description });

/** Every metric of the package: its name, unit and meaning. Their attributes are names of sources, handlers and reasons. */
export const METRICS = {
  'webhook_inbox.deliveries': counter('{delivery}', 'Verified deliveries, by source and result'),
  'webhook_inbox.ack.duration': seconds('From a verified delivery to its verdict, by source and result'),
  'webhook_inbox.commit.events': {
    kind: 'histogram',
    unit: '{event}',
    description: 'Events that one commit has claimed',
    bounds: EVENTS,
  },
  'webhook_inbox.duplicates': counter('{delivery}', 'Deliveries of events that were known, by source'),
  'webhook_inbox.conflicts': counter(
    '{delivery}',
    'Deliveries that contradict the first of their event, by source',
  ),
  'webhook_inbox.rejections': counter('{request}', 'Requests that were not believed, by source and reason'),
  'webhook_inbox.lease.losses': counter('{lease}', 'Leases that ended before their run had, by source'),
  'webhook_inbox.attempts': counter('{attempt}', 'Attempts of rows, by kind, name and outcome'),
  'webhook_inbox.handler.duration': seconds('Attempts of handlers, by name and outcome'),
  'webhook_inbox.effect.duration': seconds('Attempts of effects, by name and outcome'),
  'webhook_inbox.dead': counter('{row}', 'Rows that have died, by name and reason'),
  'webhook_inbox.parked': counter('{row}', 'Effects that were parked for a person, by name and reason'),
  'webhook_inbox.reports': counter('{report}', 'Reports of effects that engines had, by name and result'),
  'webhook_inbox.backlog.rows': gauge(
    '{row}',
    'Rows by state, counted to 10,000; of the one instance that measures',
  ),
  'webhook_inbox.backlog.age': gauge(
    's',
    'How long the most overdue row of a name has been due; of the one instance that measures',
  ),
  'webhook_inbox.handed.age': gauge('s', 'How long an engine has had the oldest effect of a name'),
  'webhook_inbox.handed.unheard': gauge(
    '{row}',
    'Effects of a name that an engine has, not reported in time',
  ),
} as const satisfies Record<string, Definition>;

export type MetricName = keyof typeof METRICS;

/** The values of the gauges. Undefined where another instance measures them. */
export interface MeasuredBacklog {
  readonly pending: number;
  readonly dead: number;
  readonly parked: number;
  readonly overdue: readonly { readonly name: string; readonly ageMs: number }[];
  readonly handed: readonly {
    readonly name: string;
    readonly rows: number;
    readonly ageMs: number;
    readonly unheard: number;
  }[];
}

type Instrument = Counter | Histogram;

let provider: MeterProvider | undefined;
let instruments: ReadonlyMap<string, Instrument> | undefined;
let backlog: MeasuredBacklog | undefined;

/** Adds to a counter, or records in a histogram. Without an SDK it does nothing. */
export function measure(name: MetricName, value: number, attributes: Attributes): void {
  const instrument = known()?.get(name);
  if (instrument === undefined) return;
  if ('add' in instrument) instrument.add(value, attributes);
  else instrument.record(value, attributes);
}

/** Whether a meter takes the values of `measure`. */
export function isMeasured(): boolean {
  return known() !== undefined;
}

export function measureBacklog(measured: MeasuredBacklog | undefined): void {
  backlog = measured;
  known();
}

/** An SDK may be registered after this package has been loaded: its instruments are made when it is there. */
function known(): ReadonlyMap<string, Instrument> | undefined {
  const current = metrics.getMeterProvider();
  if (current === provider) return instruments;
  provider = current;
  instruments = current.constructor.name === 'NoopMeterProvider' ? undefined : made(current.getMeter(SCOPE));
  return instruments;
}

function made(meter: Meter): Map<string, Instrument> {
  const all = new Map<string, Instrument>();
  for (const [name, definition] of Object.entries<Definition>(METRICS)) {
    const { kind, unit, description, bounds } = definition;
    if (kind === 'counter') all.set(name, meter.createCounter(name, { unit, description }));
    if (kind === 'histogram') {
      const advice = { explicitBucketBoundaries: bounds };
      all.set(name, meter.createHistogram(name, { unit, description, advice }));
    }
    if (kind === 'gauge') {
      meter.createObservableGauge(name, { unit, description }).addCallback((result) => {
        for (const [value, attributes] of gauged(name)) result.observe(value, attributes);
      });
    }
  }
  return all;
}

function gauged(name: string): readonly (readonly [number, Attributes])[] {
  if (backlog === undefined) return [];
  const { pending, dead, parked, overdue, handed } = backlog;
  if (name === 'webhook_inbox.backlog.age')
    return overdue.map(({ name: row, ageMs }) => [ageMs / 1_000, { name: row }] as const);
  if (name === 'webhook_inbox.handed.age')
    return handed.map(({ name: row, ageMs }) => [ageMs / 1_000, { name: row }] as const);
  if (name === 'webhook_inbox.handed.unheard')
    return handed.map(({ name: row, unheard }) => [unheard, { name: row }] as const);
  const withEngines = handed.reduce((sum, { rows }) => sum + rows, 0);
  return Object.entries({ pending, dead, parked, handed: withEngines }).map(
    ([state, rows]) => [rows, { state }] as const,
  );
}
