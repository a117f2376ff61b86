import { Webhook } from 'standardwebhooks';
import { ConfigurationError } from '../../../src/core/errors.js';
import { RequestHeaders } from '../../../src/core/request.js';
import { resolveSource } from '../../../src/core/options/resolve-source.js';
import {
  adyen,
  convoy,
  custom,
  discord,
  dropbox,
  github,
  gitlab,
  hmac,
  hook0,
  hubspot,
  meta,
  plaid,
  postmark,
  providersByName,
  sendGrid,
  sns,
  square,
  standardWebhooks,
  stripe,
  telegram,
  trello,
  twilio,
  type HmacOptions,
} from '../../../src/sources/index.js';
import { checkSecretText } from '../../../src/sources/signing/secret-check.js';
import { signers, sourceOf } from '../../support/signers/index.js';

const secrets = ['some-signing-key'];

describe('options', () => {
  it('that nobody knows are refused, with the nearest that is known', () => {
    expect(() => stripe({ secrets, tollerance: '5m' } as never)).toThrow(
      "stripe.tollerance: unknown option; did you mean 'tolerance'?",
    );
    expect(() => github({ secrets, legacySHA1: true } as never)).toThrow("did you mean 'legacySha1'?");
    expect(() => hmac({ secrets, signatureHeader: 'x', idheader: 'y' } as never)).toThrow(
      "did you mean 'idHeader'?",
    );
  });

  it('that are missing are named, with what they are for', () => {
    expect(() => square({ secrets } as never)).toThrow('square.notificationUrl: expected an absolute URL');
    expect(() => trello({ secrets, callbackUrl: '/t' })).toThrow('trello.callbackUrl');
    expect(() => twilio({ secrets, publicUrl: 'hooks.example.com' })).toThrow('twilio.publicUrl');
    expect(() => hubspot({ secrets } as never)).toThrow('hubspot.publicUrl');
    expect(() => dropbox({ secrets } as never)).toThrow('dropbox.dedupe');
    expect(() => dropbox({ secrets, dedupe: 'preset' })).toThrow('dropbox.dedupe');
    expect(() => convoy({ secrets })).toThrow('expected idHeader, idPath or dedupe');
    expect(() => hmac({ secrets, signatureHeader: 'x' })).toThrow('expected idHeader, idPath or dedupe');
    expect(() => custom({ secrets, verify: () => true })).toThrow(
      'expected identify, idHeader, idPath or dedupe',
    );
    expect(() => stripe({} as never)).toThrow('stripe.secrets');
  });

  it('with values that cannot be are refused', () => {
    expect(() => hubspot({ secrets, publicUrl: 'https://a.example', versions: ['v4' as never] })).toThrow(
      ConfigurationError,
    );
    expect(() => hook0({ secrets, versions: [] })).toThrow(ConfigurationError);
    expect(() => adyen({ secrets, webhooks: 'x' as never })).toThrow(ConfigurationError);
    expect(() =>
      sns({ topicArns: ['arn:aws:sns:eu-west-1:123456789012:a'], signatureVersion: 2 as never }),
    ).toThrow(/sns\.signatureVersion: expected '1' or '2'/);
    expect(() => plaid({ secrets } as never)).toThrow(/plaid\.dedupe: expected a key, received nothing/);
    expect(() => plaid({ secrets, dedupe: 'preset' })).toThrow(/plaid\.dedupe: expected a key/);
    const perAttempt = { secrets, dedupe: [{ path: 'item_id' }, { header: 'plaid-verification' }] } as const;
    expect(() => plaid({ ...perAttempt, retries: 'provider' })).toThrow(/plaid\.retries: expected 'own'/);
    expect(() => plaid({ ...perAttempt, retries: 'own' })).not.toThrow();
    expect(() => plaid({ secrets, dedupe: { path: 'id' }, environment: 'development' as never })).toThrow(
      ConfigurationError,
    );
    expect(() => convoy({ secrets, idPath: 'id', hash: 'MD5' as never })).toThrow(ConfigurationError);
    expect(() => custom({ secrets, idPath: 'id', verify: 'yes' as never })).toThrow(ConfigurationError);
    expect(() => hmac({ secrets, signatureHeader: 'x', idPath: 'id', retryWindow: 'soon' })).toThrow(
      'hmac.retryWindow',
    );
  });

  it('a header cannot be the id of each event of one body', () => {
    const shared = { secrets, idHeader: 'x-id', eventsPath: 'events' };
    const makes = {
      hmac: (more: object) => hmac({ ...shared, signatureHeader: 'x', ...more }),
      convoy: (more: object) => convoy({ ...shared, ...more }),
      custom: (more: object) => custom({ ...shared, verify: () => true, ...more }),
    };
    for (const [name, make] of Object.entries(makes)) {
      expect(() => make({})).toThrow(`${name}.idHeader: expected idPath or dedupe with eventsPath`);
      expect(() => make({ idPath: 'id' })).toThrow(ConfigurationError);
      expect(() => make({ dedupe: { path: 'id' } })).not.toThrow();
    }
  });

  it.each<[object, string]>([
    [
      { algorithm: 'SHA256' },
      `algorithm: expected one of "sha1"|"sha256"|"sha384"|"sha512", received 'SHA256'`,
    ],
    [{ encoding: 'HEX' }, `encoding: expected one of "hex"|"base64"|"base64url", received 'HEX'`],
    [{ secretEncoding: 'utf8' }, `secretEncoding: expected one of "text"|"hex"|"base64", received 'utf8'`],
    [
      { timestampHeader: 'x-t', timestampUnit: 's' },
      `timestampUnit: expected one of "seconds"|"milliseconds"|"iso8601", received 's'`,
    ],
    [{ signatureHeader: 'X Acme' }, `signatureHeader: expected the name of a header, received 'X Acme'`],
    [{ signatureHeader: 'x-sig:' }, `signatureHeader: expected the name of a header, received 'x-sig:'`],
    [{ timestampHeader: '' }, `timestampHeader: expected the name of a header, received ''`],
    [{ idHeader: ['x-id', 'x id'] }, `idHeader.1: expected the name of a header, received 'x id'`],
    [{ idHeader: [] }, 'idHeader: expected'],
    [{ typeHeader: 3 }, 'typeHeader: expected the name of a header or array, received 3'],
    [{ prefix: 7 }, 'prefix: expected string, received 7'],
    [{ prefix: null }, 'prefix: expected string, received null'],
    [{ pairs: 't,v1' }, `pairs: expected object, received 't,v1'`],
    [{ pairs: { timestamp: 't' } }, 'pairs.signature: expected string, received undefined'],
    [{ pairs: { signature: 'v1', time: 't' } }, `pairs: unknown option 'time'`],
    [{ pairs: { signature: 'v1', separator: '' } }, 'pairs.separator: expected'],
    [{ pairs: { signature: 'v1', spaced: 'yes' } }, `pairs.spaced: expected boolean, received 'yes'`],
    [{ signedPayload: 1 }, 'signedPayload: expected string, received 1'],
    [{ idPath: 5 }, 'idPath: expected string or array, received 5'],
    [{ typePath: ['a', 5] }, 'typePath.1: expected string, received 5'],
    [{ timePath: ['a'] }, 'timePath: expected string, received an array'],
    [{ eventsPath: true }, 'eventsPath: expected string, received true'],
    [{ retriesSameBytes: 'false' }, `retriesSameBytes: expected boolean, received 'false'`],
    [{ retryWindow: '' }, 'retryWindow: expected milliseconds or text'],
    [{ name: 5 }, 'name: expected string, received 5'],
  ])('hmac() values that would refuse every delivery stop the boot: %j', (options, message) => {
    const make = () => hmac({ secrets, signatureHeader: 'x', idPath: 'id', ...options });
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(`hmac.${message}`);
  });

  it('hmac() and custom() take every value that they document', () => {
    const base = { secrets, signatureHeader: 'X-Acme.Sig_1', idPath: ['a', 'b'], typeHeader: ['x', 'y'] };
    for (const algorithm of ['sha1', 'sha256', 'sha384', 'sha512'] as const)
      for (const encoding of ['hex', 'base64', 'base64url'] as const)
        expect(hmac({ ...base, algorithm, encoding }).provider.name).toBe('hmac');
    for (const timestampUnit of ['seconds', 'milliseconds', 'iso8601'] as const)
      hmac({ ...base, pairs: { signature: 'v1', timestamp: 't', spaced: true }, timestampUnit });
    for (const secretEncoding of ['text', 'hex', 'base64'] as const) hmac({ ...base, secretEncoding });
    const handshake = { methods: ['GET'], answer: () => undefined };
    const signed = { id: true, type: false, time: false };
    const own = { verify: () => true, identify: () => [], handshake, signed, ack: { status: 200, body: '' } };
    expect(custom({ secrets, ...own, methods: ['PUT'], toleranceMs: 0 }).provider.signed).toEqual(signed);
  });

  it.each<[object, string]>([
    [{ methods: 'POST' }, `methods: expected array, received 'POST'`],
    [{ methods: ['post'] }, `methods.0: expected a method such as 'POST', received 'post'`],
    [{ signed: { id: 'yes', type: true, time: true } }, `signed.id: expected boolean, received 'yes'`],
    [{ toleranceMs: '5m' }, `toleranceMs: expected number, received '5m'`],
    [{ identify: 'id' }, `identify: expected a function, received 'id'`],
    [{ handshake: { methods: ['GET'] } }, 'handshake.answer: expected a function, received undefined'],
    [{ idHeader: 'x id' }, 'idHeader: expected the name of a header'],
  ])('custom() values that cannot be stop the boot: %j', (options, message) => {
    const make = () => custom({ secrets, verify: () => true, idPath: 'id', ...options });
    expect(make).toThrow(ConfigurationError);
    expect(make).toThrow(`custom.${message}`);
  });

  it.each([
    [{ signedPayload: '${timestamp}.${body}' }, 'timestampHeader'],
    [{ signedPayload: '${body}', timestampHeader: 'x-t' }, 'A timestamp that is not signed proves nothing'],
    [{ signedPayload: 'constant' }, 'authenticates any body'],
    [{ signedPayload: '${bdoy}' }, 'expected one of'],
  ] satisfies [Partial<HmacOptions>, string][])(
    'hmac() templates that prove nothing are refused: %j',
    (options, message) => {
      expect(() => hmac({ secrets, signatureHeader: 'x', idPath: 'id', ...options })).toThrow(message);
    },
  );

  it('policies go on to the source as they are', () => {
    expect(stripe({ secrets, tolerance: '10m', retries: 'provider' })).toMatchObject({
      secrets,
      tolerance: '10m',
      retries: 'provider',
    });
    expect(sns({ topicArns: ['arn:aws:sns:eu-west-1:123456789012:a'] }).secrets).toEqual([
      'arn:aws:sns:eu-west-1:123456789012:a',
    ]);
  });

  it.each(signers)('$provider: is a source that the module takes', (signer) => {
    expect(resolveSource('one', sourceOf(signer)).provider.name).toBe(signer.provider);
  });

  it('payload types of a vendor flow through', () => {
    interface Invoice {
      readonly id: string;
    }
    const source = stripe<Invoice>({ secrets });
    const payload: Invoice | undefined = source.payload;
    expect(payload).toBeUndefined();
  });

  it('a file can name a provider, and gets the same checks', () => {
    const factory = providersByName.get('hmac');
    expect(() => factory?.({ secrets, signatureHeader: 'x', idPaht: 'id' })).toThrow(
      "did you mean 'idPath'?",
    );
    expect(providersByName.get('stripe')?.({ secrets }).provider.name).toBe('stripe');
  });
});

