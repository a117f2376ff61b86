import { z } from 'zod';
import { optionsSchema, resolveOptions } from '../../src/core/options/resolve-options.js';
import { resolveSource } from '../../src/core/options/resolve-source.js';
import type { EffectTransport } from '../../src/core/options/effect-transport.js';
import type { TransportOptions } from '../../src/core/options/options.js';
import { effectOf } from '../../src/handlers/effect.explorer.js';
import { routeEffects } from '../../src/handlers/engine-routes.js';
import { HandlerRegistry } from '../../src/handlers/handler.registry.js';
import { POLICY_NAMES } from '../../src/sources/source-options.js';
import {
  gitlab,
  ConfigurationError,
  github,
  hmac,
  stripe,
  WebhooksModule,
  type EffectOptions,
  type WebhooksOptions,
} from '../../src/index.js';
import { AWARDEE_SECRET, STRIPE_SECRET } from '../support/signing.js';
import { awardeeSource, githubSource, stripeSource } from '../support/sources.js';

/** Options as a JavaScript caller, a JSON file or a cast may give them. */
const boot = (make: () => unknown) => () => resolveOptions(make() as WebhooksOptions);
const withSource = (options: object) => ({ sources: { acme: awardeeSource(options) } });
const DURATION = "expected milliseconds or text such as '30s', '4h', '30d'";

