import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Outbox, Parked, PermanentError, Revivals, type EffectOptions } from '../../src/index.js';
import type { ProbeAnswer } from '../../src/core/options/work-options.js';
import { until } from '../support/application.js';
import { transactionHeld } from '../support/open-transactions.js';
import { Latch } from '../support/latch.js';
import { scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';
import { relayProcess } from './support/relay.processes.js';

const who = { by: 'a test', reason: 'to see' };
const noAnswer = () => {
  throw new Error('the connection broke');
};

let inbox: TestInbox;
let script: Partial<Script>;
let calls: number;
let asked: string[];
let answers: (ProbeAnswer | Error)[];

async function start(effect: EffectOptions): Promise<void> {
  inbox = await startInbox({ providers: [scripted(script, { effect })] });
}

/** Enqueues the effect, and gives its id. */
async function owe(payload: unknown = {}): Promise<string> {
  return (
    await inbox.app
      .get(Outbox)
      .enqueue(inbox.dataSource.manager, 'mail', payload, { outsideTransaction: true })
  ).id;
}

async function probe(_payload: unknown, { key }: { key: string }): Promise<ProbeAnswer> {
  asked.push(key);
  const answer = answers.shift()!;
  if (answer instanceof Error) throw answer;
  return answer;
}

const row = async () => (await inbox.rows())[0]!;
const result = async () =>
  (await inbox.query<{ result: string }>(`SELECT result FROM webhook_outbox_data`))[0]?.result;
const attempt = async () => {
  await inbox.makeDue();
  return inbox.relay.tick();
};
/** As if the process had been killed in the middle of the attempt. */
async function loseAttempt(): Promise<void> {
  await inbox.query(`
    UPDATE webhook_outbox SET attempt = attempt + 1, leased_by = gen_random_uuid(), lease_until = now(), begun_at = now(),
           first_leased_at = coalesce(first_leased_at, now())`);
}

beforeEach(() => {
  calls = 0;
  asked = [];
  answers = [];
  script = {
    effect: () => {
      calls += 1;
      return noAnswer();
    },
  };
});
afterEach(() => inbox?.stop());

describe('R31 an attempt that was begun and never ended is asked about first', () => {
  it('done: the effect is not called again', async () => {
    await start({ probe });
    const id = await owe();
    await loseAttempt();
    answers = ['done'];
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([calls, asked]).toEqual([0, [id]]);
  });

  it('done, with what was done: kept as if the effect had returned it', async () => {
    await start({ probe });
    await owe();
    await loseAttempt();
    answers = [{ done: { sent: 'm-1' } }];
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([calls, await result()]).toEqual([0, '{"sent":"m-1"}']);
  });

  it('done, with a completion: it commits with the settle, once, and one that fails leaves nothing and comes again', async () => {
    const outcomes = ['fails', 'commits'];
    const write: EffectOptions['probe'] = async (_payload, { complete }) => {
      asked.push('probe');
      await complete(async ({ manager, result: found, enqueue }) => {
        await manager.query(
          `INSERT INTO received_event (source, event_id, event_type) VALUES ('probe', $1, '')`,
          [(found as { sent: string }).sent],
        );
        await enqueue('mail', { follow: 'up' });
        if (outcomes.shift() === 'fails') throw new Error('on purpose');
      });
      return { done: { sent: 'm-1' } };
    };
    script.effect = (payload, { previous, complete }) => {
      calls += 1;
      if ((payload as { follow?: string }).follow !== undefined) return 'followed';
      expect(previous).toEqual({ result: { sent: 'm-1' } });
      return complete(async ({ manager }) =>
        manager.query(
          `INSERT INTO received_event (source, event_id, event_type) VALUES ('method', 'm-1', '')`,
        ),
      );
    };
    await start({ probe: write });
    const id = await owe();
    await loseAttempt();
    expect(await attempt()).toMatchObject({ done: 0 });
    expect(await inbox.query('SELECT FROM received_event')).toEqual([]);
    // Its result is kept by now: the method completes what it need not do again.
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(await inbox.query('SELECT source FROM received_event')).toEqual([{ source: 'method' }]);
    expect(asked).toEqual(['probe']);

    await inbox.query(`TRUNCATE received_event, webhook_outbox, webhook_outbox_data`);
    calls = 0;
    await owe();
    await loseAttempt();
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(calls).toBe(0);
    expect(await inbox.query('SELECT source, event_id FROM received_event')).toEqual([
      { source: 'probe', event_id: 'm-1' },
    ]);
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(await inbox.rows(`state = 'done' AND parent_id IS NOT NULL`)).toHaveLength(1);
    expect(id).not.toBe('');
  });

  it('not done: what its probe would have completed is dropped', async () => {
    script.effect = () => 'called';
    await start({
      probe: async (_payload, { complete }) => {
        await complete(() => {
          throw new Error('nobody is to call me');
        });
        return 'not-done';
      },
    });
    await owe();
    await loseAttempt();
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(await result()).toBe('"called"');
  });

  it('not done: it is called, under the same key', async () => {
    script.effect = (_, { key }) => key;
    await start({ probe });
    const id = await owe();
    await loseAttempt();
    answers = ['not-done'];
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(await result()).toBe(JSON.stringify(id));
  });

  it.each([
    ['retry', 'called again under its key', 'done', 1],
    ['park', 'left to a person', 'parked', 0],
  ] as const)("unknown, with inDoubt: '%s': %s", async (inDoubt, _, state, called) => {
    script.effect = () => void (calls += 1);
    await start({ probe, inDoubt });
    await owe();
    await loseAttempt();
    answers = ['unknown'];
    await attempt();
    expect([(await row()).state, calls]).toEqual([state, called]);
  });

  it('a probe that fails: the attempt has failed without a call, and the next one asks again', async () => {
    script.effect = () => void (calls += 1);
    await start({ probe });
    await owe();
    await loseAttempt();
    answers = [
      new Error('no answer'),
      Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }),
      'not-done',
    ];
    expect(await attempt()).toMatchObject({ retried: 1 });
    expect(await attempt()).toMatchObject({ retried: 1 });
    expect(calls).toBe(0);
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([calls, asked.length]).toEqual([1, 3]);
  });

  it('without an attempt in doubt nobody is asked; with probeFirst before every attempt, the first included', async () => {
    script.effect = () => void (calls += 1);
    await start({ probe });
    await owe();
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([calls, asked]).toEqual([1, []]);
    await inbox.stop();
    await start({ probe, probeFirst: true });
    await owe();
    answers = ['done'];
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([calls, asked.length]).toEqual([1, 1]);
  });
});

