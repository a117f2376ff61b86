import { Injectable } from '@nestjs/common';
import { OnWebhook, Retention, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import { DUPLICATE, FAILED, OK, Receiver, UNAUTHORIZED } from '../support/receiver.js';
import { awardee, sesmetric, signature, stripeEvent } from '../support/signing.js';
import { awardeeSource, sesmetricSource, stripeSource } from '../support/sources.js';
import { record } from '../support/tables.js';

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;
const YEAR = 365 * DAY;

const rotated = (age: string) => `${age}-key-0123456789abcdef`;

interface Scripted {
  /** How many attempts fail before one does not. */
  readonly failures?: number;
}

@Injectable()
class Handlers {
  @OnWebhook('sesmetric', '*', { retry: { base: 0, cap: 0 } })
  own(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('impatient', '*')
  provider(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('forgiving', '*')
  forgiving(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  private async handle(event: WebhookEvent<Scripted>, { manager, attempt }: HandlerContext) {
    await record(event, { manager });
    if (attempt <= (event.payload.failures ?? 0)) throw new Error('connection reset');
  }
}

describe.each(ADAPTERS)('verification over HTTP on %s', (adapter) => {
  let receiver: Receiver;
  const now = () => Math.floor(Date.now() / 1000);

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      providers: [Handlers],
      webhooks: {
        sources: {
          awardee: awardeeSource(),
          sesmetric: sesmetricSource(),
          stripe: stripeSource(),
          rotating: sesmetricSource({ secrets: [rotated('new'), rotated('old')] }),
          narrow: sesmetricSource({ tolerance: '30s' }),
          impatient: sesmetricSource({ retries: 'provider' }),
          forgiving: sesmetricSource({ retries: 'provider', staleDuplicates: 'accept' }),
          'same-timestamp': sesmetricSource({ retriesSameTimestamp: true }),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  describe('R07 raw bytes, then signature, then claim, then answer', () => {
    it('does not parse before it verifies: a forged body is 401 whether or not it is JSON', async () => {
      const { headers } = awardee('r07', 't', '{"a":1}');
      for (const body of ['{"a":2}', '{junk', '', '\u0000'])
        expect(await receiver.deliver('awardee', { headers, body: Buffer.from(body) })).toBe(UNAUTHORIZED);
    });

    it('does not parse before it claims: signed junk with its id in a header is kept', async () => {
      expect(await receiver.deliver('awardee', awardee('r07-junk', 't', '{junk'))).toBe(OK);
      expect(await receiver.claims('r07-junk')).toBe(1);
    });

    it('does not look for duplicates before it verifies: a forgery of a known event is 401', async () => {
      const request = awardee('r07-known', 't', '{}');
      expect(await receiver.deliver('awardee', request)).toBe(OK);
      expect(await receiver.deliver('awardee', { ...request, body: Buffer.from('{ }') })).toBe(UNAUTHORIZED);
    });

    it('has committed claim and work by the time it answers', async () => {
      expect(await receiver.deliver('sesmetric', sesmetric({ id: 'r07-commit', type: 't' }))).toBe(OK);
      // Another connection than the application's sees both.
      expect(await receiver.event('r07-commit')).toMatchObject({ owed: 1, state: 'pending' });
      expect(await receiver.rows('r07-commit')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 0 },
      ]);
    });
  });

  describe('R08 HMAC-SHA256 over timestamp.body, within five minutes both ways', () => {
    const at = (id: string, seconds: number) =>
      receiver.deliver('sesmetric', sesmetric({ id, type: 't' }, now() + seconds));

    it.each([-290, 0, 290])('accepts a signature of %i seconds from now', async (seconds) => {
      expect(await at(`r08${seconds}`, seconds)).toBe(OK);
    });

    it.each([-310, 310, -HOUR, HOUR, -YEAR])('refuses one of %i seconds from now', async (seconds) => {
      expect(await at('r08-refused', seconds)).toBe(UNAUTHORIZED);
      expect(await receiver.claims('r08-refused')).toBe(0);
    });

    it.each([10 * MINUTE, 10 * YEAR])('case 21: refuses one of %i seconds in the future', async (seconds) => {
      expect(await at('c21', seconds)).toBe(UNAUTHORIZED);
      expect(await receiver.deliver('stripe', stripeEvent('c21', 't', {}, now() + seconds))).toBe(
        UNAUTHORIZED,
      );
      expect(await receiver.claims('c21')).toBe(0);
    });

    it('takes the window that a source asks for', async () => {
      const narrow = (seconds: number) =>
        receiver.deliver('narrow', sesmetric({ id: `narrow${seconds}`, type: 't' }, now() + seconds));
      expect([await narrow(-20), await narrow(-40), await narrow(40)]).toEqual([
        OK,
        UNAUTHORIZED,
        UNAUTHORIZED,
      ]);
    });

    it('tries every live secret, and records which one verified', async () => {
      const signedWith = (id: string, secret: string) => {
        const { body, headers } = sesmetric({ id, type: 't' });
        const text = `${headers['X-SESMetric-Timestamp']}.${body.toString()}`;
        return { body, headers: { ...headers, 'X-SESMetric-Signature': signature(secret, text) } };
      };
      for (const age of ['new', 'old'])
        expect(await receiver.deliver('rotating', signedWith(age, rotated(age)))).toBe(OK);
      expect(await receiver.deliver('rotating', signedWith('gone', rotated('gone')))).toBe(UNAUTHORIZED);
      const rows = await receiver.query<{ verified_by: string }>(
        `SELECT verified_by FROM webhook_claim WHERE source = 'rotating'`,
      );
      expect(new Set(rows.map((row) => row.verified_by)).size).toBe(2);
      expect(JSON.stringify(rows)).not.toContain('key');
    });
  });

  describe('R09 an unauthenticated caller', () => {
    it('cannot put ids into the table, so that the genuine event is still the first', async () => {
      const { body, headers } = sesmetric({ id: 'r09', type: 't' });
      const forged = { ...headers, 'X-SESMetric-Signature': '0'.repeat(64) };
      expect(await receiver.deliver('sesmetric', { body, headers: forged })).toBe(UNAUTHORIZED);
      expect(await receiver.claims('r09')).toBe(0);
      expect(await receiver.deliver('sesmetric', { body, headers })).toBe(OK);
    });
  });

  describe('R16 the five integration tests', () => {
    it('replay: the same request again changes nothing', async () => {
      const request = sesmetric({ id: 'r16-replay', type: 't' });
      expect(await receiver.deliver('sesmetric', request)).toBe(OK);
      await receiver.drain();
      expect(await receiver.deliver('sesmetric', request)).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.applied('r16-replay')).toBe(1);
    });

    it('tamper: one byte more or less is 401, and leaves nothing', async () => {
      const { body, headers } = sesmetric({ id: 'r16-tamper', type: 't', amount: 100 });
      for (const tampered of [
        body.toString().replace('100', '900'),
        `${body.toString()} `,
        body.toString().slice(0, -1),
      ])
        expect(await receiver.deliver('sesmetric', { headers, body: Buffer.from(tampered) })).toBe(
          UNAUTHORIZED,
        );
      expect(await receiver.claims('r16-tamper')).toBe(0);
    });

    it('skew: a right signature with a time outside the window is 401, and leaves nothing', async () => {
      for (const seconds of [-6 * MINUTE, 6 * MINUTE])
        expect(
          await receiver.deliver('sesmetric', sesmetric({ id: 'r16-skew', type: 't' }, now() + seconds)),
        ).toBe(UNAUTHORIZED);
      expect(await receiver.claims('r16-skew')).toBe(0);
    });

    it('transient failure under our own retries: ok, duplicate, and done by our retry', async () => {
      const request = sesmetric({ id: 'r16-own', type: 't', failures: 1 });
      expect(await receiver.deliver('sesmetric', request)).toBe(OK);
      expect(await receiver.relay.tick()).toMatchObject({ retried: 1 });
      expect(await receiver.applied('r16-own')).toBe(0);
      expect(await receiver.deliver('sesmetric', request)).toBe(DUPLICATE);
      expect(await receiver.relay.tick()).toMatchObject({ done: 1 });
      expect(await receiver.applied('r16-own')).toBe(1);
    });

    it('transient failure under the provider’s retries: 500, then ok, then duplicate', async () => {
      const request = sesmetric({ id: 'r16-provider', type: 't', failures: 1 });
      expect(await receiver.deliver('impatient', request)).toBe(FAILED);
      expect(await receiver.applied('r16-provider')).toBe(0);
      expect(await receiver.deliver('impatient', request)).toBe(OK);
      expect(await receiver.deliver('impatient', request)).toBe(DUPLICATE);
      expect(await receiver.applied('r16-provider')).toBe(1);
    });

    it('old event: a captured request is 401 a day later; an old event under a fresh signature is handled once', async () => {
      const captured = stripeEvent('evt_old', 't', {}, now() - DAY);
      expect(await receiver.deliver('stripe', captured)).toBe(UNAUTHORIZED);
      expect(await receiver.claims('evt_old')).toBe(0);
      const resent = sesmetric({ id: 'r16-resent', type: 't', created: now() - 3 * DAY });
      expect(await receiver.deliver('sesmetric', resent)).toBe(OK);
      await receiver.drain();
      expect(await receiver.applied('r16-resent')).toBe(1);
    });

    it('old event: one that comes again after the dedupe window counts as new', async () => {
      const event = { id: 'r16-forgotten', type: 't' };
      expect(await receiver.deliver('sesmetric', sesmetric(event))).toBe(OK);
      await receiver.drain();
      await receiver.query(
        `UPDATE webhook_claim SET received_at = now() - interval '40 days' WHERE event_id = 'r16-forgotten'`,
      );
      await receiver.app.get(Retention).prune();
      expect(await receiver.claims('r16-forgotten')).toBe(0);
      expect(await receiver.deliver('sesmetric', sesmetric(event))).toBe(OK);
      await receiver.drain();
      expect(await receiver.applied('r16-forgotten')).toBe(2);
    });
  });

  describe('case 18: retries that carry the first attempt’s timestamp', () => {
    const event = (id: string, more = {}) => ({ id, type: 't', ...more });
    const fresh = (id: string, more = {}) => sesmetric(event(id, more));
    const hoursOld = (id: string, more = {}) => sesmetric(event(id, more), now() - 4 * HOUR);

    it('are refused unless the source accepts them', async () => {
      expect(await receiver.deliver('sesmetric', fresh('c18-reject'))).toBe(OK);
      expect(await receiver.deliver('sesmetric', hoursOld('c18-reject'))).toBe(UNAUTHORIZED);
    });

    it('are duplicates of a known event, and 401 for an unknown one', async () => {
      expect(await receiver.deliver('forgiving', hoursOld('c18'))).toBe(UNAUTHORIZED);
      expect(await receiver.claims('c18')).toBe(0);
      expect(await receiver.deliver('forgiving', fresh('c18'))).toBe(OK);
      expect(await receiver.deliver('forgiving', hoursOld('c18'))).toBe(DUPLICATE);
      expect(await receiver.applied('c18')).toBe(1);
    });

    it('run a failed handler again: a 2xx for work that was not done would end the retries', async () => {
      expect(await receiver.deliver('forgiving', fresh('c18-failed', { failures: 2 }))).toBe(FAILED);
      expect(await receiver.deliver('forgiving', hoursOld('c18-failed', { failures: 2 }))).toBe(FAILED);
      expect(await receiver.deliver('forgiving', hoursOld('c18-failed', { failures: 2 }))).toBe(OK);
      expect(await receiver.applied('c18-failed')).toBe(1);
    });

    it('are accepted by default where the provider is known to send them', async () => {
      expect(await receiver.deliver('same-timestamp', fresh('c18-preset'))).toBe(OK);
      expect(await receiver.deliver('same-timestamp', hoursOld('c18-preset'))).toBe(DUPLICATE);
    });

    it('are refused when forged, known event or not', async () => {
      const { body, headers } = hoursOld('c18');
      const forged = { ...headers, 'X-SESMetric-Signature': '0'.repeat(64) };
      expect(await receiver.deliver('forgiving', { body, headers: forged })).toBe(UNAUTHORIZED);
    });
  });
});