describe('wrong options stop the boot with their path, what was expected, and what was received', () => {
  it.each<[string, () => unknown, string]>([
    ['nothing', () => undefined, 'WebhooksModule options: expected object, received undefined'],
    [
      'no sources',
      () => ({}),
      'WebhooksModule options.sources: expected the endpoints by name, such as { stripe: stripe({ secrets: […] }) }, received undefined',
    ],
    [
      'sources as a list',
      () => ({ sources: [] }),
      'WebhooksModule options.sources: expected the endpoints by name, such as { stripe: stripe({ secrets: […] }) }, received an array',
    ],
    [
      'a path where the controller has it',
      () => ({ sources: {}, path: 'hooks' }),
      "WebhooksModule options: unknown option 'path'; the path of the module's own route is `controller: { path }`",
    ],
    [
      'a controller among what the factory returns',
      () => ({ sources: {}, controller: { path: 'hooks' } }),
      "WebhooksModule options: unknown option 'controller'; Nest needs it before the factory runs: give it next to `useFactory`, not in its result",
    ],
    [
      'a name that is like no other',
      () => ({ sources: {}, relay: { concurrency: 5 } }),
      "WebhooksModule options.relay: unknown option 'concurrency'; known: effects, handOff, handlers, lease, listen, pollInterval, shutdownGrace",
    ],
    [
      'a provider’s name for a source',
      () => ({ sources: { acme: 'stripe' } }),
      "sources.acme: expected the result of stripe({ … }), hmac({ … }) or another source function, received 'stripe'",
    ],
    [
      'a source function that was not called',
      () => ({ sources: { acme: stripe } }),
      'sources.acme: expected the result of stripe({ … }), hmac({ … }) or another source function, received a function',
    ],
    [
      'a source whose provider is none',
      () => ({ sources: { acme: { provider: {}, secrets: [AWARDEE_SECRET] } } }),
      'sources.acme.provider: expected the result of stripe({ … }), hmac({ … }) or another source function, received an object',
    ],
    [
      'relay: true',
      () => ({ sources: {}, relay: true }),
      'WebhooksModule options.relay: expected false or object, received true',
    ],
    [
      'a poll interval in words',
      () => ({ sources: {}, relay: { pollInterval: 'soon' } }),
      `WebhooksModule options.relay.pollInterval: ${DURATION}, received 'soon'`,
    ],
    [
      'a poll interval of an environment variable that is empty',
      () => ({ sources: {}, relay: { pollInterval: '' } }),
      `WebhooksModule options.relay.pollInterval: ${DURATION}, received ''`,
    ],
    [
      'a poll interval that is no number',
      () => ({ sources: {}, relay: { pollInterval: Number.NaN } }),
      `WebhooksModule options.relay.pollInterval: ${DURATION}, received NaN`,
    ],
    [
      'a poll interval of none',
      () => ({ sources: {}, relay: { pollInterval: 0 } }),
      'WebhooksModule options.relay.pollInterval: expected more than 0 milliseconds, received 0',
    ],
    [
      'a lease that has ended already',
      () => ({ sources: {}, relay: { lease: '0s' } }),
      "WebhooksModule options.relay.lease: expected at least 500 milliseconds, received '0s'",
    ],
    [
      'a lease that ends while it is being renewed',
      () => ({ sources: {}, relay: { lease: 499 } }),
      'WebhooksModule options.relay.lease: expected at least 500 milliseconds, received 499',
    ],
    [
      'a lease in words',
      () => ({ sources: {}, relay: { lease: 'long' } }),
      `WebhooksModule options.relay.lease: ${DURATION}, received 'long'`,
    ],
    [
      'a negative grace',
      () => ({ sources: {}, relay: { shutdownGrace: -1 } }),
      `WebhooksModule options.relay.shutdownGrace: ${DURATION}, received -1`,
    ],
    [
      'no handlers at once',
      () => ({ sources: {}, relay: { handlers: 0 } }),
      'WebhooksModule options.relay.handlers: expected number to be >0, received 0',
    ],
    [
      'one handler and a half',
      () => ({ sources: {}, relay: { handlers: 1.5 } }),
      'WebhooksModule options.relay.handlers: expected int, received 1.5',
    ],
    [
      'a retention that is a duration',
      () => ({ sources: {}, retention: '30d' }),
      "WebhooksModule options.retention: expected false or object, received '30d'",
    ],
    [
      'a schedule that is a number',
      () => ({ sources: {}, retention: { schedule: 3 } }),
      'WebhooksModule options.retention.schedule: expected string, received 3',
    ],
    [
      'an address to alert',
      () => ({ sources: {}, onAlert: 'mail' }),
      "WebhooksModule options.onAlert: expected a function, received 'mail'",
    ],
    [
      'a budget in words',
      () => ({ sources: {}, byteBudget: '64MB' }),
      "WebhooksModule options.byteBudget: expected number, received '64MB'",
    ],
    [
      'maxPending: true',
      () => ({ sources: {}, maxPending: true }),
      'WebhooksModule options.maxPending: expected false or number, received true',
    ],
    [
      'a claim time-out of null',
      () => ({ sources: {}, claimTimeout: null }),
      `WebhooksModule options.claimTimeout: ${DURATION}, received null`,
    ],
    [
      'retries of nobody',
      () => withSource({ retries: 'theirs' }),
      `sources.acme.retries: expected one of "own"|"provider", received 'theirs'`,
    ],
    [
      'an endless acknowledgement',
      () => withSource({ ackTimeout: 'long' }),
      `sources.acme.ackTimeout: ${DURATION}, received 'long'`,
    ],
    [
      'an acknowledgement in no time',
      () => withSource({ ackTimeout: 0 }),
      'sources.acme.ackTimeout: expected more than 0 milliseconds, received 0',
    ],
    [
      'a negative tolerance',
      () => withSource({ tolerance: -5 }),
      `sources.acme.tolerance: ${DURATION}, received -5`,
    ],
    [
      'a tolerance meant in seconds',
      () => withSource({ tolerance: 300 }),
      'sources.acme.tolerance: expected at least 1 second: a number is milliseconds, received 300',
    ],
    [
      'a limit of no bytes',
      () => withSource({ maxBytes: 0 }),
      'sources.acme.maxBytes: expected number to be >0, received 0',
    ],
    [
      'an encoding nobody undoes',
      () => withSource({ encodings: ['zstd'] }),
      `sources.acme.encodings.0: expected one of "gzip"|"deflate"|"br", received 'zstd'`,
    ],
    [
      'a policy of true',
      () => withSource({ staleDuplicates: true }),
      `sources.acme.staleDuplicates: expected one of "accept"|"reject", received true`,
    ],
    [
      'one header without a list',
      () => withSource({ keepHeaders: 'x-request-id' }),
      "sources.acme.keepHeaders: expected array, received 'x-request-id'",
    ],
    [
      'a retention shorter than the provider’s resend window',
      () => ({ sources: { acme: stripeSource({ retention: '7d' }) } }),
      'sources.acme.retention: expected at least 33 days, since stripe may send an event again for that long and it would be handled twice; received 7 days',
    ],
    [
      'the wrong retention inside of one',
      () => withSource({ retention: { bodies: 'a week' } }),
      `sources.acme.retention.bodies: ${DURATION}, received 'a week'`,
    ],
    [
      'no secret',
      () => withSource({ secrets: [] }),
      'sources.acme.secrets: expected at least one secret, received none',
    ],
    [
      'an environment variable that is not set',
      () => withSource({ secrets: [undefined] }),
      'sources.acme.secrets.0: expected non-blank text, received undefined; is the environment variable set?',
    ],
    [
      'a blank secret',
      () => withSource({ secrets: [AWARDEE_SECRET, '  '] }),
      'sources.acme.secrets.1: expected non-blank text, received blank text',
    ],
    [
      'six secrets',
      () => withSource({ secrets: [1, 2, 3, 4, 5, 6].map((n) => `${AWARDEE_SECRET}${n}`) }),
      'sources.acme.secrets: expected at most 5 live secrets, received 6',
    ],
    [
      'a header to keep that no request carries',
      () => withSource({ keepHeaders: ['x-trace', 'x trace'] }),
      "sources.acme.keepHeaders.1: expected the name of a header, received 'x trace'",
    ],
    [
      'a header to keep that holds the secret itself',
      () => resolveSource('lab', gitlab({ secrets: [AWARDEE_SECRET], keepHeaders: ['X-GitLab-Token'] })),
      "sources.lab.keepHeaders: expected no header that holds a secret, received 'X-GitLab-Token'",
    ],
    [
      'a path to search by that is longer than its column',
      () => withSource({ searchPaths: [`data.${'x'.repeat(256)}`] }),
      'sources.acme.searchPaths.0: expected at most 255 characters',
    ],
    [
      'a header to keep that the application itself calls secret',
      () => withSource({ keepHeaders: ['X-Api-Key'], secretHeaders: ['x-api-key'] }),
      "sources.acme.keepHeaders: expected no header that holds a secret, received 'X-Api-Key'",
    ],
    [
      'a secret without a list',
      () => withSource({ secrets: AWARDEE_SECRET }),
      'hmac.secrets: expected an array of texts or a function, received string',
    ],
    [
      'a secret that is a placeholder',
      () => withSource({ secrets: ['your-secret-here'] }),
      'sources.acme.secrets.0: is a placeholder',
    ],
    [
      'no signature header',
      () => ({ sources: { acme: hmac({ secrets: [AWARDEE_SECRET], idHeader: 'x-id' } as never) } }),
      'hmac.signatureHeader: expected the name of a header',
    ],
    [
      'nothing that makes an event one',
      () => ({ sources: { acme: hmac({ secrets: [AWARDEE_SECRET], signatureHeader: 'x' }) } }),
      'hmac: expected idHeader, idPath or dedupe',
    ],
  ])('%s', (_, make, message) => {
    expect(boot(make)).toThrow(ConfigurationError);
    expect(boot(make)).toThrow(message);
    expect(boot(make)).toThrow(expect.objectContaining({ code: 'CONFIGURATION' }));
  });

  it.each(['Acme', 'x"; drop table webhook_claim', 'a/b', '__proto__', '', 'ä', 'a'.repeat(65)])(
    'refuses the source name %j',
    (name) => {
      const sources = Object.fromEntries([[name, awardeeSource()]]);
      expect(boot(() => ({ sources }))).toThrow(
        /expected a name of lower-case letters, digits, '-' and '_' \(1 to 64\)/,
      );
    },
  );
});