describe('an effect whose lease was taken before its call', () => {
  it('is not called: whoever has the row makes the call', async () => {
    await start({
      probeFirst: true,
      probe: async () => {
        await inbox.query(`UPDATE webhook_outbox SET attempt = attempt + 1, leased_by = gen_random_uuid()`);
        return 'not-done';
      },
    });
    await owe();
    const { leased } = await inbox.relay.tick();
    expect({ leased, calls }).toEqual({ leased: 1, calls: 0 });
    expect(await row()).toMatchObject({ state: 'pending', attempt: 2, error: null });
  });
});

describe('what an effect throws', () => {
  it.each([
    ['a time-out', Object.assign(new Error('time-out'), { code: 'ETIMEDOUT' })],
    ['a reset connection', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
    ['a 500', Object.assign(new Error('oops'), { status: 500 })],
    ['an unknown error', new Error('what?')],
    // It may be a cache's, after the call was made.
    ['a refused connection', Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })],
  ])('%s leaves it in doubt: parked, and a person is told that it may happen twice', async (_, error) => {
    script.effect = () => Promise.reject(error);
    await start({ inDoubt: 'park' });
    const outboxId = await owe();
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(await row()).toMatchObject({ state: 'parked', reason: 'in-doubt', settled_at: null });
    const twice: unknown = expect.stringMatching(/; another attempt may do it twice$/);
    expect(inbox.alerts).toMatchObject([{ kind: 'parked', outboxId, reason: 'in-doubt', error: twice }]);
    expect(await attempt()).toMatchObject({ leased: 0 });
  });

  it.each([
    ['an error that says notDone', Object.assign(new Error('refused'), { notDone: true }), 'pending'],
    ['a 429', Object.assign(new Error('slow down'), { status: 429 }), 'pending'],
    ['a 422', Object.assign(new Error('bad'), { status: 422 }), 'dead'],
    ['PermanentError', new PermanentError('no'), 'dead'],
  ])('%s says that nothing was done: no doubt', async (_, error, state) => {
    script.effect = () => Promise.reject(error);
    await start({ inDoubt: 'park', probe });
    await owe();
    await attempt();
    expect(await row()).toMatchObject({ state, begun_at: null });
  });

  it('a refused attempt does not clear the doubt about the one before it', async () => {
    const errors = [new Error('no answer'), Object.assign(new Error('refused'), { notDone: true })];
    script.effect = () => Promise.reject(errors.shift()!);
    await start({ probe });
    await owe();
    await attempt();
    answers = ['unknown', { done: 'first' }];
    await attempt();
    expect(await attempt()).toMatchObject({ done: 1 });
    expect([asked.length, await result()]).toEqual([2, '"first"']);
  });

  it('attempts used up in doubt end with a person, not dead', async () => {
    await start({ inDoubt: 'park', probe, retry: { maxAttempts: 2 } });
    await owe();
    expect(await attempt()).toMatchObject({ retried: 1 });
    answers = ['not-done'];
    expect(await attempt()).toMatchObject({ parked: 1 });
  });
});

