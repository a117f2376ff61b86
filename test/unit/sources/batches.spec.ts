import * as fc from 'fast-check';
import { BodyReader } from '../../../src/core/body.js';
import { RequestHeaders } from '../../../src/core/request.js';
import {
  adyen,
  asana,
  goCardless,
  hmac,
  hubspot,
  line,
  meta,
  okta,
  sendGrid,
  xero,
} from '../../../src/sources/index.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { signerOf, sourceOf } from '../../support/signers/index.js';
import { itemRanges, rangeAt } from '../../../src/core/json/json-ranges.js';

const secrets = ['batch-signing-key'];

function identify({ provider }: SourceDefinition, body: string) {
  const rawBody = Buffer.from(body);
  const request = { method: 'POST', url: '/hooks', headers: RequestHeaders.from({}), rawBody };
  return provider.identify(request, new BodyReader(rawBody)).map(({ id, type, body: slice, occurredAt }) => ({
    id,
    type,
    slice: slice?.toString(),
    at: occurredAt?.toISOString(),
  }));
}

describe('case 35: every event of a batch is an event of its own', () => {
  it('WhatsApp: three levels down, messages and statuses', () => {
    const message = (id: string) => `{ "id": "${id}", "timestamp": "1767225600", "n": 1.0 }`;
    const body = `{"object":"whatsapp_business_account","entry":[
      {"id":"1","changes":[{"field":"messages","value":{"messages":[${message('a')},${message('b')}]}},
                           {"field":"messages","value":{"messages":[${message('c')}]}}]},
      {"id":"2","changes":[{"field":"messages","value":{"statuses":[{"id":"a","status":"read"},{"id":"a","status":"delivered"}]}}]}]}`;
    const events = identify(meta({ secrets }), body);
    expect(events.map(({ id, type }) => [id, type])).toEqual([
      ['a', 'messages'],
      ['b', 'messages'],
      ['c', 'messages'],
      ['a:read', 'statuses'],
      ['a:delivered', 'statuses'],
    ]);
    expect(events[1]?.slice).toBe(message('b'));
    expect(events[0]?.at).toBe('2026-01-01T00:00:00.000Z');
  });

  it('WhatsApp: a change with all it holds, where the source asks for it', () => {
    const change =
      '{"field":"messages","value":{"metadata":{"phone_number_id":"7"},"messages":[{"id":"a"},{"id":"b"}]}}';
    const source = meta({ secrets, eventUnit: 'change' });
    expect(identify(source, `{"object":"x","entry":[{"changes":[${change}]}]}`)).toEqual([
      { id: 'a:b', type: 'x.messages', slice: change, at: undefined },
    ]);
  });

  it('Messenger: messaging items by message id, others by their content', () => {
    const body =
      '{"object":"page","entry":[{"messaging":[{"message":{"mid":"m1"}},{"read":{"watermark":1}}],"standby":[{"message":{"mid":"m2"}}]}]}';
    expect(identify(meta({ secrets }), body).map(({ id, type }) => [id.slice(0, 8), type])).toEqual([
      ['m1', 'page.messaging'],
      ['content:', 'page.messaging'],
      ['m2', 'page.standby'],
    ]);
  });

  it('SendGrid: the body is the array, with the bytes of each event as sent', () => {
    const source = sendGrid({ secrets });
    const first = '{"sg_event_id":"e1","event":"open","timestamp":1767225600}';
    expect(identify(source, `[${first},\r\n {"sg_event_id":"e2","event":"click"}]\r\n`)).toEqual([
      { id: 'e1', type: 'open', slice: first, at: '2026-01-01T00:00:00.000Z' },
      { id: 'e2', type: 'click', slice: '{"sg_event_id":"e2","event":"click"}', at: undefined },
    ]);
  });

  it('HubSpot: an id of several fields, since its own is not promised to be unique', () => {
    const source = hubspot({ secrets, publicUrl: 'https://hooks.example.com' });
    const event = (eventId: number) => ({
      eventId,
      subscriptionId: 2,
      objectId: 9007199254740993n,
      occurredAt: 3,
      subscriptionType: 'contact.creation',
    });
    const text = (eventId: number) =>
      JSON.stringify({ ...event(eventId), objectId: 0 }).replace(
        '"objectId":0',
        '"objectId":9007199254740993',
      );
    expect(identify(source, `[${text(1)},${text(2)}]`).map(({ id }) => id)).toEqual([
      '1:2:9007199254740993:3',
      '2:2:9007199254740993:3',
    ]);
  });

  it.each([
    [
      'Xero',
      xero({ secrets }),
      '{"events":[{"tenantId":"t","eventCategory":"INVOICE","eventType":"UPDATE","resourceId":"r","eventDateUtc":"2026-01-01"}]}',
      'INVOICE.UPDATE',
    ],
    [
      'GoCardless',
      goCardless({ secrets }),
      '{"events":[{"id":"EV1","resource_type":"payments","action":"confirmed"}]}',
      'payments.confirmed',
    ],
    ['LINE', line({ secrets }), '{"events":[{"webhookEventId":"01","type":"message"}]}', 'message'],
    [
      'Okta',
      okta({ secrets }),
      '{"data":{"events":[{"uuid":"u1","eventType":"user.lifecycle.create"}]}}',
      'user.lifecycle.create',
    ],
    [
      'Asana',
      asana({ secrets }),
      '{"events":[{"action":"changed","resource":{"gid":"1","resource_type":"task"}}]}',
      'task.changed',
    ],
    [
      'Adyen',
      adyen({ secrets: ['AB'] }),
      '{"notificationItems":[{"NotificationRequestItem":{"pspReference":"P","eventCode":"CAPTURE","success":"true"}}]}',
      'CAPTURE',
    ],
    [
      'a batch of hmac()',
      hmac({ secrets, signatureHeader: 'x-s', eventsPath: 'items', idPath: 'key', typePath: 'kind' }),
      '{"items":[{"key":"k","kind":"made"}]}',
      'made',
    ],
  ])('%s', (_name, source, body, type) => {
    const [event, ...others] = identify(source, body);
    expect(others).toEqual([]);
    expect(event?.type).toBe(type);
    expect(body).toContain(event?.slice);
  });

  it('a body without events is no event: heartbeats and verification requests', () => {
    for (const source of [asana({ secrets }), line({ secrets }), xero({ secrets })])
      expect(identify(source, '{"events":[]}')).toEqual([]);
  });

  it.each([
    '{"webhookEventId":null}',
    '{"webhookEventId":" "}',
    '{}',
    'null',
    '7',
    '[]',
    '{"webhookEventId":{}}',
  ])('an item without a usable id keeps the others in, under a hash of its content: %s', (item) => {
    const body = `{"events":[{"webhookEventId":"01","type":"message"},${item}]}`;
    const rawBody = Buffer.from(body);
    const request = { method: 'POST', url: '/hooks', headers: RequestHeaders.from({}), rawBody };
    const { provider } = line({ secrets });
    const [first, second] = provider.identify(request, new BodyReader(rawBody));
    expect(first?.id).toBe('01');
    expect(first?.unusable).toBeUndefined();
    expect(second).toMatchObject({
      id: expect.stringMatching(/^content:[0-9a-f]{64}$/),
      unusable: expect.stringContaining('webhookEventId'),
    });
    expect(second?.body?.toString()).toBe(item);
  });

  it.each(['asana', 'adyen', 'gocardless', 'hubspot', 'line', 'meta', 'okta', 'sendgrid', 'xero'])(
    '%s: no item of a batch keeps the others out',
    (name) => {
      const around: Record<string, (items: string) => string> = {
        adyen: (items) => `{"notificationItems":[${items}]}`,
        meta: (items) => `{"object":"page","entry":[${items}]}`,
        okta: (items) => `{"data":{"events":[${items}]}}`,
        hubspot: (items) => `[${items}]`,
        sendgrid: (items) => `[${items}]`,
      };
      const wrap = around[name] ?? ((items) => `{"events":[${items}]}`);
      const items = ['null', '7', '{}', '[]', '"x"', '{"id":null}', '{"uuid":0,"webhookEventId":""}'];
      expect(identify(sourceOf(signerOf(name)), wrap(items.join(',')))).toHaveLength(items.length);
    },
  );

  it('HubSpot: a CRM object stands alone and has no id: a hash of its content, without what a retry changes', () => {
    const source = hubspot({ secrets, publicUrl: 'https://hooks.example.com' });
    const [one] = identify(source, '{"objectId":51,"properties":{"email":"a@b.c"}}');
    expect(one).toMatchObject({ id: expect.stringMatching(/^content:/), slice: undefined });
    const item = (attempt: number, email: string) =>
      `[{"objectId":51,"attemptNumber":${attempt},"properties":{"email":"${email}"}}]`;
    const ids = [item(0, 'a@b.c'), item(1, 'a@b.c'), item(1, 'd@b.c')].map(
      (body) => identify(source, body)[0]?.id,
    );
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
  });

  it('Meta: an entry that says only which fields changed is an event, and not lost', () => {
    const body = '{"object":"user","entry":[{"uid":"1","time":1767225600,"changed_fields":["photos"]}]}';
    expect(identify(meta({ secrets }), body)).toMatchObject([
      { type: 'user.entry', at: '2026-01-01T00:00:00.000Z' },
    ]);
  });

  it.each(['', 'null', '[1]', '{}', '{"events":{}}', '{"events":7}', '[[]]', 'junk'])(
    'a body that is no batch is refused: %j',
    (body) => {
      expect(() => identify(line({ secrets }), body)).toThrow('expected an array of events');
    },
  );
});