describe('unknown options stop the boot with the nearest known one', () => {
  it.each<[string, () => unknown, string]>([
    [
      'of the module',
      () => ({ sources: {}, relays: {} }),
      "WebhooksModule options: unknown option 'relays'; did you mean 'relay'?",
    ],
    [
      'of a part of it',
      () => ({ sources: {}, relay: { polInterval: '1s' } }),
      "WebhooksModule options.relay: unknown option 'polInterval'; did you mean 'pollInterval'?",
    ],
    [
      'of a source',
      () => ({ sources: { acme: { ...githubSource(), maxByte: 1 } } }),
      "sources.acme: unknown option 'maxByte'; did you mean 'maxBytes'?",
    ],
    [
      'of a provider',
      () => ({ sources: { acme: github({ secrets: [AWARDEE_SECRET], legacySha: true } as never) } }),
      "github.legacySha: unknown option; did you mean 'legacySha1'?",
    ],
    [
      'of a policy',
      () => ({ sources: { acme: stripe({ secrets: [STRIPE_SECRET], retry: 'own' } as never) } }),
      "stripe.retry: unknown option; did you mean 'retries'?",
    ],
  ])('%s', (_, make, message) => {
    expect(boot(make)).toThrow(message);
  });
});

it('tells of every fault at once', () => {
  const make = () => ({ sources: {}, relay: { handlers: 'many' }, byteBudget: -1, onAlert: 1 });
  expect(boot(make)).toThrow(/relay\.handlers[^]*byteBudget|byteBudget[^]*relay\.handlers/);
  expect(boot(make)).toThrow(/onAlert: expected a function, received 1/);
});

