import { connect } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as fc from 'fast-check';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { hostileBodies, hostileHeaderValues } from '../support/fuzz/requests.js';
import { ADAPTERS } from '../support/application.js';
import { Receiver } from '../support/receiver.js';
import { awardee } from '../support/signing.js';
import { awardeeSource, githubSource, sesmetricSource, stripeSource } from '../support/sources.js';

/** `FUZZ_RUNS` makes it as long as one likes. */
const RUNS = Number(process.env.FUZZ_RUNS ?? 150);
const SOURCES = ['awardee', 'sesmetric', 'stripe', 'github'];

/** Bodies that have broken receivers before. */
const CORPUS = [
  '',
  '{',
  'null',
  '[]',
  '1',
  '{"id":null}',
  '{"id":[]}',
  '{"a":"x\\u0000"}',
  '{"a":"\\ud83d"}',
  '{"__proto__":{"polluted":1}}',
  '{"constructor":{"prototype":{"polluted":1}}}',
  '{"id":9007199254740993}',
  '{"webhookId":"wh_1"}',
  ...Object.values(hostileBodies).map((make) => make(20_000)),
];
const body = fc.oneof(
  fc.constantFrom(...CORPUS).map((text) => Buffer.from(text)),
  fc.json().map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
);
const headerName = fc.constantFrom(
  'X-Awardee-Signature',
  'X-Awardee-Delivery',
  'X-SESMetric-Timestamp',
  'X-SESMetric-Signature',
  'Stripe-Signature',
  'X-Hub-Signature-256',
  'X-GitHub-Delivery',
  'Content-Type',
  'Content-Encoding',
  'Expect',
  'Cookie',
);
const headerValue = fc.oneof(
  fc.constantFrom(...Object.values(hostileHeaderValues).map((make) => make(2_000))),
  fc.constantFrom(
    'gzip',
    'application/json',
    'text/plain; charset=latin1',
    'a/b\tc',
    '',
    '0',
    't=1,v1=',
    'sha256=',
  ),
  fc.string({ unit: fc.constantFrom(...' !#$%&0123456789abcdefABC=,;:"\\'.split('')), maxLength: 80 }),
);
const request = fc.record({
  method: fc.constantFrom('POST', 'POST', 'POST', 'POST', 'GET', 'PUT', 'HEAD', 'DELETE', 'PROPFIND'),
  path: fc.constantFrom(
    ...SOURCES.map((name) => `/webhooks/${name}`),
    '/webhooks/%00',
    '/webhooks/__proto__',
    '/webhooks//',
  ),
  headers: fc.array(fc.tuple(headerName, headerValue), { maxLength: 6 }),
  body,
  /** Hangs up after so many bytes of the body. */
  cutAt: fc.option(fc.nat({ max: 200 }), { nil: undefined, freq: 10 }),
});
type FuzzRequest = typeof request extends fc.Arbitrary<infer T> ? T : never;

/** Headers with which each source's verification gets as far as it can. */
const HOSTILE: FuzzRequest['headers'] = [
  ['X-Awardee-Signature', 'a'.repeat(64)],
  ['X-Awardee-Delivery', 'x'],
  ['X-SESMetric-Timestamp', String(Math.floor(Date.now() / 1_000))],
  ['X-SESMetric-Signature', 'a'.repeat(64)],
  ['Stripe-Signature', `t=${Math.floor(Date.now() / 1_000)},v1=${'a'.repeat(64)}`],
  ['X-Hub-Signature-256', `sha256=${'a'.repeat(64)}`],
  ['X-GitHub-Delivery', 'x'],
];
/** Samples of rejections, connections that linger and what the runtime keeps for itself. */
const MAX_KEPT_BYTES = 32 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function heapAfterCollection(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe.each(ADAPTERS)('requests that nobody signed, on %s', (adapter) => {
  let receiver: Receiver;
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);

  beforeAll(async () => {
    process.on('unhandledRejection', note);
    receiver = await Receiver.start({
      adapter,
      webhooks: {
        sources: {
          awardee: awardeeSource(),
          sesmetric: sesmetricSource(),
          stripe: stripeSource(),
          github: githubSource(),
        },
      },
    });
  });
  afterAll(async () => {
    process.off('unhandledRejection', note);
    await receiver?.stop();
  });

  // Processor time rather than a clock's, and what a request costs beside what an empty one does: other work on the machine takes neither.
  it(`a hostile request costs at most a second of processor time, and leaves no memory behind`, async () => {
    const cost = async (one: FuzzRequest) => {
      const before = process.cpuUsage();
      await statusOf(receiver.origin, one);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1_000;
    };
    const requests = CORPUS.flatMap((text) =>
      SOURCES.map((name): FuzzRequest => {
        return {
          method: 'POST',
          path: `/webhooks/${name}`,
          headers: HOSTILE,
          body: Buffer.from(text),
          cutAt: undefined,
        };
      }),
    );
    for (const one of requests.slice(0, 20)) await cost(one);
    await receiver.app.get(DeskKeeper).round();
    const heap = heapAfterCollection();
    for (const one of requests) expect(await cost(one)).toBeLessThan(1_000);
    await receiver.app.get(DeskKeeper).round();
    expect(heapAfterCollection() - heap).toBeLessThan(MAX_KEPT_BYTES);
  }, 600_000);

  it(`${RUNS} of them: none is answered 2xx or 5xx, none claims, and the receiver serves on`, async () => {
    await fc.assert(
      fc.asyncProperty(request, async (one) => {
        const status = await statusOf(receiver.origin, one);
        // 0: cut off by us; 501: of Node's own parser, for methods it does not know.
        expect(status === 0 || (status >= 400 && status < 500) || status === 501).toBe(true);
      }),
      { numRuns: RUNS },
    );
    expect(await receiver.claims()).toBe(0);
    expect(unhandled).toEqual([]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect(await receiver.deliver('awardee', awardee('after', 'grant.made', {}))).toBe('200 {"status":"ok"}');
  }, 600_000);

  it(`${RUNS} bodies that are signed: each is kept byte for byte, whatever is in it`, async () => {
    let n = 0;
    await fc.assert(
      fc.asyncProperty(body, async (bytes) => {
        n += 1;
        const id = `signed-${n}`;
        expect(await receiver.deliver('awardee', awardee(id, 'fuzz', bytes))).toBe('200 {"status":"ok"}');
        const [claim] = await receiver.query<{ body: Buffer }>(
          `SELECT body FROM webhook_claim WHERE event_id = $1`,
          [id],
        );
        expect(claim!.body.equals(bytes)).toBe(true);
      }),
      { numRuns: RUNS },
    );
    expect(unhandled).toEqual([]);
  }, 600_000);
});

/** By hand, since a client would refuse to send some of it. */
function statusOf(
  origin: string,
  { method, path, headers, body: bytes, cutAt }: FuzzRequest,
): Promise<number> {
  const { hostname, port } = new URL(origin);
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  const head = [
    `${method} ${path} HTTP/1.1`,
    `host: x`,
    `content-length: ${bytes.length}`,
    'connection: close',
    ...lines,
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.setTimeout(30_000, () =>
      socket.destroy(new Error(`no answer to ${JSON.stringify(head).slice(0, 500)}`)),
    );
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? undefined : reject(error),
    );
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    socket.on('close', () => {
      const statuses = [...answer.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
      resolve(statuses.findLast((status) => status >= 200) ?? 0);
    });
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    if (cutAt !== undefined && cutAt < bytes.length) {
      socket.write(bytes.subarray(0, cutAt));
      socket.destroySoon();
    } else socket.write(bytes);
  });
}
