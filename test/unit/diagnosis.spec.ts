import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { jest } from '@jest/globals';
import type { Provider } from '../../src/core/provider.js';
import { RequestHeaders, type WebhookRequest } from '../../src/core/request.js';
import { resolveSource, type Source } from '../../src/core/options/resolve-source.js';
import type { SourceDefinition } from '../../src/core/options/source.js';
import { custom, discord, hmac, paypal, stripe } from '../../src/sources/index.js';
import { bodyVariants } from '../../src/operator/explain/body-variants.js';
import { diagnose, type Diagnosis } from '../../src/operator/explain/diagnosis.js';
import { asciiJson, isDeeper, spacedJson } from '../../src/operator/explain/json-spelling.js';
import { TrialBudget } from '../../src/operator/explain/trial-budget.js';
import { Trials } from '../../src/operator/explain/trials.js';

const SECRET = 'diagnosis-test-key-0123456789abcdef';
const KIB = 1024;

/** What a sender who is not believed may send, each of 250 kB. */
const HOSTILE: readonly (readonly [string, string])[] = [
  ['numbers nested 1,000 deep', `${'['.repeat(1_000)}${'0,'.repeat(124_000)}0${']'.repeat(1_000)}`],
  ['numbers nested 64 deep', `${'['.repeat(64)}${'0,'.repeat(124_000)}0${']'.repeat(64)}`],
  ['objects nested 64 deep', `${'{"a":'.repeat(64)}[${'{},'.repeat(80_000)}{}]${'}'.repeat(64)}`],
  ['brackets that do not close', '['.repeat(250_000)],
  ['numbers that become longer', `[${'1e20,'.repeat(50_000)}0]`],
  ['characters that become longer', `["${'ÿ'.repeat(125_000)}"]`],
  ['no UTF-8', Buffer.alloc(250_000, 0xff).toString('latin1')],
  ['slashes', `["${'/'.repeat(250_000)}"]`],
  ['line breaks', '\n'.repeat(250_000)],
  ['line breaks in JSON', `[${'\n0,'.repeat(80_000)}0]`],
  ['quotes', '"'.repeat(250_000)],
  ['backslashes', `["${'\\\\'.repeat(120_000)}"]`],
];