it.each(['sk_test_', 'sk_live_', 'rk_live_', 'pk_test_'])(
  'a Stripe API key, %s…, is no webhook secret',
  (prefix) => {
    const key = `${prefix}51Hx8sK2eZvKYlo2C`;
    const make = () => ({ sources: { billing: stripe({ secrets: [key] }) } });
    expect(boot(make)).toThrow(
      /sources\.billing\.secrets\.0: is a Stripe API key \([srp]k_…\): put the signing secret .* begins with whsec_/,
    );
    expect(boot(make)).not.toThrow(key);
  },
);

it.each<[unknown, string]>([
  ['hooks', "WebhooksModule controller: expected object, received 'hooks'"],
  [{ pth: 'hooks' }, "WebhooksModule controller: unknown option 'pth'; did you mean 'path'?"],
  [
    { path: 'hooks/:source' },
    "WebhooksModule controller.path: expected a path without parameters: `/:source` is put behind it, received 'hooks/:source'",
  ],
  [
    { decorators: ['Public'] },
    "WebhooksModule controller.decorators.0: expected a decorator, received 'Public'",
  ],
])('a controller that cannot be, %j, is refused', (controller, message) => {
  const make = () => WebhooksModule.forRoot({ sources: {}, controller: controller as never });
  expect(make).toThrow(ConfigurationError);
  expect(make).toThrow(message);
});

it.each<[unknown, string]>([
  [
    { useFactory: () => ({ sources: {} }), controler: { path: 'hooks' } },
    "WebhooksModule.forRootAsync: unknown option 'controler'; did you mean 'controller'?",
  ],
  [
    { useFactory: () => ({ sources: {} }), relay: false },
    "WebhooksModule.forRootAsync: unknown option 'relay'",
  ],
  [
    { imports: [] },
    'WebhooksModule.forRootAsync.useFactory: expected a function that returns the options of the module, received undefined',
  ],
])('what stands beside a factory and cannot be, %j, is refused', (options, message) => {
  const make = () => WebhooksModule.forRootAsync(options as never);
  expect(make).toThrow(ConfigurationError);
  expect(make).toThrow(message);
});

it.each([
  ['beside a bad one', () => withSource({ secrets: [AWARDEE_SECRET, ''] })],
  ['under a wrong name', () => ({ sources: { acme: { ...awardeeSource(), secret: AWARDEE_SECRET } } })],
  ['with a line break', () => withSource({ secrets: [`${AWARDEE_SECRET}\n`] })],
])('shows no secret in a message: %s', (_, make) => {
  expect(boot(make)).toThrow(ConfigurationError);
  expect(boot(make)).not.toThrow(AWARDEE_SECRET);
});

it('takes durations as milliseconds and as text', () => {
  const { relay } = resolveOptions({ sources: {}, relay: { pollInterval: '250ms', lease: 60_000 } });
  expect(relay).toMatchObject({ pollMs: 250, leaseMs: 60_000 });
});

/** `undefined` for every option that may be left out, as of an application that hands on what its configuration may lack. */
function undefinedForAll({ shape }: z.ZodObject): Record<string, unknown> {
  const optional = Object.entries(shape).filter(([, type]) => type instanceof z.ZodOptional);
  return Object.fromEntries(optional.map(([name, type]) => [name, undefinedInside(type)]));
}

function undefinedInside(type: unknown): unknown {
  if (type instanceof z.ZodOptional) return undefinedInside(type.unwrap());
  if (type instanceof z.ZodUnion)
    return type.options.map(undefinedInside).find((one: unknown) => one !== undefined);
  const isObject = type instanceof z.ZodObject;
  return isObject && Object.values(type.shape).every((one) => one instanceof z.ZodOptional)
    ? undefinedForAll(type)
    : undefined;
}

