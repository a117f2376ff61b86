import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { EndpointGone, webhookEffect, type WebhookEffectRequest } from '../../src/effects/index.js';
import { OnEffect, OnWebhook, Outbox, type EffectContext, type WebhookEvent } from '../../src/index.js';
import { standardWebhooks } from '../../src/sources/index.js';
import { FakeSink } from '../support/fake-sink.js';
import { Receiver } from '../support/receiver.js';
import { uuidV7 } from '../../src/core/ids.js';

const open = { http: true, privateAddresses: ['127.0.0.0/8'] } as const;
const whsec = () => `whsec_${randomBytes(24).toString('base64')}`;

function keyPair(): { readonly whsk: string; readonly whpk: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const last32 = (der: Buffer) => der.subarray(-32).toString('base64');
  return {
    whsk: `whsk_${last32(privateKey.export({ format: 'der', type: 'pkcs8' }))}`,
    whpk: `whpk_${last32(publicKey.export({ format: 'der', type: 'spki' }))}`,
  };
}

describe('webhookEffect', () => {
  const [former, current] = [whsec(), whsec()];
  const pair = keyPair();
  const received: { readonly receiver: string; readonly event: WebhookEvent }[] = [];
  let sink: FakeSink;
  let receiver: Receiver;
  const context = (key: string): EffectContext =>
    ({ key, signal: new AbortController().signal, timeoutMs: 30_000 }) as EffectContext;
  const request = (over: Partial<WebhookEffectRequest> = {}): WebhookEffectRequest => ({
    url: `${sink.origin}/hooks`,
    secrets: [former],
    type: 'invoice.paid',
    data: { id: 'in_1' },
    allow: open,
    ...over,
  });

  @Injectable()
  class Handlers {
    @OnWebhook('shared', '*')
    shared(event: WebhookEvent): void {
      received.push({ receiver: 'shared', event });
    }

    @OnWebhook('public-key', '*')
    byPublicKey(event: WebhookEvent): void {
      received.push({ receiver: 'public-key', event });
    }

    @OnEffect('send-webhook')
    send({ url }: { url: string }, effect: EffectContext) {
      return webhookEffect(request({ url, secrets: [former, current, pair.whsk] }), effect);
    }
  }

  beforeAll(async () => {
    sink = await FakeSink.start();
    receiver = await Receiver.start({
      providers: [Handlers],
      webhooks: {
        sources: {
          shared: standardWebhooks({ secrets: [current] }),
          'public-key': standardWebhooks({ secrets: [pair.whpk] }),
        },
      },
    });
  });
  afterAll(async () => {
    await receiver?.stop();
    await sink?.stop();
  });

  it('is believed by receivers with either of the secrets, and a delivery that comes twice is one event', async () => {
    const { dataSource } = receiver.database;
    const outbox = receiver.app.get(Outbox);
    for (const source of ['shared', 'public-key']) {
      const url = `${receiver.origin}/webhooks/${source}`;
      await dataSource.transaction((manager) =>
        outbox.enqueue(manager, 'send-webhook', { url }, { key: source }),
      );
    }
    await receiver.drain();
    // As after a crash between the call and its settle: under the same key.
    await receiver.query(
      `UPDATE webhook_outbox SET state = 'pending', settled_at = NULL, due_at = now() WHERE kind = 'effect'`,
    );
    await receiver.drain();
    expect(received.map((one) => [one.receiver, one.event.type, one.event.payload])).toEqual([
      [
        'shared',
        'invoice.paid',
        { type: 'invoice.paid', timestamp: expect.any(String), data: { id: 'in_1' } },
      ],
      ['public-key', 'invoice.paid', expect.objectContaining({ data: { id: 'in_1' } })],
    ]);
  });

  it('has the same id and the same body at each attempt, and a signature for each secret', async () => {
    sink.requests.length = 0;
    // Its first 48 bits are a time.
    const key = '019de2fb-1900-7000-8000-000000000001';
    for (const attempt of [1, 2]) {
      await webhookEffect(request({ secrets: [former, current] }), context(key));
      expect(sink.requests).toHaveLength(attempt);
    }
    const [first, second] = sink.requests;
    expect(first!.body).toBe(
      '{"type":"invoice.paid","timestamp":"2026-05-01T10:00:00.000Z","data":{"id":"in_1"}}',
    );
    expect(second!.body).toBe(first!.body);
    expect(second!.headers['webhook-id']).toBe(key);
    expect(first!.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/);
  });

  it('410 is final, and tells its cause by its type', async () => {
    const closed = await FakeSink.start();
    closed.answer = (response) => void response.writeHead(410).end();
    try {
      const sending = webhookEffect(request({ url: `${closed.origin}/hooks` }), context(uuidV7()));
      await expect(sending).rejects.toBeInstanceOf(EndpointGone);
    } finally {
      await closed.stop();
    }
  });

  it.each<[string, Partial<WebhookEffectRequest>, string]>([
    ['no secrets', { secrets: [] }, 'secrets: expected a list with at least one secret'],
    ['a secret in no encoding', { secrets: ['whsec_?'] }, 'secrets: expected whsec_ + base64'],
    ['a private key of the wrong length', { secrets: ['whsk_AAAA'] }, 'secrets: expected whsec_ + base64'],
    ['no type', { type: '' }, 'type: expected text'],
    ['a time that is none', { occurredAt: 'yesterday' }, 'occurredAt: expected a time'],
    ['data that is no JSON', { data: 1n }, 'data: TypeError'],
    ['a private address', { allow: {} }, 'https'],
  ])('refuses %s for good, before anything is sent', async (_, over, text) => {
    sink.requests.length = 0;
    await expect(webhookEffect(request(over), context(uuidV7()))).rejects.toMatchObject({
      code: 'PERMANENT',
      message: expect.stringContaining(text),
    });
    expect(sink.requests).toEqual([]);
  });
});
