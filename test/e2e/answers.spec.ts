import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { asana, custom, OnWebhook, SignatureRejection, trello, xero } from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import {
  answered,
  DUPLICATE,
  FAILED,
  INVALID,
  OK,
  Receiver,
  UNAUTHORIZED,
  UNAVAILABLE,
  UNKNOWN_SOURCE,
  WRONG_METHOD,
} from '../support/receiver.js';
import { signerOf, sourceOf } from '../support/signers/index.js';
import {
  AWARDEE_SECRET,
  awardee,
  sesmetric,
  signature,
  stripeEvent,
  type SignedRequest,
} from '../support/signing.js';
import { awardeeSource, sesmetricSource, stripeSource } from '../support/sources.js';

@Injectable()
class Handlers {
  @OnWebhook('impatient', '*')
  async fails() {
    throw new Error('a detail that stays inside');
  }
}

let asanaSecret: string | undefined;

const SOURCES = {
  awardee: awardeeSource(),
  sesmetric: sesmetricSource(),
  stripe: stripeSource(),
  impatient: awardeeSource({ retries: 'provider' }),
  'key-server-away': custom({
    secrets: [AWARDEE_SECRET],
    idHeader: 'x-id',
    verify: () => {
      throw new SignatureRejection('key-unavailable', 'the key server did not answer');
    },
  }),
  'buggy-verify': custom({
    secrets: [AWARDEE_SECRET],
    idHeader: 'x-id',
    verify: () => (undefined as unknown as string).length > 0,
  }),
  'secrets-away': awardeeSource({ secrets: async () => Promise.reject(new Error('vault is sealed')) }),
  'secrets-unknown': awardeeSource({ secrets: () => [] }),
  plaid: plaidAnswering('INVALID_WEBHOOK_VERIFICATION_KEY_ID'),
  'plaid-locked-out': plaidAnswering('INVALID_API_KEYS'),
  discord: sourceOf(signerOf('discord')),
  xero: xero({ secrets: [AWARDEE_SECRET] }),
  trello: trello({ secrets: [AWARDEE_SECRET], callbackUrl: 'https://shop.example/webhooks/trello' }),
  asana: asana({
    secrets: () => (asanaSecret === undefined ? [] : [asanaSecret]),
    onHandshake: (secret) => {
      asanaSecret = secret;
      return true;
    },
  }),
};

/** Plaid answers 400 for every error, and says which in the body. */
function plaidAnswering(error_code: string) {
  return sourceOf(signerOf('plaid'), undefined, {
    fetch: () => Promise.resolve(Response.json({ error_type: 'INVALID_INPUT', error_code }, { status: 400 })),
  });
}

const plaidRequest = (): SignedRequest => {
  const signer = signerOf('plaid');
  const body = Buffer.from(signer.body('f'));
  return { ...signer.sign(body, now(), 'f'), body };
};

const now = () => Math.floor(Date.now() / 1000);

/** Everything that is wrong with these is answered with the same bytes. */
const FORGERIES: Readonly<Record<string, () => SignedRequest>> = {
  'no signature': () => without(awardee('f', 't', '{}'), 'X-Awardee-Signature'),
  'an empty signature': () => changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', () => ''),
  'a cut signature': () => changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => hex.slice(0, -2)),
  'a signature and more': () => changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => `${hex}00`),
  'half a byte': () => changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => hex.slice(0, -1)),
  'hex with junk behind it': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => `${hex.slice(0, 62)}zz`),
  'the signature as base64': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) =>
      Buffer.from(hex, 'hex').toString('base64'),
    ),
  'a prefix that is not the source’s': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => `sha256=${hex}`),
  'two signatures joined by a proxy': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', (hex) => `${hex}, ${hex}`),
  'another body': () => ({ ...awardee('f', 't', '{}'), body: Buffer.from('{"amount":1}') }),
  'an empty body under a signature of another': () => ({ ...awardee('f', 't', '{}'), body: Buffer.alloc(0) }),
  'another secret': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', () => signature('some other secret', '{}')),
  'SHA-1 with the right secret': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', () => signature(AWARDEE_SECRET, '{}', 'sha1')),
  'a very long header': () =>
    changed(awardee('f', 't', '{}'), 'X-Awardee-Signature', () => 'ab'.repeat(4000)),
};

