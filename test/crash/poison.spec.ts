import { Outbox } from '../../src/index.js';
import { until } from '../support/application.js';
import { scripted, startInbox, type TestInbox } from '../integration/support/inbox.js';
import { RUN_LOG } from '../integration/support/ordered.work.js';
import { relayProcess, type RelayProcess } from '../integration/support/relay.processes.js';

const GOOD = 100;
const ATTEMPTS = 5;
/** What a kill can take with it: the handlers that one process runs at once, and as many that were leased ahead. */
const IN_HAND = 2 * 7;

describe('case 10 one message that kills its process, among 100 good ones, on two relays that are started again', () => {
  let inbox: TestInbox;
  let kills = 0;
  const state = { over: false };

  /** One of the two: whenever it is killed there is a new one. */
  async function supervise(relays: Map<number, RelayProcess>, place: number): Promise<void> {
    while (!state.over) {
      const relay = await relayProcess(inbox.database.url, { LEASE: '5s' });
      relays.set(place, relay);
      if (state.over) await relay.stop();
      if ((await relay.ended) === 'SIGKILL') kills += 1;
    }
  }

  beforeAll(async () => {
    inbox = await startInbox({
      providers: [scripted({}, { handler: { name: 'mortal' }, effect: false })],
    });
    await inbox.query(RUN_LOG);
    for (let seq = 1; seq <= GOOD; seq += 1) {
      if (seq === 10) await inbox.deliver('poison', 'mortal', { key: 'poison', seq: 0, dies: true });
      await inbox.deliver(`good-${seq}`, 'mortal', { key: 'good', seq });
    }
    const relays = new Map<number, RelayProcess>();
    const supervised = [1, 2].map((place) => supervise(relays, place));
    try {
      await until(async () => (await inbox.rows(`state = 'pending'`)).length === 0, 150_000);
    } finally {
      state.over = true;
      await Promise.all([...relays.values()].map((relay) => relay.stop()));
      await Promise.all(supervised);
    }
  }, 180_000);
  afterAll(() => inbox?.stop());

  it('it is dead when its attempts are used up, each of them a process', async () => {
    expect(await inbox.rows(`event_id = 'poison'`)).toMatchObject([
      { state: 'dead', reason: 'last-attempt-lost', attempt: ATTEMPTS, lost: ATTEMPTS },
    ]);
    expect(kills).toBe(ATTEMPTS);
    expect(await inbox.query(`SELECT FROM run_log WHERE key = 'poison'`)).toHaveLength(ATTEMPTS);
  });

  it('all others are done: none dead, none with a loss that counts', async () => {
    expect(await inbox.rows(`event_id <> 'poison' AND state = 'done'`)).toHaveLength(GOOD);
    const [worst] = await inbox.query<{ ended: number; runs: number }>(
      `SELECT max(ended)::int AS ended, max(runs)::int AS runs FROM (
         SELECT seq, count(*) AS runs, count(*) FILTER (WHERE ended_at IS NOT NULL) AS ended
           FROM run_log WHERE key = 'good' GROUP BY seq) each`,
    );
    // A failure on purpose, a success, and one loss beside the poison.
    expect(worst!.ended).toBe(2);
    expect(worst!.runs).toBeLessThanOrEqual(3);
  });

  it('it takes others with it twice at most: once found out, it runs with nothing beside it', async () => {
    const [{ lost }] = (await inbox.query(
      `SELECT sum(lost)::int AS lost FROM webhook_outbox WHERE event_id <> 'poison'`,
    )) as [{ lost: number }];
    // Not vacuous: it did not run by itself when nothing was known about it.
    expect(lost).toBeGreaterThan(0);
    expect(lost).toBeLessThanOrEqual(2 * (IN_HAND - 1));
    const beside = await inbox.query(
      `SELECT p.attempt, count(*)::int FROM run_log p JOIN run_log g ON g.pid = p.pid AND g.key = 'good' AND g.ended_at IS NULL
        WHERE p.key = 'poison' AND p.attempt > 2 GROUP BY p.attempt`,
    );
    expect(beside).toEqual([]);
  });
});

describe('case 14 a process is killed with 20 rows in hand', () => {
  const ROWS = 20;

  it('another that looks once when their leases have ended does all of them, one after the other without a poll between, each counted as lost once', async () => {
    const inbox = await startInbox({ providers: [scripted({})] });
    const runs = (where: string) => inbox.query<{ pid: number }>(`SELECT pid FROM run_log WHERE ${where}`);
    const relays: RelayProcess[] = [];
    const relay = async (env: Record<string, string> = {}) => {
      // With places that are kept for the other effects.
      const started = await relayProcess(inbox.database.url, {
        LEASE: '3s',
        EFFECTS: String(2 * ROWS),
        ...env,
      });
      relays.push(started);
      return started;
    };
    try {
      await inbox.query(RUN_LOG);
      for (let seq = 1; seq <= ROWS; seq += 1)
        await inbox.app
          .get(Outbox)
          .enqueue(inbox.dataSource.manager, 'mail', { key: 'k', seq }, { outsideTransaction: true });
      const killed = await relay();
      await until(async () => (await runs('true')).length === ROWS, 60_000);
      // Not vacuous: it holds them all.
      expect(await inbox.rows(`leased_by IS NOT NULL AND lease_until > now()`)).toHaveLength(ROWS);
      process.kill(killed.pid, 'SIGKILL');
      expect(await killed.ended).toBe('SIGKILL');
      await until(
        async () => (await inbox.rows(`leased_by IS NOT NULL AND lease_until > now()`)).length === 0,
        60_000,
      );
      const other = await relay({ POLL: '1h' });
      await until(async () => (await inbox.rows(`state = 'done'`)).length === ROWS, 60_000);
      expect(await inbox.rows('lost = 1 AND attempt = 2')).toHaveLength(ROWS);
      expect((await runs('attempt = 2 AND ok')).map(({ pid }) => pid)).toEqual(
        Array.from({ length: ROWS }, () => other.pid),
      );
      expect(
        await inbox.query(
          `SELECT a.id FROM run_log a JOIN run_log b ON b.id > a.id AND b.started_at < a.ended_at`,
        ),
      ).toEqual([]);
    } finally {
      await Promise.all(relays.map((one) => one.stop()));
      await inbox.stop();
    }
  }, 180_000);
});
