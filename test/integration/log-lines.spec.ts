import type { INestApplication } from '@nestjs/common';
import { Pauses, PermanentError, type PauseKind } from '../../src/index.js';
import { holdPool } from './support/pool.js';
import { awardeeSource, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

describe('R38 the log traces an event from end to end', () => {
  const script: Partial<Script> = {};
  const lines: string[] = [];
  const keep = (line: unknown) => void lines.push(String(line));
  const stacks: string[] = [];
  let inbox: TestInbox;

  beforeAll(async () => {
    inbox = await startInbox({
      providers: [scripted(script, { sources: ['awardee', 'strict'] })],
      webhooks: {
        claimTimeout: '500ms',
        sources: { awardee: awardeeSource(), strict: awardeeSource({ retries: 'provider' }) },
      },
      configure: (app: INestApplication) =>
        app.useLogger({
          log: keep,
          warn: keep,
          error: keep,
          debug: (text: unknown) => void stacks.push(String(text)),
        }),
    });
  });
  beforeEach(() => {
    lines.length = 0;
    stacks.length = 0;
  });
  afterAll(() => inbox?.stop());

  it('each line about an event carries its source and id, and each about a row that and the attempt', async () => {
    const row = (await tracedRows())[0]!;
    const traced: [RegExp, boolean][] = [
      [/^claimed /, false],
      [/^duplicate /, false],
      [/^attempt failed: not yet /, true],
      [/^handled /, true],
      [/^effect done /, true],
      [/^answered 503: /, false],
    ];
    for (const [beginning, ofRow] of traced) {
      const about = lines.filter((line) => beginning.test(line));
      expect([beginning, about]).not.toEqual([beginning, []]);
      for (const line of about) {
        expect(line).toMatch(/ source=(awardee|strict) /);
        expect(line).toMatch(/ event=evt-[12]( |$)/);
        if (ofRow) expect(line).toMatch(/ outbox=[0-9a-f-]{36} .*attempt=\d+/);
      }
    }
    expect(lines.filter((line) => line.includes(`outbox=${row.id}`))).toHaveLength(2);
    // A duplicate's own id and rows are in no table.
    for (const line of lines.filter((each) => each.startsWith('duplicate ')))
      expect(line).not.toMatch(/ (id|rows)=/);
    expect(
      lines.filter((line) => line.includes('answered 503') && line.includes('event=evt-2')),
    ).toHaveLength(1);
  });

  it.each([
    ['source', 'strict'],
    ['handler', 'awardee/handle'],
  ] as [PauseKind, string][])(
    'a pause of a %s is told of when it changes something, and else that it does not',
    async (kind, name) => {
      const pauses = inbox.app.get(Pauses);
      const told = async (act: 'pause' | 'resume') => {
        const before = lines.length;
        await pauses[act](kind, name, { by: 'ann', reason: 'deploy' });
        return lines.slice(before).filter((line) => line.includes('by=ann'));
      };
      const facts = `kind=${kind} name=${name} by=ann reason=deploy`;
      expect(await told('resume')).toEqual([`nothing changed: it was not paused ${facts}`]);
      expect(await told('pause')).toEqual([`paused ${facts}`]);
      expect(await told('pause')).toEqual([`nothing changed: it was paused already ${facts}`]);
      expect(await told('resume')).toEqual([`resumed ${facts}`]);
      expect(await told('resume')).toEqual([`nothing changed: it was not paused ${facts}`]);
    },
  );

  it('a failed attempt says where in the application its error comes from, and at debug level the whole way', async () => {
    // A path with a space stands in quotes.
    const spec = /\/test\/integration\/log-lines\.spec\.ts:\d+:\d+/;
    script.handle = async (_event, { attempt, enqueue }) => {
      if (attempt === 1) nameOf(undefined as never);
      await enqueue('mail', {});
    };
    script.effect = (_payload, { attempt }) => {
      if (attempt === 1) nameOf(undefined as never);
    };
    await inbox.deliver('evt-3');
    await inbox.relay.tick();
    for (const { error } of await inbox.rows(`event_id = 'evt-3'`)) expect(error).not.toMatch(spec);
    await inbox.settle();
    const failed = lines.filter((line) => line.startsWith('attempt failed: TypeError: '));
    expect(failed).toHaveLength(2);
    for (const line of failed) expect(line).toMatch(new RegExp(` at=.+${spec.source}"?$`));
    expect(stacks).toHaveLength(2);
    for (const stack of stacks) {
      expect(stack).toMatch(/^the stack of it .*attempt=1\n {4}at .*log-lines\.spec\.ts/);
      expect(stack).toMatch(/ {4}at .*\.runner\.ts/);
    }
  });

  it('a query that fails says where the application asked for it', async () => {
    script.handle = async (_event, { manager }) => {
      await manager.query('SELECT 1 / 0');
    };
    await inbox.deliver('evt-4');
    await inbox.relay.tick();
    const failed = lines.filter((line) => line.includes(': division by zero '));
    expect(failed).toHaveLength(1);
    expect(failed[0]).toMatch(/ at=.+\/log-lines\.spec\.ts:\d+:\d+"?$/);
  });

  it.each([
    ['awardee', /\d+ ms/, new Error('not yet')],
    ['strict', /the provider's redelivery/, new Error('not yet')],
    ['strict', /dead/, new PermanentError('never')],
  ])('a failed attempt at %s says what comes next: %s', async (source, next, error) => {
    script.handle = () => Promise.reject(error);
    await inbox.deliverTo(source, `next-${error.message}`);
    await inbox.relay.tick();
    // A slow machine also sees the next attempt of the case before.
    const failed = lines.filter(
      (line) => line.startsWith('attempt failed: ') && line.includes(` source=${source} `),
    );
    expect(failed).toHaveLength(1);
    expect(failed[0]).toMatch(new RegExp(` next="?${next.source}"? at=`));
  });

  async function tracedRows() {
    script.handle = async (_event, { attempt, enqueue }) => {
      if (attempt === 1) throw new Error('not yet');
      await enqueue('mail', {});
    };
    await inbox.deliver('evt-1');
    await inbox.deliver('evt-1');
    await inbox.settle();
    const giveBack = await holdPool(inbox.dataSource);
    try {
      expect((await inbox.deliver('evt-2')).status).toBe(503);
    } finally {
      await giveBack();
    }
    return inbox.rows(`kind = 'handler' AND event_id = 'evt-1'`);
  }
});

const nameOf = (profile: { full_name: string }) => profile.full_name;
