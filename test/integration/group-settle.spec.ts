import { DataSource } from 'typeorm';
import { Outbox } from '../../src/index.js';
import { clear, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';

const EFFECTS = 60;
const script: Partial<Script> = {};
let inbox: TestInbox;

beforeAll(async () => {
  const retry = { base: 1, cap: 1 };
  inbox = await startInbox({
    providers: [scripted(script, { effect: { retry } })],
    webhooks: { relay: { effects: EFFECTS } },
  });
});
afterEach(async () => {
  await clear(inbox.database);
  await expectNoLeak(poolOf(inbox.dataSource));
});
afterAll(() => inbox?.stop());

async function enqueue(count: number): Promise<void> {
  const { manager } = inbox.app.get(DataSource);
  for (let nth = 0; nth < count; nth += 1)
    await inbox.app.get(Outbox).enqueue(manager, 'mail', { nth }, { outsideTransaction: true });
}

/** All effects wait for the last to be called, so that they end together. */
function endTogether(result: (nth: number) => unknown): void {
  let called = 0;
  let release: () => void = () => undefined;
  const all = new Promise<void>((resolve) => (release = resolve));
  script.effect = async (payload) => {
    called += 1;
    if (called === EFFECTS) release();
    await all;
    return result((payload as { nth: number }).nth);
  };
}

describe('effects that end together', () => {
  it('are settled in few statements, each with its own result', async () => {
    await enqueue(EFFECTS);
    endTogether((nth) => (nth % 3 === 0 ? undefined : { nth }));
    expect(await inbox.relay.tick()).toMatchObject({ leased: EFFECTS, done: EFFECTS });
    const [row] = await inbox.query<{ commits: number; results: number; wrong: number }>(
      `SELECT count(DISTINCT o.xmin::text)::int AS commits, count(d.result)::int AS results,
              count(*) FILTER (WHERE d.result::jsonb <> convert_from(d.payload, 'UTF8')::jsonb)::int AS wrong
         FROM webhook_outbox o JOIN webhook_outbox_data d ON d.outbox_id = o.id WHERE o.state = 'done'`,
    );
    expect(row).toMatchObject({ results: (EFFECTS / 3) * 2, wrong: 0 });
    expect(row!.commits).toBeLessThanOrEqual(3);
  });

  it('whose settle had been prepared on a connection that was cleared since are settled all the same, and not called again', async () => {
    let calls = 0;
    script.effect = async () => {
      calls += 1;
      // Of every connection of the pool, as an application does that takes them for its own.
      const { dataSource } = inbox;
      const runners = Array.from({ length: 10 }, () => dataSource.createQueryRunner());
      await Promise.all(runners.map((runner) => runner.query('DISCARD ALL')));
      await Promise.all(runners.map((runner) => runner.release()));
    };
    for (const done of [1, 2]) {
      await enqueue(1);
      expect(await inbox.relay.tick()).toMatchObject({ leased: 1, done: 1 });
      expect(calls).toBe(done);
    }
  });

  it('one whose settle PostgreSQL refuses undoes nothing of the others, which are not called again', async () => {
    await inbox.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN IF NEW.result LIKE '%"nth":7}' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`);
    await inbox.query(
      `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON webhook_outbox_data FOR EACH ROW EXECUTE FUNCTION refuse()`,
    );
    try {
      await enqueue(EFFECTS);
      endTogether((nth) => ({ nth }));
      expect(await inbox.relay.tick()).toMatchObject({ done: EFFECTS - 1, retried: 1 });
    } finally {
      await inbox.query(`DROP FUNCTION refuse CASCADE`);
    }
    const again: unknown[] = [];
    script.effect = (payload) => void again.push(payload);
    await inbox.settle();
    expect(again).toEqual([{ nth: 7 }]);
  });

  it('one whose lease was taken is lost, and no other', async () => {
    await enqueue(EFFECTS);
    endTogether((nth) => ({ nth }));
    const { effect } = script;
    // Before it ends, another relay takes the row: as its lease statement would.
    script.effect = async (payload, context) => {
      if ((payload as { nth: number }).nth === 5)
        await inbox.query(
          `UPDATE webhook_outbox SET attempt = attempt + 1, leased_by = gen_random_uuid() WHERE id = $1`,
          [context.key],
        );
      return effect!(payload, context);
    };
    expect(await inbox.relay.tick()).toMatchObject({ done: EFFECTS - 1, lost: 1 });
    expect(await inbox.rows(`state = 'pending'`)).toMatchObject([{ attempt: 2 }]);
  });
});