const TIMED_FORGERIES: Readonly<Record<string, () => SignedRequest>> = {
  'no timestamp': () => without(sesmetric({ id: 'f' }), 'X-SESMetric-Timestamp'),
  'another timestamp than the signed one': () =>
    changed(sesmetric({ id: 'f' }), 'X-SESMetric-Timestamp', () => String(now() + 1)),
  'a timestamp of 6 minutes ago': () => sesmetric({ id: 'f' }, now() - 360),
  'a timestamp in 6 minutes': () => sesmetric({ id: 'f' }, now() + 360),
  'a signed timestamp that is no number': () => sesmetric({ id: 'f' }, Number.NaN),
  'a signed timestamp with a fraction': () => sesmetric({ id: 'f' }, now() + 0.5),
  'a signed timestamp in exponents': () => sesmetric({ id: 'f' }, 1e30),
  'a negative timestamp': () => sesmetric({ id: 'f' }, -1),
};

/** What a query for an id can find instead of one. */
const NO_IDS = [
  '{}',
  '{"id":null}',
  '{"id":""}',
  '{"id":"   "}',
  '{"id":[]}',
  '{"id":{}}',
  '{"id":0}',
  '{"id":false}',
];

function changed(request: SignedRequest, name: string, change: (value: string) => string): SignedRequest {
  return { ...request, headers: { ...request.headers, [name]: change(request.headers[name]!) } };
}

function without({ headers, body }: SignedRequest, name: string): SignedRequest {
  const { [name]: _, ...rest } = headers;
  return { headers: rest, body };
}