describe('what is done for a request that was refused', () => {
  it.each(HOSTILE)('spellings of a body are at most a few times as long: %s', (_what, text) => {
    const body = Buffer.from(text);
    const sizes = [...bodyVariants(body)].map(({ bytes }) => bytes?.length ?? 0);
    expect(Math.max(0, ...sizes)).toBeLessThanOrEqual(4 * body.length + 4 * KIB);
  });

  it('an ordinary body has all spellings, each once', () => {
    const variants = [...bodyVariants(Buffer.from('{"a":[1,{"b":"é/"}],"c":{},"d":[],"e":"x: {,\\"[y"}'))];
    expect(variants.filter(({ bytes }) => bytes === undefined)).toEqual([]);
    const texts = variants.map(({ bytes }) => bytes!.toString());
    expect(new Set(texts).size).toBe(texts.length);
    const value: unknown = { a: [1, { b: 'é/' }], c: {}, d: [], e: 'x: {,"[y' };
    expect(texts).toEqual(
      expect.arrayContaining([
        JSON.stringify(value, null, 2),
        JSON.stringify(value, null, 4),
        '{"a": [1, {"b": "\\u00e9/"}], "c": {}, "d": [], "e": "x: {,\\"[y"}',
        '{"a":[1,{"b":"\\u00e9\\/"}],"c":{},"d":[],"e":"x: {,\\"[y"}',
      ]),
    );
  });

  it('what is hashed in a round has an end, however many are refused, of however many sources', async () => {
    let hashed = 0;
    const counting: Provider = {
      ...hmacSource('counting').provider,
      verify: ({ rawBody }, secrets) => {
        hashed += rawBody.length * secrets.length;
        throw new Error('wrong');
      },
    };
    const sources = Array.from({ length: 60 }, (_, n) => ({ ...hmacSource(`s${n}`), provider: counting }));
    const budget = new TrialBudget(8 * KIB * KIB, Infinity, Infinity);
    const refused = Array.from({ length: 20 }, (_, n) => HOSTILE[n % HOSTILE.length]![1]);
    for (const [index, text] of refused.entries()) {
      budget.shareWith(refused.length - 1 - index);
      await explain(requestOf(text, { 'x-signature': 'sha256=00' }), sources[0]!, sources, { budget });
    }
    expect(hashed).toBeGreaterThan(0);
    expect(hashed).toBeLessThanOrEqual(8 * KIB * KIB);
  });

  it('a budget is used to its last byte, and no part of it twice', async () => {
    const budget = new TrialBudget(10, Infinity, Infinity);
    budget.shareWith(1);
    expect([await budget.pay(6), await budget.pay(5), await budget.pay(1)]).toEqual([false, true, false]);
    budget.shareWith(0);
    expect([await budget.pay(6), await budget.pay(5)]).toEqual([false, true]);
  });

  it('the time to make a candidate counts as the time to try it does', async () => {
    let [now, made] = [0, 0];
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
    try {
      const trials = new Trials(new TrialBudget());
      const slow = (function* () {
        for (; made < 50; made += 1) {
          now += 100;
          yield made;
        }
      })();
      const verify = () => Promise.reject(new Error('wrong'));
      const trial = { provider: { verify }, request: { rawBody: Buffer.alloc(1) }, secrets: ['a'] };
      expect(await trials.first('spellings', slow, () => trial as never)).toBeUndefined();
      // A quarter of a second is over with the third.
      expect(made).toBe(2);
      expect(trials.summary()).toContain('further spellings (the limit of one round was reached)');
    } finally {
      clock.mockRestore();
    }
  });

  it('corrections of which there are none are not named', async () => {
    const trials = new Trials(new TrialBudget(undefined, Infinity, Infinity));
    expect(await trials.first('spellings', [], () => undefined)).toBeUndefined();
    expect(trials.summary()).toBe('');
  });

  it('a spelling in ASCII leaves the characters of ASCII, also the last', () => {
    expect(asciiJson('"a\x7f"', 100)).toBe('"a\x7f"');
    expect(asciiJson('"\x7f\x80"', 100)).toBe('"\x7f\\u0080"');
    expect(['"é"', '"ééé"'].map((json) => asciiJson(json, 8))).toEqual(['"\\u00e9"', undefined]);
  });

  it('a spelling is made up to its limit, and JSON is deep beyond the depth', () => {
    expect([6, 5].map((limit) => spacedJson('[1,2]', limit)?.toString())).toEqual(['[1, 2]', undefined]);
    expect([2, 1].map((depth) => isDeeper(Buffer.from('[["["]]'), depth))).toEqual([false, true]);
  });

  it('names six things, and how many more there were', () => {
    const told = (count: number) => {
      const trials = new Trials(new TrialBudget(undefined, Infinity, Infinity));
      for (let nth = 1; nth <= count; nth += 1) trials.leftOut(`${nth}`);
      return trials.summary();
    };
    expect(told(6)).toBe('Not tried: 1; 2; 3; 4; 5; 6.');
    expect(told(8)).toBe('Not tried: 1; 2; 3; 4; 5; 6; 2 more.');
  });

  it('a budget that is used up is told, and costs the next sample nothing of its part', async () => {
    const source = hmacSource('acme');
    const budget = new TrialBudget(KIB * KIB, Infinity, Infinity);
    budget.shareWith(1);
    const large = await explain(signed('x'.repeat(200_000), 'wrong'), source, [source], { budget });
    expect(large.explanation).toMatch(/Not tried:.*limit of one round/);
    budget.shareWith(0);
    expect(await explain(signed('{"a": 1}', SECRET, '{"a":1}'), source, [source], { budget })).toMatchObject({
      code: 'rewritten-body',
    });
  });
});

