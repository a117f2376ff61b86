import { BodyReader } from '../../../src/core/body.js';
import { EventIdUnusable, SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import {
  contentful,
  custom,
  discord,
  github,
  gitlab,
  hmac,
  intercom,
  monday,
  sanity,
  shopify,
  slack,
  stripe,
  svix,
  telegram,
  twilio,
  twitch,
} from '../../../src/sources/index.js';

const secrets = ['some-signing-key'];

function identify(
  { provider }: SourceDefinition,
  body: string,
  headers: Readonly<Record<string, string | string[] | undefined>> = {},
  url = '/hooks',
) {
  const rawBody = Buffer.from(body);
  return provider.identify(
    { method: 'POST', url, headers: RequestHeaders.from(headers), rawBody },
    new BodyReader(rawBody),
  );
}

const awardee = hmac({
  name: 'awardee',
  secrets,
  signatureHeader: 'X-Awardee-Signature',
  idHeader: 'X-Awardee-Delivery',
  typeHeader: 'X-Awardee-Event',
});

describe('R01 the dedupe key is the provider’s delivery id', () => {
  it('comes from a header, and so does the type', () => {
    const headers = { 'X-Awardee-Delivery': 'd-1', 'X-Awardee-Event': 'review.published' };
    expect(identify(awardee, '{"a":1}', headers)).toMatchObject([{ id: 'd-1', type: 'review.published' }]);
  });

  it('is the same on a retry, and another one for another event with an equal payload', () => {
    const ids = ['d-1', 'd-1', 'd-2'].map(
      (id) => identify(awardee, '{"a":1}', { 'X-Awardee-Delivery': id })[0]?.id,
    );
    expect(ids).toEqual(['d-1', 'd-1', 'd-2']);
  });

  it('says that a header which no signature covers is not signed', () => {
    expect(awardee.provider.signed).toEqual({ id: false, type: false, time: false });
    expect(github({ secrets }).provider.signed.id).toBe(false);
    expect(stripe({ secrets }).provider.signed).toEqual({ id: true, type: true, time: true });
    expect(svix({ secrets }).provider.signed.id).toBe(true);
    const covered = hmac({
      secrets,
      signatureHeader: 'x-s',
      idHeader: 'x-id',
      signedPayload: '${id}.${body}',
    });
    expect(covered.provider.signed.id).toBe(true);
  });
});

it('case 7: a field that is the subscription’s is not the id, the delivery header is', () => {
  const ids = ['g-1', 'g-2', 'g-3'].map(
    (id) => identify(github({ secrets }), '{"webhookId":"w1"}', { 'X-GitHub-Delivery': id })[0]?.id,
  );
  expect(new Set(ids).size).toBe(3);
});

describe('case 8: no blank, null or made-up id', () => {
  it.each([
    '{}',
    '{"id":null}',
    '{"id":""}',
    '{"id":"   "}',
    '{"id":[]}',
    '{"id":{}}',
    '{"id":0}',
    '{"id":false}',
    'junk',
    '',
  ])('refuses %j', (body) => {
    expect(() => identify(stripe({ secrets }), body)).toThrow(EventIdUnusable);
  });

  it.each([
    {},
    { 'X-GitHub-Delivery': '' },
    { 'X-GitHub-Delivery': '  ' },
    { 'X-GitHub-Delivery': 'a\u0000b' },
  ])('refuses the header of %j', (headers) => {
    expect(() => identify(github({ secrets }), '{}', headers)).toThrow(EventIdUnusable);
  });

  it('refuses an id header that arrives twice', () => {
    expect(() => identify(github({ secrets }), '{}', { 'X-GitHub-Delivery': ['a', 'b'] })).toThrow(
      SignatureRejection,
    );
  });
});

it('case 36: ids beyond 2^53 keep their digits', () => {
  const bot = telegram({ secrets });
  const ids = ['9007199254740992', '9007199254740993'].map(
    (id) => identify(bot, `{"update_id":${id},"message":{}}`)[0],
  );
  expect(ids).toMatchObject([{ id: '9007199254740992', type: 'message' }, { id: '9007199254740993' }]);
});

describe('what each vendor means', () => {
  it('Shopify: the delivery’s id, and by choice the event’s, which several topics of one action share', () => {
    const headers = {
      'X-Shopify-Webhook-Id': 'w1',
      'X-Shopify-Event-Id': 'e1',
      'X-Shopify-Topic': 'orders/create',
    };
    expect(identify(shopify({ secrets }), '{}', headers)).toMatchObject([
      { id: 'w1', type: 'orders/create' },
    ]);
    const byEvent = shopify({ secrets, dedupe: { header: 'X-Shopify-Event-Id' } });
    expect(identify(byEvent, '{}', headers)).toMatchObject([{ id: 'e1' }]);
  });

  it('Svix: the id of the family whose signature counts', () => {
    const headers = { 'svix-signature': 'v1,x', 'svix-id': 's1', 'webhook-id': 'w1' };
    expect(identify(svix({ secrets }), '{"type":"a"}', headers)).toMatchObject([{ id: 's1' }]);
    expect(
      identify(svix({ secrets }), '{"type":"a"}', { 'webhook-signature': 'v1,x', 'webhook-id': 'w1' }),
    ).toMatchObject([{ id: 'w1' }]);
  });

  it('GitLab: the key that retries repeat, under either name', () => {
    const headers = { 'X-Gitlab-Event': 'Push Hook', 'X-Gitlab-Event-UUID': 'shared' };
    expect(identify(gitlab({ secrets }), '{}', { ...headers, 'Idempotency-Key': 'k1' })).toMatchObject([
      { id: 'k1', type: 'Push Hook' },
    ]);
    const [older] = identify(gitlab({ secrets }), '{}', headers);
    expect(older).toMatchObject({ id: expect.stringMatching(/^shared:content%3A/), type: 'Push Hook' });
    expect(identify(gitlab({ secrets }), '{"a":1}', headers)[0]?.id).not.toBe(older?.id);
  });

  it('Slack: events, commands and interactions', () => {
    const app = slack({ secrets });
    expect(
      identify(
        app,
        '{"type":"event_callback","event_id":"Ev1","event_time":1767225600,"event":{"type":"app_mention"}}',
      ),
    ).toMatchObject([{ id: 'Ev1', type: 'app_mention', occurredAt: new Date('2026-01-01') }]);
    expect(identify(app, 'command=%2Fdo&trigger_id=T1')).toMatchObject([{ id: 'T1', type: 'slash_command' }]);
    const payload = new URLSearchParams({ payload: '{"type":"block_actions","trigger_id":"T2"}' }).toString();
    expect(identify(app, payload)).toMatchObject([{ id: 'T2', type: 'block_actions' }]);
    expect(identify(app, 'payload=%7B%22type%22%3A%22view_closed%22%7D')[0]?.id).toMatch(/^content:/);
  });

  it('Twitch: the signed body says what happened, not the headers that repeat it', () => {
    const headers = { 'Twitch-Eventsub-Message-Id': 'm1', 'Twitch-Eventsub-Message-Type': 'notification' };
    expect(
      identify(
        twitch({ secrets }),
        '{"subscription":{"type":"channel.follow","status":"enabled"},"event":{}}',
        headers,
      ),
    ).toMatchObject([{ id: 'm1', type: 'channel.follow' }]);
    expect(
      identify(
        twitch({ secrets }),
        '{"subscription":{"type":"channel.follow","status":"user_removed"}}',
        headers,
      ),
    ).toMatchObject([{ type: 'revocation' }]);
  });

  it('Twilio: what retries repeat, else the whole request, since one call has a status for many requests', () => {
    const source = twilio({ secrets, publicUrl: 'https://hooks.example.com' });
    expect(
      identify(source, 'MessageSid=SM1&MessageStatus=sent', { 'I-Twilio-Idempotency-Token': 't1' }),
    ).toMatchObject([{ id: 't1', type: 'message.sent' }]);
    const [one, two] = ['Digits=1', 'Digits=2'].map(
      (digits) => identify(source, `CallSid=CA1&CallStatus=in-progress&${digits}`)[0],
    );
    expect(one?.type).toBe('call.in-progress');
    expect(one?.id).not.toBe(two?.id);
  });

  it('Discord: interactions and webhook events', () => {
    expect(identify(discord({ secrets }), '{"id":"1","type":3}')).toMatchObject([
      { id: '1', type: 'message_component' },
    ]);
    expect(
      identify(
        discord({ secrets }),
        '{"type":1,"event":{"type":"ENTITLEMENT_CREATE","timestamp":"2026-01-01T00:00:00Z"}}',
      ),
    ).toMatchObject([{ type: 'ENTITLEMENT_CREATE', occurredAt: new Date('2026-01-01') }]);
  });

  it('an unreadable type is `unknown`, so that the event is not lost', () => {
    for (const type of ['null', '7.5e99', '{}', '"a\\u0000b"', '"\\ud800"', '""', `"${'x'.repeat(300)}"`])
      expect(identify(stripe({ secrets }), `{"id":"e","type":${type}}`)[0]?.type).toMatch(
        /^(unknown|7.5e99)$/,
      );
  });
});

describe('what vendors send without an id is told apart by its content, and not refused', () => {
  it.each([
    ['Slack', slack({ secrets }), '{"type":"app_rate_limited","minute_rate_limited":1}', 'app_rate_limited'],
    ['monday.com', monday({ secrets }), '{"type":"install","data":{}}', 'install'],
    ['Intercom', intercom({ secrets }), '{"type":"notification_event","id":null,"topic":"ping"}', 'ping'],
    ['Contentful', contentful({ secrets }), '{"sys":{"type":"Entry"}}', 'unknown'],
    ['Sanity', sanity({ secrets }), '{"_id":"d1"}', 'unknown'],
  ])('%s', (_vendor, source, body, type) => {
    expect(identify(source, body)).toMatchObject([{ id: expect.stringMatching(/^content:/), type }]);
  });

  it('but an id that is there and cannot be used stays refused', () => {
    expect(() => identify(intercom({ secrets }), '{"id":"","topic":"ping"}')).toThrow(EventIdUnusable);
    expect(() => identify(slack({ secrets }), '{"event_id":7}')).toThrow(EventIdUnusable);
  });
});

describe('custom()', () => {
  it('identifies by its own function, whose errors are unusable ids', () => {
    const source = custom({
      secrets,
      verify: () => true,
      identify: (_request, body) => ({ id: String(body.at('n')), type: 't' }),
    });
    expect(identify(source, '{"n":5}')).toMatchObject([{ id: '5', type: 't' }]);
    const broken = custom({
      secrets,
      verify: () => true,
      identify: () => {
        throw new TypeError('oops');
      },
    });
    expect(() => identify(broken, '{}')).toThrow(EventIdUnusable);
  });

  it('turns whatever its verify throws into a refusal', async () => {
    const request = {
      method: 'POST',
      url: '/',
      headers: RequestHeaders.from({}),
      rawBody: Buffer.from('{}'),
    };
    const throwing = custom({
      secrets,
      idPath: 'id',
      verify: () => {
        throw new TypeError('oops');
      },
    });
    await expect(throwing.provider.verify(request, secrets)).rejects.toMatchObject({
      reason: 'wrong-signature',
      cause: expect.any(TypeError),
    });
    const refusing = custom({ secrets, idPath: 'id', verify: () => false });
    await expect(refusing.provider.verify(request, secrets)).rejects.toThrow(SignatureRejection);
    const accepting = custom({ secrets, idPath: 'id', verify: () => ({ secret: 0, signedAt: 5 }) });
    await expect(accepting.provider.verify(request, secrets)).resolves.toEqual({ secret: 0, signedAt: 5 });
  });
});