describe('byte ranges of JSON', () => {
  const bytesOf = (json: string, path: string) =>
    itemRanges(Buffer.from(json), path)?.map(([start, end]) =>
      Buffer.from(json).subarray(start, end).toString(),
    );

  it('are those of JSON.parse, for any JSON and any white space', () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue(), { maxLength: 5 }),
        fc.jsonValue(),
        fc.constantFrom('', ' ', '\r\n', '\t '),
        (items, other, space) => {
          const json = `${space}{${space}"x":${JSON.stringify(other)}${space},${space}"a\\u0062"${space}:[${items.map((item) => space + JSON.stringify(item, null, space.length) + space).join(',')}]${space}}`;
          expect(bytesOf(json, 'ab')?.map((text) => JSON.parse(text) as unknown)).toEqual(
            items.map((item) => JSON.parse(JSON.stringify(item)) as unknown),
          );
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('hold for text that looks like structure, and for bytes that are no UTF-8', () => {
    expect(bytesOf('{"a":["]}","\\"]",[1,"]"],{"]":"["}]}', 'a')).toEqual([
      '"]}"',
      '"\\"]"',
      '[1,"]"]',
      '{"]":"["}',
    ]);
    const json = Buffer.concat([Buffer.from('{"a":["'), Buffer.from([0xff, 0xc3]), Buffer.from('",1]}')]);
    expect(itemRanges(json, 'a')).toHaveLength(2);
  });

  it('take the last of two equal keys, as JSON.parse does', () => {
    expect(bytesOf('{"a":[1],"a":[2,3]}', 'a')).toEqual(['2', '3']);
  });

  it('follow `*` through the arrays on the way', () => {
    expect(bytesOf('{"e":[{"c":[1]},{"x":0},{"c":[2,3]},7]}', 'e.*.c')).toEqual(['1', '2', '3']);
    expect(bytesOf('{"e":[{"x":0}]}', 'e.*.c')).toBeUndefined();
  });

  it('survive any bytes at all', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        for (const [start, end] of itemRanges(Buffer.from(bytes), '') ?? [])
          expect(end).toBeGreaterThan(start);
        rangeAt(Buffer.from(bytes), 'a.b');
      }),
      { numRuns: 5000 },
    );
  });

  it('do not recurse: nesting that JSON.parse reads is no problem', () => {
    const deep = `[${'['.repeat(100_000)}${']'.repeat(100_000)}]`;
    expect(itemRanges(Buffer.from(deep), '')).toHaveLength(1);
  });
});