describe.each(ADAPTERS)('answers over HTTP on %s', (adapter) => {
  let receiver: Receiver;

  beforeAll(async () => {
    asanaSecret = undefined;
    receiver = await Receiver.start({
      adapter,
      webhooks: { claimTimeout: '2s', sources: SOURCES },
      providers: [Handlers],
    });
  });
  afterAll(() => receiver?.stop());

  describe('R12', () => {
    it('answers 200 {"status":"ok"} to a new event and 200 {"status":"duplicate"} to a known one', async () => {
      const reply = await receiver.send({ path: '/webhooks/awardee', ...awardee('r12', 'grant.made', '{}') });
      expect(answered(reply)).toBe(OK);
      expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
      expect(await receiver.deliver('awardee', awardee('r12', 'grant.made', '{}'))).toBe(DUPLICATE);
    });
  });

  describe('R11 and R09: 401', () => {
    it.each(Object.keys(FORGERIES))('answers the one fixed body to %s, and claims nothing', async (name) => {
      expect(await receiver.deliver('awardee', FORGERIES[name]!())).toBe(UNAUTHORIZED);
      expect(await receiver.claims('f')).toBe(0);
    });

    it.each(Object.keys(TIMED_FORGERIES))(
      'answers the one fixed body to %s, and claims nothing',
      async (name) => {
        expect(await receiver.deliver('sesmetric', TIMED_FORGERIES[name]!())).toBe(UNAUTHORIZED);
        expect(await receiver.claims('f')).toBe(0);
      },
    );

    it('refuses a request that carries signature, id or timestamp twice: picking one of two is guessing', async () => {
      const { headers, body } = awardee('f', 't', '{}');
      for (const name of ['X-Awardee-Signature', 'X-Awardee-Delivery', 'X-Awardee-Event']) {
        const lines = [...Object.entries(headers), [name, headers[name]!] as const];
        const reply = await receiver.send({ path: '/webhooks/awardee', headers: lines, body });
        expect(answered(reply)).toBe(UNAUTHORIZED);
      }
      const timed = sesmetric({ id: 'f' });
      const lines = [
        ...Object.entries(timed.headers),
        ['x-sesmetric-timestamp', timed.headers['X-SESMetric-Timestamp']!] as const,
      ];
      const reply = await receiver.send({ path: '/webhooks/sesmetric', headers: lines, body: timed.body });
      expect(answered(reply)).toBe(UNAUTHORIZED);
      expect(await receiver.claims('f')).toBe(0);
    });

    it('does not believe the secret of one source on the route of another', async () => {
      expect(await receiver.deliver('stripe', awardee('f', 't', '{"id":"f"}'))).toBe(UNAUTHORIZED);
      expect(await receiver.deliver('awardee', stripeEvent('f', 't'))).toBe(UNAUTHORIZED);
      expect(await receiver.claims('f')).toBe(0);
    });

    it('looks at the signature before the id: a forged request without an id is 401, not 400', async () => {
      expect(
        await receiver.deliver(
          'sesmetric',
          changed(sesmetric('{}'), 'X-SESMetric-Signature', () => 'ab'),
        ),
      ).toBe(UNAUTHORIZED);
    });

    it('takes an error inside a verify function for a refusal', async () => {
      expect(await receiver.deliver('buggy-verify', awardee('f', 't', '{}'))).toBe(UNAUTHORIZED);
    });

    it('answers 401 to a token of a key that Plaid says it has not made', async () => {
      expect(await receiver.deliver('plaid', plaidRequest())).toBe(UNAUTHORIZED);
    });

    it('answers 401 where the secrets function knows no secret', async () => {
      expect(await receiver.deliver('secrets-unknown', awardee('f', 't', '{}'))).toBe(UNAUTHORIZED);
    });

    it('tells the reasons apart in its counts only', () => {
      expect(receiver.rejections()).toEqual(
        expect.arrayContaining([
          'awardee missing-signature',
          'awardee malformed-signature',
          'awardee wrong-signature',
          'awardee repeated-header',
          'sesmetric missing-timestamp',
          'sesmetric malformed-timestamp',
          'sesmetric outside-window',
          'secrets-unknown unusable-key',
        ]),
      );
    });
  });

  describe('case 8: 400', () => {
    it.each([...NO_IDS, '', 'junk', '[]', 'null'])(
      'answers 400 to %j where the body must hold the id',
      async (body) => {
        for (const _ of ['first', 'second'])
          expect(await receiver.deliver('sesmetric', sesmetric(body))).toBe(INVALID);
        const rows = await receiver.query(`SELECT event_id FROM webhook_claim WHERE source = 'sesmetric'`);
        expect(rows).toEqual([]);
      },
    );

    it.each(['', '   '])('answers 400 to the id header %j', async (id) => {
      const reply = await receiver.deliver('awardee', awardee(id, 't', '{}'));
      expect(reply).toBe(INVALID);
    });

    it('answers 400 where the id header is missing', async () => {
      const request = without(awardee('x', 't', '{}'), 'X-Awardee-Delivery');
      expect(await receiver.deliver('awardee', request)).toBe(INVALID);
      expect(
        await receiver.query(`SELECT 1 FROM webhook_claim WHERE event_id ~ 'undefined|null|object'`),
      ).toEqual([]);
    });
  });

  describe('404 and 405', () => {
    it.each(['nope', '__proto__', 'constructor', 'toString', 'Awardee', 'awardee%00', "awardee'--"])(
      'answers 404 to the unknown source %s',
      async (source) => {
        expect(await receiver.deliver(source, awardee('f', 't', '{}'))).toBe(UNKNOWN_SOURCE);
      },
    );

    it.each(['/webhooks/%ZZ', '/webhooks/%E0%A4%A'])('answers 400, not 500, to the path %s', async (path) => {
      const { status, text } = await receiver.send({ path, ...awardee('f', 't', '{}') });
      expect(status).toBe(400);
      expect(text).not.toMatch(/\bat .*:\d+/);
    });

    it.each(['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])(
      'answers 405 to %s, with Allow',
      async (method) => {
        const reply = await receiver.send({ path: '/webhooks/awardee', method, ...awardee('f', 't', '{}') });
        expect(answered(reply)).toBe(WRONG_METHOD);
        expect(reply.headers['allow']).toBe('POST');
      },
    );

    it('answers 405 to HEAD where the provider has no handshake with it', async () => {
      const { headers } = awardee('f', 't', '');
      const reply = await receiver.send({ path: '/webhooks/awardee', method: 'HEAD', headers });
      expect([reply.status, reply.headers['allow'], reply.text]).toEqual([405, 'POST', '']);
    });
  });

  describe('what a provider declares of its own', () => {
    it('Trello: answers its HEAD, and names both methods in Allow', async () => {
      const head = await receiver.send({ path: '/webhooks/trello', method: 'HEAD' });
      expect([head.status, head.text]).toEqual([200, '']);
      const get = await receiver.send({ path: '/webhooks/trello', method: 'GET' });
      expect([answered(get), get.headers['allow']]).toEqual([WRONG_METHOD, 'POST, HEAD']);
    });

    it('Xero: gets an empty 200 and an empty 401', async () => {
      const body = Buffer.from('{"events":[]}');
      const signed = signature(AWARDEE_SECRET, body, 'sha256', 'base64');
      expect(await receiver.deliver('xero', { headers: { 'x-xero-signature': signed }, body })).toBe('200 ');
      expect(await receiver.deliver('xero', { headers: { 'x-xero-signature': 'wrong' }, body })).toBe('401 ');
    });

    it('Discord: gets 204 for an event, new or known', async () => {
      const signer = signerOf('discord');
      const body = Buffer.from(signer.body('discord-1'));
      for (const _ of ['new', 'known'])
        expect(await receiver.deliver('discord', { ...signer.sign(body, now(), ''), body })).toBe('204 ');
      expect(await receiver.claims('discord-1')).toBe(1);
    });

    it('Asana: the handshake brings the secret that verifies from then on', async () => {
      const body = Buffer.from('{"events":[]}');
      const events = () => ({
        headers: { 'X-Hook-Signature': signature('hook-secret-0123456789', body) },
        body,
      });
      expect(await receiver.deliver('asana', events())).toBe(UNAUTHORIZED);
      const handshake = await receiver.send({
        path: '/webhooks/asana',
        headers: { 'X-Hook-Secret': 'hook-secret-0123456789' },
      });
      expect([handshake.status, handshake.headers['x-hook-secret']]).toEqual([200, 'hook-secret-0123456789']);
      expect(await receiver.deliver('asana', events())).toBe(OK);
    });
  });

  describe('500', () => {
    it('is only what a failed handler gives under retries: "provider", without its error', async () => {
      expect(await receiver.deliver('impatient', awardee('failing', 't', '{}'))).toBe(FAILED);
    });
  });

  describe('503 with Retry-After, and nothing claimed', () => {
    const unavailable = async (source: string, request: SignedRequest) => {
      const reply = await receiver.send({ path: `/webhooks/${source}`, ...request });
      expect(answered(reply)).toBe(UNAVAILABLE);
      expect(reply.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    };

    it('while the secrets function fails', async () => {
      await unavailable('secrets-away', awardee('later', 't', '{}'));
      expect(await receiver.claims('later')).toBe(0);
    });

    it('while the vendor’s key cannot be fetched', async () => {
      await unavailable('key-server-away', awardee('later', 't', '{}'));
      await unavailable('plaid-locked-out', plaidRequest());
      expect(await receiver.claims('later')).toBe(0);
    });

    it('while every connection of the pool is taken; then the redelivery finds one event', async () => {
      const dataSource = receiver.app.get(DataSource);
      const runners = Array.from({ length: 10 }, () => dataSource.createQueryRunner());
      await Promise.all(runners.map((runner) => runner.connect()));
      try {
        await unavailable('awardee', awardee('crowded', 't', '{}'));
      } finally {
        await Promise.all(runners.map((runner) => runner.release()));
      }
      expect([OK, DUPLICATE]).toContain(await receiver.deliver('awardee', awardee('crowded', 't', '{}')));
      expect(await receiver.claims('crowded')).toBe(1);
    });

    it('while the database accepts nobody; a forgery is still told 401, and the redelivery is the first', async () => {
      await receiver.database.whileDown(async () => {
        await unavailable('awardee', awardee('downtime', 't', '{}'));
        await unavailable('impatient', awardee('downtime', 't', '{}'));
        expect(await receiver.deliver('awardee', FORGERIES['another secret']!())).toBe(UNAUTHORIZED);
      });
      expect(await receiver.claims('downtime')).toBe(0);
      expect(await receiver.deliver('awardee', awardee('downtime', 't', '{}'))).toBe(OK);
    });
  });
});
