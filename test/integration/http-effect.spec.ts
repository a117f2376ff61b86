import { Injectable, type INestApplication } from '@nestjs/common';
import { classify } from '../../src/core/classify.js';
import { HttpClient, HttpFailure, httpEffect, type HttpEffectRequest } from '../../src/effects/index.js';
import { OnEffect, Outbox, OutboxRelay, PermanentError, type EffectContext } from '../../src/index.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { FakeSink } from '../support/fake-sink.js';

const open = { http: true, privateAddresses: ['127.0.0.0/8'] } as const;
const context = (overrides: Partial<EffectContext> = {}) => ({
  key: '01890000-0000-8000-8000-000000000001',
  signal: new AbortController().signal,
  timeoutMs: 30_000,
  ...overrides,
});

describe('httpEffect', () => {
  let sink: FakeSink;
  const call = (request: Partial<HttpEffectRequest> = {}, overrides: Partial<EffectContext> = {}) =>
    httpEffect({ url: `${sink.origin}/mails`, allow: open, ...request }, context(overrides));
  const failure = (request?: Partial<HttpEffectRequest>, overrides?: Partial<EffectContext>) =>
    call(request, overrides).then(
      () => undefined,
      (error: unknown) => error,
    );

  beforeEach(async () => {
    sink = await FakeSink.start();
  });
  afterEach(async () => {
    await sink.stop();
  });

  it('posts JSON under the idempotency key and returns what was answered', async () => {
    const response = await call({ json: { to: 'a' }, headers: { Authorization: 'Bearer x' } });
    expect(response).toMatchObject({ status: 200, body: '{"ok":true}', truncated: false });
    expect(sink.requests).toMatchObject([
      {
        method: 'POST',
        url: '/mails',
        body: '{"to":"a"}',
        headers: {
          'idempotency-key': context().key,
          'content-type': 'application/json',
          authorization: 'Bearer x',
        },
      },
    ]);
  });

  it('sends a body as it is, another method, and the key under another name', async () => {
    await call({ method: 'PUT', body: 'a=1', keyHeader: 'X-Request-Id', headers: { 'x-request-id': 'own' } });
    expect(sink.requests[0]).toMatchObject({ method: 'PUT', body: 'a=1' });
    expect(sink.requests[0]!.headers).toMatchObject({ 'x-request-id': context().key });
    expect(sink.requests[0]!.headers['idempotency-key']).toBeUndefined();
  });

  const cyclic: Record<string, unknown> = {};
  cyclic.self = cyclic;
  it.each<[string, object]>([
    ['a line break in a header', { headers: { 'x-a': 'b\r\nx-c: d' } }],
    ['a line feed in a header', { headers: { 'x-a': 'b\n' } }],
    ['a zero byte in a header', { headers: { 'x-a': '\u0000' } }],
    ['a character that is no byte', { headers: { 'x-a': '€' } }],
    ['a header that is no text', { headers: { 'x-a': { b: 1 } } }],
    ["a header's name with a space", { headers: { 'x a': 'b' } }],
    ['an empty name', { headers: { '': 'b' } }],
    ['a length that is not the body’s', { headers: { 'content-length': '3' }, body: 'abcdef' }],
    ['a length that is none', { headers: { 'content-length': 'x' } }],
    ['Expect', { headers: { expect: '100-continue' } }],
    ['Transfer-Encoding', { headers: { 'transfer-encoding': 'chunked' } }],
    ['Upgrade', { headers: { upgrade: 'x' } }],
    ['a method with a space', { method: 'PO ST' }],
    ['an empty method', { method: '' }],
    ['CONNECT', { method: 'CONNECT' }],
    ['a method that is no text', { method: 5 }],
    ['a key header that is none', { keyHeader: 'x:y' }],
    ['a body that is an object', { body: { a: 1 } }],
    ['a body that is a list', { body: [1, 2] }],
    ['a body that is a number', { body: 1 }],
    ['JSON with a circle', { json: cyclic }],
    ['JSON with a BigInt', { json: { n: 1n } }],
    ['JSON that is a function', { json: () => 1 }],
    ['json and body', { json: 1, body: 'a' }],
    ['a URL that is none', { url: 'no url' }],
    ['a URL with a line break', { url: 'https://example.com/\r\na' }],
    ['no URL', { url: undefined }],
    ['a time-out that is none', { timeout: 'soon' }],
    ['private addresses that are no block', { allow: { http: true, privateAddresses: ['10.x'] } }],
  ])('%s is refused for good, without a call', async (_, request) => {
    const error = await failure(request);
    expect(error).toBeInstanceOf(Error);
    expect(classify(error)).toEqual({ kind: 'permanent' });
    expect(sink.requests).toEqual([]);
  });

  it.each([
    [408, 'transient'],
    [429, 'transient'],
    [500, 'transient'],
    [503, 'transient'],
    [400, 'permanent'],
    [404, 'permanent'],
    [422, 'permanent'],
  ] as const)('classifies %i as %s', async (status, kind) => {
    sink.answer = (response) => response.writeHead(status).end('card declined');
    const error = await failure();
    expect(error).toBeInstanceOf(HttpFailure);
    expect(error).toMatchObject({ status, body: 'card declined' });
    expect(classify(error).kind).toBe(kind);
    expect((error as Error).message).not.toContain('declined');
  });

  it('waits as long as Retry-After asks for', async () => {
    sink.answer = (response) => response.writeHead(429, { 'Retry-After': '120' }).end();
    expect(classify(await failure())).toEqual({ kind: 'transient', delayMs: 120_000 });
  });

  it('follows no redirect, and takes one for a permanent failure', async () => {
    sink.answer = (response) => response.writeHead(302, { location: `${sink.origin}/other` }).end();
    const error = await failure();
    expect(error).toBeInstanceOf(PermanentError);
    expect(sink.requests).toHaveLength(1);
  });

  it('gives up below the time-out of the effect, and below its own', async () => {
    sink.answer = () => undefined;
    expect(await failure({}, { timeoutMs: 300 })).toMatchObject({
      code: 'TIMED_OUT',
      message: expect.stringContaining('within 270 ms') as string,
    });
    expect(await failure({ timeout: '100ms' })).toMatchObject({
      message: expect.stringContaining('within 100 ms') as string,
    });
  });

  it('counts a body that trickles towards the time-out', async () => {
    sink.answer = (response) => {
      response.writeHead(200);
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    };
    expect(await failure({ timeout: 200 })).toMatchObject({ code: 'TIMED_OUT' });
  });

  it('ends with the reason of the signal when the effect is aborted', async () => {
    sink.answer = () => undefined;
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error('the lease was lost')), 50);
    expect(await failure({}, { signal: controller.signal })).toMatchObject({ message: 'the lease was lost' });
  });

  it('keeps 64 kB of a response, whatever has to be escaped, and does not listen to the rest', async () => {
    let sent = 0;
    sink.answer = (response) => {
      response.writeHead(200, { 'set-cookie': 'session=1' });
      const more = (): void => {
        if (response.destroyed || sent > 200_000_000) return void response.end();
        sent += 65_536;
        response.write(Buffer.alloc(65_536, '"'), () => setImmediate(more));
      };
      more();
    };
    const response = await call();
    expect(response.truncated).toBe(true);
    expect(Buffer.byteLength(JSON.stringify(response))).toBeLessThanOrEqual(65_536);
    expect(Buffer.byteLength(JSON.stringify(response))).toBeGreaterThan(60_000);
    expect(response.headers).not.toHaveProperty('set-cookie');
    expect(sent).toBeLessThan(50_000_000);
  });

  it('refuses json and body together, and a time-out that is none', async () => {
    expect(await failure({ json: 1, body: 'x' })).toBeInstanceOf(PermanentError);
    expect(await failure({ timeout: 'soon' })).toBeInstanceOf(PermanentError);
    expect(sink.requests).toHaveLength(0);
  });

  it('leaves connection errors to be tried again', async () => {
    const { port } = sink;
    await sink.stop();
    sink = await FakeSink.start();
    const error = await failure({ url: `http://127.0.0.1:${port}/` });
    expect(classify(error)).toMatchObject({ kind: 'transient' });
  });
});

