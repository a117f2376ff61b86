import type { Alert } from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import { DUPLICATE, OK, Receiver } from '../support/receiver.js';
import { githubEvent, sesmetric, stripeEvent } from '../support/signing.js';
import { githubSource, sesmetricSource, stripeSource } from '../support/sources.js';

describe.each(ADAPTERS)('deliveries that contradict what is known, over HTTP on %s', (adapter) => {
  let receiver: Receiver;
  const alerts: Alert[] = [];

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      webhooks: {
        onAlert: (alert) => void alerts.push(alert),
        sources: {
          github: githubSource(),
          strict: githubSource({ suspectedReplays: 'refuse' }),
          stripe: stripeSource(),
          sesmetric: sesmetricSource(),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());
  beforeEach(() => {
    alerts.length = 0;
  });

  const conflicts = (eventId: string) =>
    receiver.query(`SELECT kind, deliveries FROM webhook_conflict WHERE event_id = $1 ORDER BY first_at`, [
      eventId,
    ]);
  const storedBody = async (eventId: string) => {
    const [claim] = await receiver.query<{ body: Buffer }>(
      `SELECT body FROM webhook_claim WHERE event_id = $1`,
      [eventId],
    );
    return claim!.body.toString();
  };

  describe('the same id with other bytes', () => {
    it('is recorded where the provider’s retries repeat the bytes: the first stay, the answer is duplicate', async () => {
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 1 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 2 }))).toBe(DUPLICATE);
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 2 }))).toBe(DUPLICATE);
      expect(await conflicts('guid-1')).toEqual([{ kind: 'other-bytes', deliveries: 2 }]);
      expect(await storedBody('guid-1')).toBe('{"n":1}');
      expect(alerts[0]).toEqual({
        kind: 'conflict',
        conflict: 'other-bytes',
        event: { source: 'github', tenant: '', eventId: 'guid-1' },
      });
    });

    it('is nothing to speak of when the bytes are the same', async () => {
      for (const reply of [OK, DUPLICATE])
        expect(await receiver.deliver('github', githubEvent('guid-2', 'push', { n: 3 }))).toBe(reply);
      expect(await conflicts('guid-2')).toEqual([]);
      expect(alerts).toEqual([]);
    });

    it('is nothing to speak of where retries differ by nature, as Stripe’s do', async () => {
      expect(await receiver.deliver('stripe', stripeEvent('evt_1', 'invoice.paid', { tries: 1 }))).toBe(OK);
      expect(await receiver.deliver('stripe', stripeEvent('evt_1', 'invoice.paid', { tries: 2 }))).toBe(
        DUPLICATE,
      );
      expect(await conflicts('evt_1')).toEqual([]);
      expect(alerts).toEqual([]);
    });
  });

  describe('known bytes under a new id that no signature covers', () => {
    it('are a suspected replay: taken in, recorded, and a person is told', async () => {
      expect(await receiver.deliver('github', githubEvent('guid-3', 'push', { n: 4 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-4', 'push', { n: 4 }))).toBe(OK);
      expect(await receiver.claims('guid-4')).toBe(1);
      expect(await conflicts('guid-4')).toEqual([{ kind: 'suspected-replay', deliveries: 1 }]);
      expect(alerts).toEqual([
        {
          kind: 'conflict',
          conflict: 'suspected-replay',
          event: { source: 'github', tenant: '', eventId: 'guid-4' },
        },
      ]);
    });

    it('are dropped as a duplicate by a source that refuses them, however many ids are minted', async () => {
      expect(await receiver.deliver('strict', githubEvent('guid-5', 'push', { n: 5 }))).toBe(OK);
      for (const id of ['minted-1', 'minted-2', 'minted-1']) {
        expect(await receiver.deliver('strict', githubEvent(id, 'push', { n: 5 }))).toBe(DUPLICATE);
        expect(await receiver.claims(id)).toBe(0);
      }
      expect(await conflicts('minted-1')).toEqual([{ kind: 'suspected-replay', deliveries: 2 }]);
      expect(await receiver.deliver('strict', githubEvent('guid-6', 'push', { n: 6 }))).toBe(OK);
      expect(await receiver.deliver('strict', githubEvent('guid-5', 'push', { n: 5 }))).toBe(DUPLICATE);
    });

    it('R01 are another event where the id is signed', async () => {
      const body = (id: string) => sesmetric({ id, type: 't', n: 7 });
      expect(await receiver.deliver('sesmetric', body('signed-1'))).toBe(OK);
      expect(await receiver.deliver('sesmetric', body('signed-2'))).toBe(OK);
      expect(alerts).toEqual([]);
    });

    it('are another source’s business: the same bytes there are no replay', async () => {
      expect(await receiver.deliver('strict', githubEvent('guid-7', 'push', { n: 8 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-8', 'push', { n: 8 }))).toBe(OK);
      expect(await conflicts('guid-8')).toEqual([]);
    });
  });
});
