// pg-boss with batches of 1000 and two workers.
import { PgBoss } from 'pg-boss';
import pg from 'pg';
import type { DrainOrder, DrainResult } from '../programs/worker.js';
import { serve } from '../support/program.js';

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

await serve(async ({ databaseUrl }: { databaseUrl: string }) => {
  const boss = new PgBoss({ connectionString: databaseUrl, max: 9 });
  // Its own statistics are looked at once a minute.
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  pool.on('error', () => undefined);
  boss.on('error', console.error);
  await boss.start();
  await boss.createQueue('nothing');
  let count = 0;
  let firstAt = 0;
  for (let worker = 0; worker < 2; worker += 1) {
    await boss.work('nothing', { batchSize: 1_000, pollingIntervalSeconds: 0.5 }, async (jobs) => {
      if (count === 0) firstAt = performance.now();
      count += jobs.length;
    });
  }
  return {
    ready: {},
    run: async (order): Promise<Pick<DrainResult, 'seconds' | 'jobs'>> => {
      const { jobs } = order as DrainOrder;
      count = 0;
      await boss.insert(
        'nothing',
        Array.from({ length: jobs }, () => ({ data: { n: 1 } })),
      );
      while (count < jobs) await pause(2);
      for (;;) {
        const { rows } = await pool.query(`SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1`);
        if (rows.length === 0) break;
        await pause(2);
      }
      return { seconds: (performance.now() - firstAt) / 1_000, jobs };
    },
    stop: async () => {
      await pool.end();
      await boss.stop({ graceful: false });
    },
  };
});