describe('where httpEffect may go', () => {
  let sink: FakeSink;
  let sink6: FakeSink;
  beforeAll(async () => {
    [sink, sink6] = await Promise.all([FakeSink.start(), FakeSink.start('::1')]);
  });
  afterAll(async () => {
    await Promise.all([sink.stop(), sink6.stop()]);
  });

  const HOSTS = [
    // Loopback, in every spelling a URL parser knows.
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '127.0.1',
    '127.255.255.254',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0x7F.1',
    '0177.0.0.1',
    '0177.0.0.01',
    '017700000001',
    '127.0.0.0x1',
    '00000177.1',
    '１２７.0.0.1',
    '127。0。0。1',
    '①②⑦.0.0.1',
    '%31%32%37.0.0.1',
    'localhost',
    'localhost.',
    'LOCALHOST',
    'ⓛocalhost',
    '0',
    '0.0.0.0',
    '0x0',
    '[::]',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[0000::0001]',
    // IPv4 inside IPv6.
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::ffff:169.254.169.254]',
    '[::127.0.0.1]',
    '[64:ff9b::127.0.0.1]',
    '[64:ff9b::a9fe:a9fe]',
    '[2002:7f00:1::]',
    '[2001:0:7f00:1::]',
    // Private, shared, link-local, metadata services.
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '100.64.0.1',
    '100.100.100.200',
    '169.254.169.254',
    '169.254.170.2',
    '0xa9fea9fe',
    '2852039166',
    '168.63.129.16',
    '192.0.0.192',
    '198.18.0.1',
    '192.0.2.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '[fe80::1]',
    '[fc00::1]',
    '[fd00:ec2::254]',
    '[fec0::1]',
    '[ff02::1]',
    '[100::1]',
    '[2001:db8::1]',
    '[3fff::1]',
  ];
  it.each(HOSTS)('never connects to %s', async (host) => {
    for (const one of [sink, sink6]) {
      for (const scheme of ['http', 'https']) {
        const request = { url: `${scheme}://${host}:${one.port}/`, allow: { http: true }, timeout: '5s' };
        const outcome = await httpEffect(request, context()).then(String, (error: Error) => error);
        // Whether a resolver knows 'localhost.' is its own affair; if not, it is a name without an address.
        if (!String(outcome).includes('ENOTFOUND localhost.')) expect(outcome).toBeInstanceOf(PermanentError);
      }
    }
    expect(sink.connections + sink6.connections).toBe(0);
  });

  it.each([
    ['http is not allowed', (at: string) => `http://${at}/`],
    ['user info', (at: string) => `https://user:pass@${at}/`],
    ['a user alone', (at: string) => `https://example.com@${at}/`],
    ['an empty user', (at: string) => `https://:@${at}/`],
    ['a backslash', (at: string) => `https://example.com\\@${at}/`],
    ['a line break in the host', (at: string) => `https://127.0\n.0.1:${at.split(':')[1]}/`],
    ['a tab in the scheme', (at: string) => `ht\ttps://${at}/`],
    ['spaces around', (at: string) => ` https://${at}/ `],
    ['another scheme', (at: string) => `gopher://${at}/`],
    ['a file', () => 'file:///etc/passwd'],
    ['data', () => 'data:text/plain,hello'],
    ['no scheme', (at: string) => `//${at}/`],
    ['no host', () => 'https://'],
    ['a zone', () => 'https://[fe80::1%25eth0]/'],
    ['nothing', () => ''],
  ])('refuses %s', async (_what, url) => {
    await expect(httpEffect({ url: url(`127.0.0.1:${sink.port}`) }, context())).rejects.toThrow(
      PermanentError,
    );
    expect(sink.connections).toBe(0);
  });

  describe('with names', () => {
    const send = (client: HttpClient, allow: object = {}) =>
      client.send({
        url: `http://sink.example:${sink.port}/`,
        method: 'GET',
        headers: {},
        timeoutMs: 5_000,
        allow: { http: true, ...allow },
      });

    it('refuses a name as soon as one of its addresses is not public', async () => {
      const client = new HttpClient((_name, done) =>
        done(null, [
          { address: '8.8.8.8', family: 4 },
          { address: '127.0.0.1', family: 4 },
        ]),
      );
      await expect(send(client)).rejects.toThrow('127.0.0.1, which is no public address');
      expect(sink.connections).toBe(0);
    });

    it('resolves once and connects to the very address that was judged', async () => {
      let asked = 0;
      const client = new HttpClient((_name, done) => {
        asked += 1;
        // A rebinding name: what was judged first, and the metadata service afterwards.
        done(null, [{ address: asked === 1 ? '127.0.0.1' : '169.254.169.254', family: 4 }]);
      });
      const response = await send(client, { privateAddresses: ['127.0.0.1'] });
      expect(response.status).toBe(200);
      expect(asked).toBe(1);
      expect(sink.requests.at(-1)!.headers.host).toBe(`sink.example:${sink.port}`);
      await client.close();
      await expect(send(client, { privateAddresses: ['127.0.0.1'] })).rejects.toThrow('169.254.169.254');
    });

    it('does not lend a connection of one permission to another', async () => {
      const client = new HttpClient((_name, done) => done(null, [{ address: '127.0.0.1', family: 4 }]));
      await send(client, { privateAddresses: true });
      await expect(send(client)).rejects.toThrow('no public address');
      await client.close();
    });

    it('lets public addresses through', async () => {
      const { isPublic } = await import('../../src/effects/address-rules.js');
      for (const address of [
        '8.8.8.8',
        '172.32.0.1',
        '100.128.0.1',
        '2606:4700::1111',
        '2a00:1450:4001::8a',
      ]) {
        expect([address, isPublic(address)]).toEqual([address, true]);
      }
    });
  });
});

