import { createHmac } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import {
  Inbox,
  Inspector,
  Operator,
  Rejections,
  gitlab,
  hmac,
  stripe,
  type Alert,
  type Secrets,
} from '../../src/index.js';
import { RequestHeaders } from '../../src/core/request.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { Watch } from '../../src/operator/watch.js';
import { RejectionStore } from '../../src/storage/desk/rejection.store.js';
import { createApplication } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources } from '../support/desk.js';
import {
  AWARDEE_SECRET,
  STRIPE_SECRET,
  awardee,
  stripeEvent,
  type SignedRequest,
} from '../support/signing.js';

const OTHER_SECRET = 'another-test-key-0123456789abcdef';
const acme = (secret: string | Secrets) =>
  hmac({
    secrets: typeof secret === 'string' ? [secret] : secret,
    signatureHeader: 'X-Acme-Signature',
    idHeader: 'X-Acme-Id',
    prefix: 'sha256=',
    secretHeaders: ['X-Acme-Key'],
  });
const sign = (secret: string, body: Buffer | string, encoding: 'hex' | 'base64' = 'hex') =>
  createHmac('sha256', secret).update(body).digest(encoding);

/** A request to `acme`, signed over `signed` and sent as `sent`. */
function acmeRequest(id: string, secret: string, signed: string, sent = signed): SignedRequest {
  return {
    body: Buffer.from(sent),
    headers: {
      'content-type': 'application/json',
      'X-Acme-Id': id,
      'X-Acme-Signature': `sha256=${sign(secret, signed)}`,
      authorization: 'Bearer canary-token',
      'proxy-authorization': 'Bearer canary-token',
      cookie: 'session=canary-token',
      'set-cookie': 'session=canary-token',
    },
  };
}

