import { cautions } from '../../src/core/options/cautions.js';
import { resolveSource } from '../../src/core/options/resolve-source.js';
import type { SourceDefinition } from '../../src/core/options/source.js';
import { nearTypes } from '../../src/handlers/near-types.js';
import { adyen, asana, github, hmac, linear, sendGrid, shopify, stripe } from '../../src/sources/index.js';

const secrets = ['a-secret-of-some-length'];
const of = (definition: SourceDefinition, more: { waits?: boolean; routes?: string[] } = {}) =>
  cautions(resolveSource('it', definition), more);

describe('what boot warns of', () => {
  it('a secret of Stripe that no endpoint of Stripe has', () => {
    expect(of(stripe({ secrets }))).toEqual([
      expect.stringMatching(
        /source 'it': secrets\.0 does not begin with whsec_.*answered 401.*Signing secret/,
      ),
    ]);
    expect(of(stripe({ secrets: ['whsec_a1b2c3d4e5f6'] }))).toEqual([]);
  });

  it("retries: 'provider' where the provider does not retry", () => {
    expect(of(github({ secrets, retries: 'provider' }))).toEqual([
      expect.stringMatching(
        /source 'it': retries: 'provider'.*github sends none by itself.*Expected retries: 'own'.*while this application is down.*@BackfillSource/,
      ),
    ]);
    expect(of(github({ secrets }))).toEqual([]);
  });

  it('a route of a provider that does not retry', () => {
    expect(of(github({ secrets }), { routes: ['it/Billing.push'] })).toEqual([
      expect.stringMatching(
        /the route it\/Billing\.push \(@UseWebhook\).*github sends none by itself.*Expected @OnWebhook.*while this application is down/,
      ),
    ]);
    expect(of(asana({ secrets }), { routes: ['it/Billing.push'] })).toEqual([]);
  });

  it('an answer that may wait for longer than the provider does, where answers wait for work', () => {
    const slow = asana({ secrets, ackTimeout: '10s' });
    const warning = [
      expect.stringMatching(/may wait 10000 ms.*asana gives up after 10000 ms.*Expected an ackTimeout below/),
    ];
    expect(of(asana({ secrets, ackTimeout: '10s', retries: 'provider' }))).toEqual(warning);
    expect(of(slow, { waits: true })).toEqual(warning);
    expect(of(slow, { routes: ['it/Billing.push'] })).toEqual(warning);
    expect(of(slow)).toEqual([]);
    expect(of(asana({ secrets, ackTimeout: '9s' }), { waits: true })).toEqual([]);
  });

  it('a window that is over before the retries with the first time are', () => {
    const sources = { secrets: ['lin_wh_0123456789'] };
    expect(of(linear(sources))).toEqual([
      expect.stringMatching(/linear may retry for \d+ ms with the time of its first.*60000 ms/),
    ]);
    expect(of(linear({ ...sources, tolerance: '7h' }))).toEqual([]);
  });

  it('nothing where the provider does not say', () => {
    expect(
      of(hmac({ secrets, signatureHeader: 'x', idHeader: 'y', ackTimeout: '1h', retries: 'provider' })),
    ).toEqual([]);
  });
});

describe('an event type that is nearly one of the provider', () => {
  const told = ({ provider }: SourceDefinition, ...types: string[]) =>
    nearTypes(provider, [{ origin: { at: "Billing.it @OnWebhook('it')", code: {}, module: 'App' }, types }]);
  const sources = {
    adyen: adyen({ secrets: ['00'.repeat(32)] }),
    github: github({ secrets }),
    hmac: hmac({ secrets, signatureHeader: 'x', idHeader: 'y' }),
    sendGrid: sendGrid({ secrets }),
    shopify: shopify({ secrets }),
    stripe: stripe({ secrets }),
  };

  it.each([
    ['stripe', 'invoice.payed', 'invoice.paid'],
    ['stripe', 'Invoice.Paid', 'invoice.paid'],
    ['stripe', 'invoice_paid', 'invoice.paid'],
    ['stripe', 'charge.refund', 'charge.refunded'],
    ['stripe', 'invoices.*', 'invoice.*'],
    ['stripe', 'customer.subscriptions.*', 'customer.subscription.*'],
    ['stripe', 'v2.core.account[default].updated', 'v2.core.account[defaults].updated'],
    ['github', 'pull_requests', 'pull_request'],
    ['github', 'pull_request.opened', 'pull_request'],
    ['shopify', 'ORDERS_CREATE', 'orders/create'],
    ['sendGrid', 'bounced', 'bounce'],
    ['adyen', 'Authorization', 'AUTHORISATION'],
  ] as const)('%s: %s is told of, and %s named', (source, type, meant) => {
    expect(told(sources[source], 'a.type.apart', type)).toEqual([
      expect.stringContaining(
        `Billing.it @OnWebhook('it'): ${sources[source].provider.name} has no event type '${type}' that this version knows; did you mean '${meant}'?`,
      ),
    ]);
  });

  it.each([
    ['stripe', 'invoice.paid'],
    ['stripe', 'invoice.*'],
    ['stripe', '*'],
    ['stripe', '*.paid'],
    ['stripe', '*.of_tomorrow'],
    ['stripe', 'v1.invoice.paid'],
    ['stripe', 'invoice.sent_by_pigeon'],
    ['stripe', 'a'],
    ['github', 'a_new_thing'],
    ['shopify', 'orders/create'],
    ['hmac', 'invoice.payed'],
  ] as const)('%s: %s is not told of', (source, type) => {
    expect(told(sources[source], type)).toEqual([]);
  });
});
