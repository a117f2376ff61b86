import { asana, hmac, Inbox, type WebhookEvent } from '../../src/index.js';
import { Latch } from '../support/latch.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
import { awardeeSource, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const never = () => new Promise<never>(() => undefined);
const UNAVAILABLE = { status: 503, body: { status: 'unavailable' } };

describe('what an answer waits for is bounded', () => {
  const script: Partial<Script> = {};
  let inbox: TestInbox;
  const batch = (options: Partial<Parameters<typeof hmac>[0]> = {}) =>
    hmac({
      secrets: [AWARDEE_SECRET],
      signatureHeader: 'X-Awardee-Signature',
      eventsPath: 'events',
      idPath: 'id',
      typePath: 'type',
      ackTimeout: '3s',
      ...options,
    });
  const deliver = (source: string, ids: readonly string[]) => {
    const { headers, body } = awardee('', '', { events: ids.map((id) => ({ id, type: 'thing.made' })) });
    return inbox.app.get(Inbox).receive(source, { headers, rawBody: body });
  };

  beforeAll(async () => {
    inbox = await startInbox({
      providers: [scripted(script, { handler: { inline: true }, sources: ['own', 'theirs'] })],
      webhooks: {
        claimTimeout: '1s',
        sources: {
          own: batch(),
          theirs: batch({ retries: 'provider' }),
          vault: awardeeSource({ secrets: never }),
          asana: asana({ secrets: [AWARDEE_SECRET], onHandshake: never }),
        },
      },
    });
  });
  afterAll(() => inbox?.stop());

  it.each([
    ['own', 200, { status: 'ok' }, ['own-1', 'own-2', 'own-3']],
    ['theirs', 500, { status: 'failed' }, ['theirs-1']],
  ] as const)(
    'the events of one body have one time together: under retries: %s the rest is not begun',
    async (source, status, body, claimed) => {
      const begun: string[] = [];
      const latch = new Latch();
      script.handle = async ({ eventId }: WebhookEvent) => {
        begun.push(eventId);
        await latch.wait();
      };
      expect(
        await deliver(
          source,
          [1, 2, 3].map((n) => `${source}-${n}`),
        ),
      ).toEqual({ status, body });
      latch.open();
      expect(begun).toEqual([`${source}-1`]);
      const claims = await inbox.query<{ event_id: string }>(
        `SELECT event_id FROM webhook_claim WHERE source = $1 ORDER BY event_id`,
        [source],
      );
      expect(claims.map(({ event_id }) => event_id)).toEqual(claimed);
      expect(await inbox.rows(`source = '${source}' AND state = 'pending'`)).toHaveLength(claimed.length);

      script.handle = () => undefined;
      expect(
        (
          await deliver(
            source,
            [1, 2, 3].map((n) => `${source}-${n}`),
          )
        ).status,
      ).toBe(200);
      await inbox.settle();
      expect(await inbox.rows(`source = '${source}' AND state = 'done'`)).toHaveLength(3);
    },
  );

  it('a function of the application’s that gives no secrets', async () => {
    expect(await inbox.deliverTo('vault', '1')).toMatchObject(UNAVAILABLE);
  });

  it('a handshake that the application does not answer', async () => {
    const request = { headers: { 'X-Hook-Secret': 'offered' }, rawBody: Buffer.from('{}') };
    expect(await inbox.app.get(Inbox).receive('asana', request)).toMatchObject(UNAVAILABLE);
  });
});