@Injectable()
class Mailer {
  static url = '';
  @OnEffect('mail', { timeout: '2s' })
  mail(payload: unknown, context: EffectContext) {
    return httpEffect({ url: Mailer.url, json: payload, allow: open }, context);
  }
}

describe('an effect through httpEffect', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let sink: FakeSink;
  beforeAll(async () => {
    database = await createDatabase();
    sink = await FakeSink.start();
    Mailer.url = `${sink.origin}/mails`;
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: {}, relay: { pollInterval: '1h' } },
      providers: [Mailer],
    });
  });
  afterAll(async () => {
    await app?.close();
    await sink?.stop();
    await database?.drop();
  });
  const rows = () =>
    database.query<{ id: string; state: string; error: string | null; result: string | null }>(
      `SELECT o.id, state, error, result FROM webhook_outbox o
         JOIN webhook_outbox_data d ON d.outbox_id = o.id ORDER BY created_at`,
    );

  it('case 11: each attempt sends the same bytes under the same key, and the response is kept', async () => {
    let attempts = 0;
    sink.answer = (response) => response.writeHead((attempts += 1) === 1 ? 503 : 200).end('sent');
    await app
      .get(Outbox)
      .enqueue(database.dataSource.manager, 'mail', { to: 'a' }, { outsideTransaction: true });
    await until(async () => {
      await database.query(
        `UPDATE webhook_outbox SET due_at = now() WHERE state = 'pending' AND leased_by IS NULL`,
      );
      await app.get(OutboxRelay).tick();
      return (await rows())[0]?.state === 'done';
    });
    const [row] = await rows();
    expect(row!.state).toBe('done');
    expect(JSON.parse(row!.result!)).toMatchObject({ status: 200, body: 'sent' });
    expect(sink.requests).toHaveLength(2);
    expect(
      new Set(sink.requests.map(({ headers, body }) => JSON.stringify([headers['idempotency-key'], body])))
        .size,
    ).toBe(1);
    expect(sink.requests[0]!.headers['idempotency-key']).toBe(row!.id);
  });

  it('is dead at once for a permanent answer, whose body stands nowhere: it may echo the request', async () => {
    sink.answer = (response) => response.writeHead(422).end('no such card');
    await app
      .get(Outbox)
      .enqueue(database.dataSource.manager, 'mail', { to: 'b' }, { outsideTransaction: true });
    expect(await until(async () => (await rows()).find(({ state }) => state === 'dead'))).toMatchObject({
      error: expect.stringMatching(/answered 422$/) as string,
    });
  });
});