describe('a diagnosis', () => {
  it('says what was tried, and what was not and why', async () => {
    const own = hmacSource('acme');
    const sources = [
      own,
      hmacSource('other', 'other-test-key-0123456789abcdef'),
      sourceOf('pay', paypal({ webhookIds: ['8PT597110X687430LKGECATA'] })),
      sourceOf('home-made', custom({ secrets: [SECRET], verify: () => true, idPath: 'id' })),
      sourceOf('silent', stripe({ secrets: () => [] })),
    ];
    const found = await explain(signed('{"a":1}', 'forged-test-key-0123456789abcdef'), own, sources);
    expect(found.code).toBe('wrong-secret');
    expect(found.explanation).toMatch(
      /Tried: 5 spellings of the secrets of 'acme'; \d+ spellings of the body;/,
    );
    expect(found.explanation).toContain(`2 checks of source 'other'`);
    expect(found.explanation).toMatch(/Not tried: source 'pay' \(its keys are fetched from the vendor\);/);
    expect(found.explanation).toContain(`source 'home-made' (the application’s own function verifies)`);
    expect(found.explanation).toContain(
      `source 'silent' (its \`secrets\` function gave none for this request)`,
    );
  });

  it('says that deep JSON was not written otherwise', async () => {
    const own = hmacSource('acme');
    const body = `${'['.repeat(65)}0${']'.repeat(65)}`;
    const { explanation } = await explain(signed(body, 'forged-test-key-0123456789abcdef'), own, [own]);
    expect(explanation).toMatch(/Not tried:.*nested more than 64 deep/);
  });

  it.each<[string, WebhookRequest, string]>([
    ['a rewritten body', signed('{"a": 1}', SECRET, '{"a":1}'), 'rewritten-body'],
    ['a line break behind the secret', signed('{}', `${SECRET}\n`), 'secret-format'],
  ])('uses the secrets that a function gave: %s', async (_what, request, code) => {
    const own = hmacSource('tenants', () => Promise.resolve({ secrets: [SECRET], tenant: 'a' }));
    expect(await explain(request, own, [own], { secrets: { tenants: [SECRET] } })).toMatchObject({ code });
  });

  it('finds the source whose function knows the secret', async () => {
    const own = hmacSource('acme', 'another-test-key-0123456789abcdef');
    const other = hmacSource('tenants', () => [SECRET]);
    const request = signed('{}', SECRET);
    expect(await explain(request, own, [own, other], { secrets: { tenants: [SECRET] } })).toMatchObject({
      code: 'other-source',
    });
  });

  it('tries public keys: a rewritten body, and the key of another source', async () => {
    const [mine, theirs] = [keyPair(), keyPair()];
    const own = sourceOf('bot', discord({ secrets: [mine.hex] }));
    const other = sourceOf('other-bot', discord({ secrets: [theirs.hex] }));
    expect(await explain(mine.request('{"a": 1}', '{"a":1}'), own, [own, other])).toMatchObject({
      code: 'rewritten-body',
    });
    expect(await explain(theirs.request('{"a":1}'), own, [own, other])).toMatchObject({
      code: 'other-source',
      explanation: expect.stringContaining(`'other-bot'`),
    });
  });
});

function hmacSource(
  name: string,
  secrets: string | (() => string[] | Promise<{ secrets: string[]; tenant: string }>) = SECRET,
): Source {
  return sourceOf(
    name,
    hmac({
      secrets: typeof secrets === 'string' ? [secrets] : secrets,
      signatureHeader: 'x-signature',
      prefix: 'sha256=',
      idHeader: 'x-id',
    }),
  );
}

function sourceOf(name: string, definition: SourceDefinition): Source {
  return resolveSource(name, definition);
}

function requestOf(body: string, headers: Record<string, string>): WebhookRequest {
  return { method: 'POST', url: '/', headers: RequestHeaders.from(headers), rawBody: Buffer.from(body) };
}

/** Signed over `body`, and sent as `sent`. */
function signed(body: string, secret: string, sent = body): WebhookRequest {
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  return requestOf(sent, { 'x-signature': `sha256=${signature}`, 'x-id': '1' });
}

function keyPair() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const hex = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('hex');
  const request = (body: string, sent = body) =>
    requestOf(sent, {
      'x-signature-ed25519': sign(null, Buffer.from(`1700000000${body}`), privateKey).toString('hex'),
      'x-signature-timestamp': '1700000000',
    });
  return { hex, request };
}

/** As the explainer does: with the reason that verification gives. */
async function explain(
  request: WebhookRequest,
  source: Source,
  sources: readonly Source[],
  given: { budget?: TrialBudget; secrets?: Record<string, string[]> } = {},
): Promise<Diagnosis> {
  const { budget = new TrialBudget(undefined, Infinity, Infinity), secrets = {} } = given;
  return diagnose(
    { reason: 'wrong-signature', detail: 'no secret of 1 made this signature', request },
    source,
    {
      sources,
      secretsFor: async (one) => secrets[one.name] ?? (typeof one.secrets === 'function' ? [] : one.secrets),
      budget,
    },
  );
}