describe('rejections', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const alerts: Alert[] = [];
  const start = (acmeSecret: string | Secrets, keep: string | false, stripeSecret = STRIPE_SECRET) =>
    createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: {
          ...deskSources,
          acme: acme(acmeSecret),
          stripe: stripe({ secrets: [stripeSecret] }),
          gitlab: gitlab({ secrets: ['glpat-0123456789abcdef'] }),
        },
        onAlert: (alert) => void alerts.push(alert),
        alerts: { rejectionsPerMinute: 10, duplicateRatio: 0.5, backlogAge: '1h' },
        rejections: { keep },
      },
      providers: [DeskHandlers],
    });
  const send = (source: string, { headers, body }: SignedRequest) =>
    app.get(Inbox).receive(source, { headers, rawBody: body });
  const explained = async () => {
    await app.get(DeskKeeper).round();
    return (await app.get(Inspector).rejections()).rejections[0]!;
  };

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  it.each([
    [false, 1],
    ['1d', 2],
  ] as const)('are sampled once a second, and each where requests are kept: keep %s', async (keep, count) => {
    const other = await start(OTHER_SECRET, keep);
    try {
      const request = { method: 'POST', url: '/', headers: RequestHeaders.from({}), rawBody: Buffer.of() };
      const rejections = other.get(Rejections);
      for (let nth = 0; nth < 2; nth += 1) rejections.add('acme', 'wrong-signature', '', request);
      expect(rejections.takeSamples()).toHaveLength(count);
    } finally {
      await other.close();
    }
  });

  describe('explained', () => {
    beforeAll(async () => {
      app = await start(OTHER_SECRET, false);
    });
    beforeEach(async () => {
      // One sample a second for each source and reason; a test has one of its own.
      await database.query('DELETE FROM webhook_rejection');
      app.get(Rejections).sampleEvery(0);
    });
    afterAll(() => app?.close());

    it('say what costs something to say only for a line of the log', () => {
      const said: string[] = [];
      for (let n = 0; n < 3; n += 1)
        app.get(Rejections).add('', 'costly', () => {
          said.push('no such source');
          return 'no such source';
        });
      expect(said).toHaveLength(1);
    });

    const body = '{"amount":12.5,"url":"https://a.example/x","name":"Zoë"}';
    const pretty = JSON.stringify(JSON.parse(body), null, 2);

    it.each<[string, string, SignedRequest, string, RegExp]>([
      [
        'a wrong secret',
        'acme',
        acmeRequest('1', 'wrong-test-key-0123456789abcdef', body),
        'wrong-secret',
        /another secret/,
      ],
      [
        'the secret of another source',
        'acme',
        acmeRequest('2', AWARDEE_SECRET, body),
        'other-secret',
        /'awardee'/,
      ],
      [
        'the URL of another source',
        'acme',
        awardee('3', 'grant.made', {}),
        'other-source',
        /URL of 'awardee'/,
      ],
      [
        'a body written again as compact JSON',
        'acme',
        acmeRequest('4', OTHER_SECRET, pretty, body),
        'rewritten-body',
        /indented by 2/,
      ],
      [
        'a body written again by PHP',
        'acme',
        acmeRequest('5', OTHER_SECRET, body.replaceAll('/', '\\/').replace('ë', '\\u00eb'), body),
        'rewritten-body',
        /PHP/,
      ],
      [
        'a secret with a line break',
        'acme',
        acmeRequest('6', `${OTHER_SECRET}\n`, body),
        'secret-format',
        /line break/,
      ],
      [
        'base64 for hex',
        'acme',
        {
          ...acmeRequest('7', OTHER_SECRET, body),
          headers: { 'X-Acme-Id': '7', 'X-Acme-Signature': sign(OTHER_SECRET, body, 'base64') },
        },
        'wrong-encoding',
        /base64/,
      ],
      [
        'no signature, but one that looks like it',
        'acme',
        { body: Buffer.from(body), headers: { 'X-Acme-Id': '8', 'X-Acme-Sign': 'sha256=00' } },
        'missing-header',
        /x-acme-sign/,
      ],
      [
        'a clock that is off',
        'stripe',
        stripeEvent('evt_old', 'invoice.paid', {}, Math.floor(Date.now() / 1000) - 4_000),
        'clock-skew',
        /4\d{3} s in the past/,
      ],
    ])('R33 tells %s', async (_what, source, request, diagnosis, explanation) => {
      expect(await send(source, request)).toMatchObject({ status: 401 });
      const row = await explained();
      expect(row).toMatchObject({ source, diagnosis, kept: false });
      expect(row.explanation).toMatch(explanation);
    });

    it('a request that was right but for its event id is told of as such', async () => {
      expect(await send('acme', acmeRequest(' ', OTHER_SECRET, body))).toMatchObject({ status: 400 });
      expect(await explained()).toMatchObject({
        reason: 'unusable-event-id',
        diagnosis: 'unusable-event-id',
        explanation: expect.stringContaining('X-Acme-Id header: expected a non-blank event id'),
      });
    });

    it('keeps no secret, no signature and no other header value', async () => {
      const request = acmeRequest('canary', 'wrong-test-key-0123456789abcdef', '{"card":"canary-4242"}');
      await send('acme', request);
      await explained();
      const text = JSON.stringify(await database.query('SELECT * FROM webhook_rejection'));
      expect(text).toContain('x-acme-signature');
      for (const canary of [
        'canary-token',
        'canary-4242',
        OTHER_SECRET,
        request.headers['X-Acme-Signature']!.slice(7),
      ])
        expect(text).not.toContain(canary);
    });

    it('survives a body nested 45,000 deep', async () => {
      await send(
        'acme',
        acmeRequest('deep', 'wrong-test-key-0123456789abcdef', '['.repeat(45_000) + ']'.repeat(45_000)),
      );
      expect(await explained()).toMatchObject({ diagnosis: 'wrong-secret', bytes: 90_000 });
    });

    it('R22 alerts once of a burst, and again only after it has ended', async () => {
      const bursts = () => alerts.filter((alert) => alert.kind === 'rejection-burst');
      const burst = async () => {
        for (let i = 0; i < 12; i += 1) await send('acme', acmeRequest(`b${i}`, AWARDEE_SECRET, body));
        await app.get(DeskKeeper).round();
      };
      await burst();
      await burst();
      expect(bursts()).toEqual([expect.objectContaining({ source: 'acme', threshold: 10 })]);
      // A minute without any.
      app.get(Watch).counted([], performance.now() + 61_000);
      await burst();
      expect(bursts()).toHaveLength(2);
    });

    it('leaves places among the samples to every source, however many of another’s are waiting', async () => {
      for (let i = 0; i < 50; i += 1) await send('acme', acmeRequest(`f${i}`, AWARDEE_SECRET, body));
      const forged = stripeEvent('evt_forged', 'invoice.paid');
      for (let i = 0; i < 2; i += 1) await send('stripe', { ...forged, body: Buffer.from('{}') });
      await app.get(DeskKeeper).round();
      const sources = (await app.get(Inspector).rejections()).rejections.map(({ source }) => source);
      expect(sources.filter((source) => source === 'stripe')).toHaveLength(2);
      expect(sources.filter((source) => source === 'acme')).toHaveLength(18);
    });

    it('R22 takes a storm of duplicates, and alerts that the key looks wrong', async () => {
      const request = awardee('storm', 'other', {});
      const answers = await Promise.all(Array.from({ length: 120 }, () => send('awardee', request)));
      expect(answers.every(({ status }) => status === 200)).toBe(true);
      await app.get(DeskKeeper).round();
      expect(alerts.filter((alert) => alert.kind === 'duplicate-ratio')).toEqual([
        expect.objectContaining({ source: 'awardee', deliveries: 120, duplicates: 119 }),
      ]);
    });
  });

  describe('kept', () => {
    const deed = { by: 'ann', reason: 'secret corrected' };
    afterEach(() => app?.close());

    it('R33 are verified again once the secret is corrected, and taken in', async () => {
      app = await start('former-test-key-0123456789abcdef', '24h');
      for (const id of ['k1', 'k2', 'k3']) {
        expect(await send('acme', acmeRequest(id, OTHER_SECRET, `{"id":"${id}"}`))).toMatchObject({
          status: 401,
        });
      }
      expect(await send('acme', acmeRequest('forged', 'forger-key-0123456789abcdef', '{}'))).toMatchObject({
        status: 401,
      });
      await app.get(DeskKeeper).round();
      expect(JSON.stringify(await database.query('SELECT headers FROM webhook_rejection'))).not.toContain(
        'canary-token',
      );
      expect(await app.get(Operator).verifyAgain('acme', undefined, deed)).toMatchObject({
        taken: 0,
        stillWrong: 4,
      });
      await app.close();

      app = await start(OTHER_SECRET, '24h');
      expect(await app.get(Operator).verifyAgain('acme', undefined, deed)).toMatchObject({
        looked: 4,
        taken: 3,
        stillWrong: 1,
      });
      expect((await app.get(Inspector).events('source:acme')).events.map((event) => event.eventId)).toEqual([
        'k3',
        'k2',
        'k1',
      ]);
      const { rejections: rows } = await app.get(Inspector).rejections('source:acme');
      expect(rows.filter((row) => row.takenAs === 'ok')).toHaveLength(3);
      expect(rows.filter((row) => row.kept)).toHaveLength(1);
    });

    it.each([
      ['gitlab', { 'X-Gitlab-Token': 'canary-token-of-gitlab' }],
      ['acme', { 'X-Acme-Signature': 'sha256=00', 'X-Acme-Id': 'k', 'X-Acme-Key': 'canary-token-of-acme' }],
    ])(
      'are not those that carry a secret as it is: %s’s is explained, and no token is stored',
      async (source, own) => {
        app = await start(OTHER_SECRET, '24h');
        const headers = { 'content-type': 'application/json', ...own };
        expect(await send(source, { headers, body: Buffer.from('{}') })).toMatchObject({ status: 401 });
        expect(await explained()).toMatchObject({ source, kept: false });
        expect(JSON.stringify(await database.query('SELECT * FROM webhook_rejection'))).not.toContain(
          'canary-token',
        );
      },
    );

    it('R33 are judged as of their arrival: one that came late stays wrong', async () => {
      app = await start(OTHER_SECRET, '24h', 'whsec_formerTestKey0123456789abcdef');
      const anHourAgo = Math.floor(Date.now() / 1000) - 3_600;
      for (const id of ['evt_then', 'evt_late'])
        expect(await send('stripe', stripeEvent(id, 'invoice.paid', {}, anHourAgo))).toMatchObject({
          status: 401,
        });
      await app.get(DeskKeeper).round();
      await app.close();
      // This one came when it was signed; the other an hour after that.
      await database.query(
        `UPDATE webhook_rejection SET at = at - interval '1 hour' WHERE convert_from(body, 'UTF8') LIKE '%evt_then%'`,
      );
      app = await start(OTHER_SECRET, '24h');
      expect(await app.get(Operator).verifyAgain('stripe', undefined, deed)).toMatchObject({
        looked: 2,
        taken: 1,
        stillWrong: 1,
        notClaimed: 0,
      });
      expect((await app.get(Inspector).events('source:stripe')).events.map(({ eventId }) => eventId)).toEqual(
        ['evt_then'],
      );
    });

    it('R33 that are right and cannot be claimed are told apart from those that are wrong, and stay', async () => {
      app = await start('former-test-key-0123456789abcdef', '24h');
      await send('acme', acmeRequest('locked', OTHER_SECRET, '{"id":"locked"}'));
      await app.get(DeskKeeper).round();
      await app.close();
      app = await start(OTHER_SECRET, '24h');
      await database.query('ALTER TABLE webhook_claim RENAME TO webhook_claim_gone');
      try {
        expect(await app.get(Operator).verifyAgain('acme', undefined, deed)).toMatchObject({
          taken: 0,
          notClaimed: 1,
        });
      } finally {
        await database.query('ALTER TABLE webhook_claim_gone RENAME TO webhook_claim');
      }
      expect(await app.get(Operator).verifyAgain('acme', undefined, deed)).toMatchObject({
        taken: 1,
        notClaimed: 0,
      });
    });

    it('one that cannot be looked at keeps none of the others from it, and stays', async () => {
      await database.query('DELETE FROM webhook_rejection');
      app = await start('former-test-key-0123456789abcdef', '24h');
      for (const id of ['broken', 'sound'])
        await send('acme', acmeRequest(id, OTHER_SECRET, `{"id":"${id}"}`));
      await app.get(DeskKeeper).round();
      await app.close();
      app = await start(({ rawBody }) => {
        if (rawBody.includes('broken')) throw new Error('the vault does not answer');
        return [OTHER_SECRET];
      }, '24h');
      expect(await app.get(Operator).verifyAgain('acme', undefined, deed)).toMatchObject({
        looked: 2,
        taken: 1,
        stillWrong: 0,
        notClaimed: 1,
      });
    });

    it('have an end in bytes: the oldest lose theirs first, and stay explained', async () => {
      await database.query('DELETE FROM webhook_rejection');
      app = await start('former-test-key-0123456789abcdef', '24h');
      for (const id of ['1', '2', '3']) await send('acme', acmeRequest(id, OTHER_SECRET, 'x'.repeat(1_000)));
      await app.get(DeskKeeper).round();
      await new RejectionStore().prune(database.dataSource.manager, 3_600_000, 10, 2_000);
      const { rejections: rows } = await app.get(Inspector).rejections();
      expect(rows.map((row) => row.kept)).toEqual([true, true, false]);
    });
  });
});