describe('Parked.decide', () => {
  beforeEach(async () => {
    await start({ inDoubt: 'park', retry: { maxAttempts: 1 } });
    await owe();
    await attempt();
  });
  const decide = async (decision: 'retry' | 'done' | 'dead') =>
    inbox.app.get(Parked).decide((await row()).id, decision, who);

  it('retry: it runs again under its key, with new attempts', async () => {
    script.effect = (_, { key }) => key;
    const { id } = await row();
    expect(await decide('retry')).toBe(true);
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(await result()).toBe(JSON.stringify(id));
  });

  it.each(['done', 'dead'] as const)('%s: it is that, and does not run', async (decision) => {
    expect(await decide(decision)).toBe(true);
    expect(await attempt()).toMatchObject({ leased: 0 });
    expect(await row()).toMatchObject({ state: decision, settled_at: expect.any(Date) });
    expect(await decide('retry')).toBe(false);
    expect(calls).toBe(1);
  });
});

describe('the time for which the other side remembers a key', () => {
  const age = (interval: string) =>
    inbox.query(`UPDATE webhook_outbox SET first_leased_at = now() - $1::interval`, [interval]);

  it('an attempt that would come after it is not made: parked', async () => {
    await start({ keyRetention: '24h' });
    await owe();
    await attempt();
    await age('25 hours');
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(await row()).toMatchObject({
      reason: 'key-expired',
      error: 'the other side may have forgotten the key; another attempt may do it twice',
    });
    expect(calls).toBe(1);
  });

  it('nor is one planned that might', async () => {
    await start({ keyRetention: '24h' });
    await owe();
    await attempt();
    await age('23 hours 59 minutes 30 seconds');
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(calls).toBe(2);
  });

  it('a dead effect that is revived after it is parked, not run', async () => {
    await start({ retry: { maxAttempts: 1 } });
    const id = await owe();
    await attempt();
    await age('2 days');
    expect(await inbox.app.get(Revivals).revive([id], who)).toEqual([id]);
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(calls).toBe(1);
  });

  it('a person may have it run all the same, and its time starts anew', async () => {
    await start({});
    const id = await owe();
    await attempt();
    await age('2 days');
    await attempt();
    await inbox.app.get(Parked).decide(id, 'retry', who);
    expect(await attempt()).toMatchObject({ retried: 1 });
    expect(calls).toBe(2);
  });

  it.each([
    ['keyRetention: false', { keyRetention: false }],
    ['a probe that says it was not done', { probe, probeFirst: true }],
  ] as const)('does not matter with %s', async (_, options) => {
    answers = ['not-done', 'not-done'];
    await start(options);
    await owe();
    await attempt();
    await age('2 days');
    await attempt();
    expect(calls).toBe(2);
  });
});

