// graphile-worker at its best documented settings: 24 at once, a local queue of 500.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { WRITE } from '../support/business-write.js';
import type { DrainOrder, DrainResult, LatencyOrder } from '../programs/worker.js';
import { serve } from '../support/program.js';

const now = () => performance.timeOrigin + performance.now();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const QUIET = new Logger(() => () => undefined);

await serve(async ({ databaseUrl, relay = true }: { databaseUrl: string; relay?: boolean }) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  // As many as our relay's places.
  const writers = new pg.Pool({ connectionString: databaseUrl, max: 7 });
  writers.on('error', () => undefined);
  let fills = 0;
  const utils = await makeWorkerUtils({ pgPool: pool, logger: QUIET });
  await utils.migrate();
  let count = 0;
  let firstAt = 0;
  const starts = new Map<string, number>();
  const runner = relay
    ? await run({
        pgPool: pool,
        noHandleSignals: true,
        parsedCronItems: [],
        logger: QUIET,
        preset: { worker: { concurrentJobs: 24, pollInterval: 1_000, localQueue: { size: 500 } } },
        taskList: {
          nothing: async () => {
            if (count === 0) firstAt = performance.now();
            count += 1;
          },
          // What its users write: BEGIN, the write, COMMIT. Not atomic with the end of the job, so a crash runs it again.
          write: async (payload) => {
            if (count === 0) firstAt = performance.now();
            const client = await writers.connect();
            try {
              await client.query('BEGIN');
              await client.query(WRITE, [['graphile'], [(payload as { id: string }).id], ['invoice.paid']]);
              await client.query('COMMIT');
            } finally {
              client.release();
            }
            count += 1;
          },
          start: async (payload) => {
            starts.set((payload as { id: string }).id, now());
          },
        },
      })
    : undefined;
  const drain = async ({ work, jobs }: DrainOrder): Promise<Pick<DrainResult, 'seconds' | 'jobs'>> => {
    count = 0;
    fills += 1;
    await pool.query(
      `SELECT graphile_worker.add_jobs(array_agg(json_populate_record(null::graphile_worker.job_spec,
                json_build_object('identifier', $2::text, 'payload', json_build_object('id', $3 || '-' || n)))))
         FROM generate_series(1, $1::int) n`,
      [jobs, work === 'handlers' ? 'write' : 'nothing', `g${fills}`],
    );
    while (count < jobs) await pause(2);
    for (;;) {
      const { rows } = await pool.query('SELECT FROM graphile_worker.jobs LIMIT 1');
      if (rows.length === 0) break;
      await pause(2);
    }
    return { seconds: (performance.now() - firstAt) / 1_000, jobs };
  };
  const send = async ({ samples, prefix }: LatencyOrder) => {
    const acked: [string, number][] = [];
    for (let nth = 0; nth < samples; nth += 1) {
      const id = `${prefix}${nth}`;
      await utils.addJob('start', { id });
      acked.push([id, now()]);
      await pause(80);
    }
    return acked;
  };
  const started = async ({ samples, prefix }: LatencyOrder) => {
    const own = () => [...starts].filter(([id]) => id.startsWith(prefix));
    while (own().length < samples) await pause(5);
    return own();
  };
  return {
    ready: {},
    run: async (order) => {
      const given = order as DrainOrder | LatencyOrder;
      if ('jobs' in given) return drain(given);
      return given.work === 'send' ? send(given) : started(given);
    },
    stop: async () => {
      await runner?.stop();
      await writers.end();
      await pool.end();
    },
  };
});