it('undefined is as good as an option that is left out', () => {
  const all = undefinedForAll(optionsSchema) as Partial<WebhooksOptions>;
  expect(Object.keys(all).length).toBeGreaterThan(15);
  expect(all.relay).toHaveProperty('lease', undefined);
  expect(resolveOptions({ ...all, sources: {} })).toEqual(resolveOptions({ sources: {} }));
  const policies = Object.fromEntries([...POLICY_NAMES].map((name) => [name, undefined]));
  const { provider } = githubSource();
  const source = (more: object) => resolveSource('github', { provider, secrets: ['a-secret'], ...more });
  expect(source({ ...policies, retention: { claims: undefined, bodies: undefined } })).toEqual(source({}));
});

describe('effects that go to an engine', () => {
  const engine = (keepsOrder = false): EffectTransport => {
    const nothing = async () => undefined;
    const subscribe = async () => ({ close: nothing });
    return {
      name: 'engine',
      keepsOrder,
      publish: async () => [],
      consume: subscribe,
      report: nothing,
      onReports: subscribe,
      close: nothing,
    };
  };
  const route = (options: EffectOptions, given: Partial<TransportOptions> = {}) => {
    const registry = new HandlerRegistry();
    const origin = { at: "Mails.mail @OnEffect('mail')", code: {}, module: 'AppModule' };
    registry.addEffect(effectOf('mail', options, { origin, instance: {}, invoke: () => undefined }));
    const transports = [{ transport: engine(), effects: ['mail'], ...given }];
    const resolved = resolveOptions({ sources: {}, transports });
    return () => routeEffects(registry, resolved.transports);
  };

  it.each<[string, EffectOptions, Partial<TransportOptions>, string]>([
    [
      'a name without a method',
      {},
      { effects: ['mial'] },
      "transports.0 (engine).effects: expected names of effects, and no method has @OnEffect('mial'); did you mean 'mail'?",
    ],
    [
      'a former name',
      { was: ['letter'] },
      { effects: ['letter'] },
      "'letter' is a former name: expected today's, 'mail'",
    ],
    [
      'a method that is here',
      {},
      { effects: [], elsewhere: ['mail'] },
      "Mails.mail @OnEffect('mail') is here: name it in `effects`",
    ],
    [
      'an order that the engine does not keep',
      { key: () => 'k' },
      {},
      "key cannot be kept for an effect that the engine 'engine' has",
    ],
    [
      'a dead row that holds its key',
      { key: () => 'k', onDead: 'block' },
      { transport: engine(true) },
      "onDead: 'block' cannot be kept",
    ],
    ['doubts for a person', { inDoubt: 'park' }, {}, "inDoubt: 'park' cannot be kept"],
    ['a destination', { destination: () => 'd' }, {}, 'destination cannot be kept'],
    ['a rate', { rate: '1/s' }, {}, 'rate cannot be kept'],
    ['a limit of failures', { opensAfter: 3 }, {}, 'opensAfter cannot be kept'],
  ])('%s is refused with the reason', (_, options, given, text) => {
    expect(route(options, given)).toThrow(text);
  });

  it('what the engine and the consumer keep is routed, and a method elsewhere needs none here', () => {
    const probe = async () => 'unknown' as const;
    expect(route({ probe, probeFirst: true, opensAfter: false, retry: { maxAttempts: 3 } })).not.toThrow();
    expect(route({ key: () => 'k' }, { transport: engine(true) })).not.toThrow();
    expect(route({}, { elsewhere: ['print'] })).not.toThrow();
  });

  it.each<[string, object, string]>([
    [
      'an effect in two',
      {
        transports: [
          { transport: engine(), effects: ['mail'] },
          { transport: engine(), elsewhere: ['mail'] },
        ],
      },
      "effect 'mail' is in transports.0 (engine) and in transports.1 (engine): expected each effect once",
    ],
    [
      'no transport',
      { transports: [{ transport: { name: 'mine' } }] },
      'transports.0.transport: expected an EffectTransport, such as bullmq({ connection }), received an object',
    ],
    [
      'no time',
      { transports: [{ transport: engine(), unheardAfter: 10 }] },
      'unheardAfter: expected at least 1000 milliseconds, received 10',
    ],
  ])('%s is refused', (_, options, text) => {
    expect(boot(() => ({ sources: {}, ...options }))).toThrow(text);
  });
});