describe('an end that comes late', () => {
  let latch: Latch;
  beforeEach(() => {
    latch = new Latch();
    script.effect = async (_payload, { attempt: number }) => {
      calls += 1;
      if (number === 1) await latch.wait();
      return `attempt ${number}`;
    };
  });

  it.each([
    ['a parked row', 'park'],
    ['a row that waits for its retry', 'retry'],
  ] as const)('settles %s of the same attempt', async (_, inDoubt) => {
    await start({ inDoubt, timeout: 50, retry: { base: '1h' } });
    await owe();
    await inbox.relay.tick();
    expect((await row()).state).toBe(inDoubt === 'park' ? 'parked' : 'pending');
    latch.open();
    await until(async () => (await row()).state === 'done');
    expect([await result(), calls]).toEqual(['"attempt 1"', 1]);
  });

  it.each([
    ['park', 'parked'],
    ['retry', 'dead'],
  ] as const)(
    "whose result cannot be kept for its completion (inDoubt: '%s') leaves the row %s: nothing calls again by itself",
    async (inDoubt, state) => {
      let completed = 0;
      script.effect = async (_payload, context) => {
        calls += 1;
        await context.complete(() => (completed += 1));
        await latch.wait();
        return { cents: 1n };
      };
      await start({ inDoubt, timeout: 50, retry: { base: '1h' } });
      await owe();
      await inbox.relay.tick();
      latch.open();
      if (state === 'dead') await until(async () => (await row()).state === 'dead');
      else await pause(200);
      expect(await row()).toMatchObject({ state });
      await attempt();
      expect([calls, completed]).toEqual([1, 0]);
    },
  );

  it('changes nothing once another attempt was made', async () => {
    await start({ timeout: 50 });
    await owe();
    await inbox.relay.tick();
    script.effect = () => noAnswer();
    await attempt();
    const before = await inbox.rows();
    latch.open();
    await pause(200);
    expect(await inbox.rows()).toEqual(before);
    expect(await result()).toBeNull();
  });

  it.each(['park', 'retry'] as const)(
    "with a completion (inDoubt: '%s') is not done before that has committed: the next attempt gets its result",
    async (inDoubt) => {
      const previous: unknown[] = [];
      script.effect = async (_payload, context) => {
        previous.push(context.previous);
        await context.complete(({ manager, result: value }) =>
          manager.query(
            `INSERT INTO received_event (source, event_id, event_type) VALUES ('late', '1', $1)`,
            [value],
          ),
        );
        if (context.attempt === 1) await latch.wait();
        return context.previous?.result ?? 'sent once';
      };
      await start({ inDoubt, timeout: 200, retry: { base: '1h' } });
      await owe();
      await inbox.relay.tick();
      latch.open();
      await until(async () => (await result()) !== undefined && (await row()).state === 'pending');
      expect(await inbox.query('SELECT FROM received_event')).toEqual([]);
      expect(await attempt()).toMatchObject({ done: 1 });
      expect(await inbox.query('SELECT event_type FROM received_event')).toEqual([
        { event_type: 'sent once' },
      ]);
      expect(previous).toEqual([undefined, { result: 'sent once' }]);
    },
  );
});

