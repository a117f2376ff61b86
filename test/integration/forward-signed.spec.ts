import { Inbox, Replays, type ForwardOptions } from '../../src/index.js';
import { vendorSigners } from '../../src/sources/signers/sign-webhook.js';
import { createApplication, listen } from '../support/application.js';
import { signerOf, signers, sourceOf } from '../support/signers/index.js';
import { startInbox, type TestInbox } from './support/inbox.js';

const who = { by: 'a test', reason: 'to see' };
const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };
/** A stored event of theirs is one item of a body. */
const BATCHED = new Set(['adyen', 'asana', 'gocardless', 'line', 'meta', 'okta', 'xero']);
/** The signature is in the body, which is another one then. */
const SIGNED_INSIDE = new Set(['mailgun']);

describe('R25 Replays.forward, signed anew', () => {
  // Not those with a key of their own, nor those that sign the URL: their source here knows another one.
  const catalogue = signers.filter(({ provider, otherKey }) => {
    const vendor = vendorSigners.get(provider)!;
    return otherKey === undefined && vendor.makeKeys === undefined && vendor.signsUrl !== true;
  });
  const sourcesWith = (secretOf: (signer: (typeof signers)[number]) => string) =>
    Object.fromEntries(signers.map((signer) => [signer.provider, sourceOf(signer, [secretOf(signer)])]));
  let here: TestInbox;
  let staging: TestInbox;
  let http: Awaited<ReturnType<typeof createApplication>>;
  let origin: string;

  beforeAll(async () => {
    here = await startInbox({ webhooks: { sources: sourcesWith(({ secret }) => secret), relay: false } });
    staging = await startInbox({
      webhooks: { sources: sourcesWith(({ secret }) => secret), relay: false },
    });
    http = await createApplication({
      databaseUrl: staging.database.url,
      webhooks: {
        sources: sourcesWith(({ otherSecret }) => otherSecret),
        relay: false,
        reconcile: false,
        retention: false,
      },
    });
    origin = await listen(http);
  }, 60_000);
  afterAll(async () => {
    await http?.close();
    await here?.stop();
    await staging?.stop();
  });

  const receive = async ({ provider, ...signer }: (typeof signers)[number], id: string) => {
    const body = Buffer.from(signer.body(id));
    const { headers, body: sent = body } = signer.sign(body, Math.floor(Date.now() / 1000), id);
    const answer = await here.app.get(Inbox).receive(provider, { headers, rawBody: sent });
    expect(answer.status).toBe(200);
  };
  const claimsOf = (inbox: TestInbox, source: string) =>
    inbox.query(`SELECT event_id, event_type, body FROM webhook_claim WHERE source = $1 ORDER BY event_id`, [
      source,
    ]);
  const sent = (source: string, more: Partial<ForwardOptions> = {}) =>
    here.app.get(Replays).forward({ source }, `${origin}/webhooks/${source}`, { ...who, allow, ...more });

  it.each(catalogue.map((signer) => [signer.provider, signer] as const))(
    'a receiver of %s with another secret believes it, and claims the same event',
    async (provider, signer) => {
      await receive(signer, 'evt_1');
      const sign = { secret: signer.otherSecret, options: signer.options ?? {} };
      const report = await sent(provider, { sign });
      if (BATCHED.has(provider) || provider === 'braintree') {
        expect(report.refused).toMatchObject([{ why: expect.stringContaining('cannot be signed anew') }]);
        return;
      }
      expect(report).toMatchObject({ forwarded: 1, failed: [] });
      const [ours, theirs] = [await claimsOf(here, provider), await claimsOf(staging, provider)];
      const same = ({ body, ...claim }: (typeof ours)[number]) =>
        SIGNED_INSIDE.has(provider) ? claim : { ...claim, body };
      expect(theirs.map(same)).toEqual(ours.map(same));
    },
  );

  it('without it the receiver refuses the stored signature', async () => {
    await receive(signerOf('stripe'), 'evt_2');
    expect(await sent('stripe')).toMatchObject({ forwarded: 0, failed: [{ why: 'answered 401' }, {}] });
  });

  it('says of which provider nobody else can sign', async () => {
    await receive(signerOf('sns'), 'evt_3');
    expect(await sent('sns', { sign: { secret: 'x' } })).toMatchObject({
      refused: [{ why: expect.stringContaining("'sns' signs with a key of its own") }],
    });
  });

  it('an edited copy of one event can be sent; what came stays, and the audit tells of it without its content', async () => {
    await receive(signerOf('github'), 'evt_4');
    const [before] = await here.query<{ body: Buffer }>(
      `SELECT * FROM webhook_claim WHERE event_id = 'evt_4'`,
    );
    const { otherSecret: secret } = signerOf('github');
    const body = '{"edited":"canary-edit"}';
    const events = [{ source: 'github', tenant: '', eventId: 'evt_4' }];
    const options = { ...who, allow, sign: { secret }, body };
    const url = `${origin}/webhooks/github`;
    expect(await here.app.get(Replays).forward({ events }, url, options)).toMatchObject({ forwarded: 1 });
    const [theirs] = await staging.query<{ body: Buffer }>(
      `SELECT body FROM webhook_claim WHERE event_id = 'evt_4'`,
    );
    expect(theirs!.body.toString()).toBe(body);
    expect((await here.query(`SELECT * FROM webhook_claim WHERE event_id = 'evt_4'`))[0]).toEqual(before);
    const audit = await here.query(
      `SELECT detail, detail::text || outcome::text AS text FROM webhook_audit ORDER BY id DESC LIMIT 1`,
    );
    expect(audit).toMatchObject([{ detail: { signed: true, edited: true } }]);
    expect(String(audit[0]!['text'])).not.toMatch(new RegExp(`canary-edit|${secret}`));
    await expect(here.app.get(Replays).forward({ source: 'stripe' }, url, options)).rejects.toThrow(
      /expected one event/,
    );
  });
});
