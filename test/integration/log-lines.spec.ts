import type { INestApplication } from '@nestjs/common';
import { Pauses, type PauseKind } from '../../src/index.js';
import { holdPool } from './support/pool.js';
import { awardeeSource, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

describe('R38 the log traces an event from end to end', () => {
  const script: Partial<Script> = {};
  const lines: string[] = [];
  const keep = (line: unknown) => void lines.push(String(line));
  let inbox: TestInbox;

  beforeAll(async () => {
    inbox = await startInbox({
      providers: [scripted(script, { sources: ['awardee', 'strict'] })],
      webhooks: {
        claimTimeout: '500ms',
        sources: { awardee: awardeeSource(), strict: awardeeSource({ retries: 'provider' }) },
      },
      configure: (app: INestApplication) => app.useLogger({ log: keep, warn: keep, error: keep }),
    });
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