describe('secrets that cannot be right', () => {
  it.each([
    'changeme',
    'CHANGE_ME',
    'change-me',
    'your-secret',
    'your_webhook_signing_secret',
    'YOUR-KEY-HERE',
    'secret',
    'mysecret',
    'my-secret',
    'xxx',
    'xxxxxxxxxxxx',
    '***',
    '...',
    '<secret>',
    '<your signing secret>',
    '${STRIPE_SECRET}',
    '$SECRET',
    '%SECRET%',
    '{{secret}}',
    '[secret]',
    'whsec_xxx',
    'whsec_...',
    'whsec_your_secret',
    'sk_test_xxx',
    'undefined',
    'null',
    'placeholder',
    'TODO',
    'password',
    '12345678',
    '00000000',
  ])('the placeholder %j', (secret) => {
    expect(checkSecretText(secret)).toMatch(/placeholder/);
  });

  it.each(['', ' ', '\t\n', ' abc def', 'abcdef123\n'])('the blank or copied %j', (secret) =>
    expect(checkSecretText(secret)).toMatch(/empty|blank|white space/),
  );

  it.each([
    'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=',
    "It's a Secret to Everybody",
    'hush-now',
    '8f742231b10e8888abcd99yyyzzz85a5',
    'sk_live_51abc',
    'my team’s 1st key',
    'secretary-7',
  ])('but not the possible %j', (secret) => {
    expect(checkSecretText(secret)).toBeUndefined();
  });

  it.each([
    '0123456789abcdef0123456789abcdef',
    '0123456789abcdef0123456789abcde',
    '0123456789abcdef0123456789abcd',
  ])(
    'base64 without its padding is the same key, as the specification’s own libraries have it: %s',
    (key) => {
      const padded = `whsec_${Buffer.from(key).toString('base64')}`;
      const bare = padded.replace(/=+$/, '');
      const { provider } = standardWebhooks({ secrets });
      const at = new Date(1_767_225_600_000);
      const signed = new Webhook(bare).sign('msg_1', at, '{}');
      expect(signed).toBe(new Webhook(padded).sign('msg_1', at, '{}'));
      const headers = RequestHeaders.from({
        'webhook-id': 'msg_1',
        'webhook-timestamp': '1767225600',
        'webhook-signature': signed,
      });
      for (const secret of [padded, bare, bare.slice('whsec_'.length)]) {
        expect(provider.checkSecret?.(secret)).toBeUndefined();
        const request = { method: 'POST', url: '/', headers, rawBody: Buffer.from('{}') };
        expect(provider.verify(request, [secret])).toMatchObject({ secret: 0 });
      }
    },
  );

  it('so are a public key, a key of hmac() and a token of GitLab', () => {
    const whpk = `whpk_${Buffer.alloc(32, 7).toString('base64')}`.replace(/=+$/, '');
    expect(standardWebhooks({ secrets }).provider.checkSecret?.(whpk)).toBeUndefined();
    const own = hmac({ secrets, signatureHeader: 'x', idPath: 'id', secretEncoding: 'base64' });
    expect(own.provider.checkSecret?.('bXkta2V5LTE')).toBeUndefined();
    const token = `whsec_${Buffer.alloc(32, 9).toString('base64').replace(/=+$/, '')}`;
    expect(gitlab({ secrets }).provider.checkSecret?.(token)).toBeUndefined();
  });

  it.each([
    [
      'standard-webhooks',
      standardWebhooks({ secrets }),
      ['whsec_not base64', 'whsec_YWJj_', 'whpk_YWJj', 'whsk_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='],
    ],
    ['adyen', adyen({ secrets }), ['not hex', 'ABC']],
    ['discord', discord({ secrets }), ['ab'.repeat(31), 'zz'.repeat(32)]],
    ['sendgrid', sendGrid({ secrets }), ['MFkw', 'not a key']],
    ['postmark', postmark({ secrets }), ['user-without-password', 'user:']],
    ['telegram', telegram({ secrets }), ['spaces are not allowed']],
    ['gitlab', gitlab({ secrets }), ['whsec_MDEyMzQ1Njc4OQ==']],
    ['plaid', plaid({ secrets: ['a:b'], dedupe: { path: 'id' } }), ['only-a-secret']],
    ['sns', sns({ topicArns: ['x'] }), ['orders', 'arn:aws:sqs:eu-west-1:123456789012:q']],
    ['meta', meta({ secrets }), ['']],
  ])('another encoding than the vendor’s: %s', (_name, { provider }, wrong) => {
    for (const secret of wrong) expect(provider.checkSecret?.(secret)).toEqual(expect.any(String));
  });
});
