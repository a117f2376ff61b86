import type { Measured } from './rounds.js';

/** Results by the benchmark's name. */
export type Results = Readonly<Record<string, readonly Measured[]>>;

export interface Goal {
  readonly text: string;
  readonly bound: 'at least' | 'at most';
  readonly goal: number;
  /** Undefined where it was not measured. */
  readonly value: number | undefined;
  /** A ratio of CPU for one request or job, where that is the same question: other work on the machine disturbs it least. */
  readonly cpuRatio?: number;
  readonly unit: string;
}

/** What is to be reached, as ratios of one run. */
export function goals(results: Results): Goal[] {
  const of = (bench: string, name: string, figure: string) =>
    results[bench]?.find((measured) => measured.name === name)?.figures[figure]?.median;
  const ratio = (bench: string, ours: string, other: string, figure = 'rate') => {
    const [a, b] = [of(bench, ours, figure), of(bench, other, figure)];
    return a === undefined || b === undefined ? undefined : a / b;
  };
  const cpu = (bench: string, ours: string, other: string) => {
    const all = [ours, other].map((name) => {
      const node = of(bench, name, 'nodeMicros');
      return node === undefined ? undefined : node + of(bench, name, 'postgresMicros')!;
    });
    return all[0] === undefined || all[1] === undefined ? undefined : all[1] / all[0];
  };
  const inverse = (value: number | undefined) => (value === undefined ? undefined : 1 / value);
  const rate = (text: string, goal: number, bench: string, ours: string, other: string): Goal => ({
    text,
    bound: 'at least',
    goal,
    value: ratio(bench, ours, other),
    cpuRatio: cpu(bench, ours, other),
    unit: '×',
  });
  const graphileWakeUp = of('latency', 'graphile-worker, other instance', 'p50');
  return [
    rate(
      "durable ack, Express: ours / the articles' receiver",
      5,
      'ingest',
      'ours, express',
      'articles, express',
    ),
    rate(
      "durable ack, Fastify: ours / the articles' receiver",
      7,
      'ingest',
      'ours, fastify',
      'articles, fastify',
    ),
    ...(['express', 'fastify'] as const).flatMap((adapter): Goal[] => [
      rate(
        `durable ack, ${adapter}: ours / written by hand`,
        0.85,
        'ingest',
        `ours, ${adapter}`,
        'written by hand',
      ),
      {
        text: `p99 of the ack at 64 connections, ${adapter}: ours / written by hand`,
        bound: 'at most',
        goal: 1.3,
        value: ratio('ingest', `ours, ${adapter}`, 'written by hand', 'p99'),
        unit: '×',
      },
      {
        text: `CPU of the ack, ${adapter}: ours / written by hand`,
        bound: 'at most',
        goal: 1.25,
        value: inverse(cpu('ingest', `ours, ${adapter}`, 'written by hand')),
        unit: '×',
      },
    ]),
    rate(
      'ack through the pipeline, Express: ours / bare, no database',
      0.9,
      'ingest',
      'ours through the pipeline, express',
      'bare, express',
    ),
    rate(
      'ack through the pipeline, Fastify: ours / bare, no database',
      0.4,
      'ingest',
      'ours through the pipeline, fastify',
      'bare, fastify',
    ),
    rate('durable ack, Express: ours / bare, no database', 1.2, 'ingest', 'ours, express', 'bare, express'),
    rate('durable ack, Fastify: ours / bare, no database', 0.85, 'ingest', 'ours, fastify', 'bare, fastify'),
    ...(['express', 'fastify'] as const).map((adapter): Goal => ({
      text: `p99 of the ack at 64 connections, ${adapter}: ours / bare, no database`,
      bound: 'at most',
      goal: 1.5,
      value: ratio('ingest', `ours, ${adapter}`, `bare, ${adapter}`, 'p99'),
      unit: '×',
    })),
    rate(
      'effects drained: ours / graphile-worker',
      2.3,
      'drain',
      'effects, ours',
      'effects, graphile-worker',
    ),
    rate(
      "transactional handlers: ours / the articles' loop",
      1.5,
      'drain',
      'handlers, ours',
      "handlers, the articles' loop",
    ),
    rate(
      'transactional handlers: ours / graphile-worker',
      1.15,
      'drain',
      'handlers, ours',
      'handlers, graphile-worker',
    ),
    rate(
      'transactional handlers: ours / two messages behind a lease',
      0.8,
      'drain',
      'handlers, ours',
      'handlers, two messages behind a lease',
    ),
    rate(
      "transactional handlers: batches of 100 / graphile-worker's",
      4,
      'drain',
      'handlers, ours in batches of 100',
      'handlers, graphile-worker',
    ),
    rate(
      'transactional handlers: batches of 100 / unbatched',
      4,
      'drain',
      'handlers, ours in batches of 100',
      'handlers, ours',
    ),
    rate(
      'end to end: ours / the articles feeding graphile-worker',
      5,
      'end-to-end',
      'ours',
      'the articles feeding graphile-worker',
    ),
    {
      text: 'wake-up, idle, same instance, p50',
      bound: 'at most',
      goal: 1,
      value: of('latency', 'ours, same instance', 'p50'),
      unit: ' ms',
    },
    {
      text: "wake-up, idle, other instance, p50 (the goal is graphile-worker's)",
      bound: 'at most',
      goal: graphileWakeUp ?? Number.NaN,
      value: of('latency', 'ours, other instance', 'p50'),
      unit: ' ms',
    },
    rate('ingest into a full table / an empty one', 0.9, 'scale', 'ingest, full', 'ingest, empty'),
    rate(
      'the same with ids in no order',
      0.9,
      'scale',
      'ingest, full, random ids',
      'ingest, empty, random ids',
    ),
    ...[
      ['effects with a million pending / with few', 'effects, pending beside them: 1,000,000'],
      ['effects with ten million pending / with few', 'effects, pending beside them: 10,000,000'],
    ].map(([text, name]) => rate(text!, 0.9, 'growth', name!, 'effects, pending beside them: 0')),
    rate(
      'ingest beside ten million settled / none',
      0.9,
      'growth',
      'ingest, settled before: 10,000,000',
      'ingest, settled before: 0',
    ),
    rate(
      'handlers beside ten million settled / none',
      0.9,
      'growth',
      'handlers, settled before: 10,000,000',
      'handlers, settled before: 0',
    ),
    rate('handlers: 1,000 of them / 10', 0.9, 'growth', 'handlers: 1,000', 'handlers: 10'),
    rate(
      'ingest: 10,000 sources / 1',
      0.9,
      'growth',
      'ingest, sources with a secrets function: 10,000',
      'ingest, sources with a secrets function: 1',
    ),
    rate(
      'drain with a snapshot pinned / unpinned',
      0.99,
      'scale',
      'drain, ours, snapshot pinned',
      'drain, ours',
    ),
    ...(['graphile-worker', 'pg-boss'] as const).map((peer): Goal => ({
      ...rate('', 0, 'scale', `drain, ${peer}, snapshot pinned`, `drain, ${peer}`),
      text: `the same of ${peer}, for comparison`,
    })),
  ];
}

export function verdict({ bound, goal, value }: Goal): string {
  if (value === undefined || Number.isNaN(goal)) return 'not measured';
  if (goal === 0) return '';
  return (bound === 'at least' ? value >= goal : value <= goal) ? 'met' : 'not met';
}