describe('a completion that fails', () => {
  let broken: boolean;
  beforeEach(() => {
    broken = true;
    script.effect = async (_payload, { complete, previous }) => {
      await complete(() => {
        if (broken) throw new Error('not now');
      });
      calls += previous === undefined ? 1 : 0;
      return previous?.result ?? 'sent';
    };
  });

  it('leaves no doubt about the call, whose result is kept', async () => {
    await start({ inDoubt: 'park' });
    await owe();
    expect(await attempt()).toMatchObject({ retried: 1 });
    expect(await attempt()).toMatchObject({ retried: 1 });
    broken = false;
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(calls).toBe(1);
  });

  it('waits for a person when the key may be forgotten: a method that ignores `previous` would do it a second time', async () => {
    script.effect = async (_payload, { complete }) => {
      calls += 1;
      await complete(() => {
        if (broken) throw Object.assign(new Error('no'), { status: 422 });
      });
    };
    await start({ keyRetention: '24h' });
    const id = await owe();
    expect(await attempt()).toMatchObject({ dead: 1 });
    await inbox.query(`UPDATE webhook_outbox SET first_leased_at = now() - interval '40 days'`);
    await inbox.app.get(Revivals).revive([id], who);
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(await row()).toMatchObject({ state: 'parked', reason: 'key-expired' });
    expect(calls).toBe(1);
  });

  it('since it cannot be given the result: dead whatever the classifier says, and one that is revived asks before it calls', async () => {
    script.effect = async (_payload, { complete }) => {
      calls += 1;
      await complete(() => undefined);
      return { cents: 1n };
    };
    await start({ inDoubt: 'park', classify: () => 'transient' });
    const id = await owe();
    expect(await attempt()).toMatchObject({ dead: 1 });
    await inbox.app.get(Revivals).revive([id], who);
    expect(await attempt()).toMatchObject({ parked: 1 });
    expect(calls).toBe(1);
  });

  it('nor is another attempt planned for after that time, and what was kept is there when the person has it run', async () => {
    await start({ keyRetention: '2h', retry: { maxAttempts: 3 } });
    const id = await owe();
    await attempt();
    await inbox.query(
      `UPDATE webhook_outbox SET first_leased_at = now() - interval '119 minutes 30 seconds'`,
    );
    expect(await attempt()).toMatchObject({ parked: 1 });
    broken = false;
    await inbox.app.get(Parked).decide(id, 'retry', who);
    expect(await attempt()).toMatchObject({ done: 1 });
    expect(calls).toBe(1);
  });
});

describe('R31 a process that is killed between the call and its settle', () => {
  let sink: Server;
  let url: string;
  let seen: { key: string; body: string }[];
  let held: boolean[];

  beforeEach(async () => {
    seen = [];
    held = [];
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      const key = request.url!.slice(1);
      if (request.method === 'GET') {
        response.statusCode = seen.some((one) => one.key === key) ? 200 : 404;
        return response.end();
      }
      let body = '';
      for await (const chunk of request) body += String(chunk);
      seen.push({ key, body });
      held.push(await transactionHeld(inbox));
      return response.end('{}');
    };
    sink = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`;
    inbox = await startInbox({});
  });
  afterEach(async () => {
    await new Promise((resolve) => sink.close(resolve));
  });

  /** As a handler of that process would enqueue it. */
  async function enqueue(name: string): Promise<void> {
    await inbox.query(
      `WITH row AS (INSERT INTO webhook_outbox (id, kind, name) VALUES (gen_random_uuid(), 'effect', $1) RETURNING id)
       INSERT INTO webhook_outbox_data (outbox_id, payload) SELECT id, '{"dies": true}' FROM row`,
      [name],
    );
  }

  it('is found done by the probe of the next one: case 11 one call, no transaction open during it', async () => {
    await enqueue('asked');
    const first = await relayProcess(inbox.database.url, { SINK_URL: url, LEASE: '3s' });
    expect(await first.ended).toBe('SIGKILL');
    expect(await row()).toMatchObject({ state: 'pending', begun_at: expect.any(Date) });
    await inbox.query(`UPDATE webhook_outbox SET lease_until = now()`);
    const second = await relayProcess(inbox.database.url, { SINK_URL: url });
    try {
      await until(async () => (await row()).state === 'done', 30_000);
    } finally {
      await second.stop();
    }
    expect(seen).toHaveLength(1);
    expect(held).toEqual([false]);
    expect(await row()).toMatchObject({ attempt: 2, lost: 1 });
  }, 90_000);

  it("with inDoubt: 'park' waits for a person, also when that was its last attempt", async () => {
    await enqueue('pay');
    const first = await relayProcess(inbox.database.url, { SINK_URL: url });
    expect(await first.ended).toBe('SIGKILL');
    await inbox.query(`UPDATE webhook_outbox SET lease_until = now()`);
    const second = await relayProcess(inbox.database.url, { SINK_URL: url });
    try {
      await until(async () => (await row()).state === 'parked', 30_000);
    } finally {
      await second.stop();
    }
    expect(await row()).toMatchObject({ reason: 'in-doubt', settled_at: null, leased_by: null });
    expect(seen).toHaveLength(1);
  }, 90_000);
});
