import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { NestExpressApplication } from '@nestjs/platform-express';
import * as fc from 'fast-check';
import { DataSource } from 'typeorm';
import type { WebhooksOptions } from '../../src/core/options/options.js';
import { ByteBudget } from '../../src/http/body/byte-budget.js';
import type { Holding } from '../../src/http/body/byte-budget.js';
import { ADAPTERS, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import {
  OK,
  Receiver,
  TOO_LARGE,
  UNAUTHORIZED,
  UNAVAILABLE,
  UNKNOWN_SOURCE,
  UNSUPPORTED_ENCODING,
  WRONG_METHOD,
} from '../support/receiver.js';
import { AWARDEE_SECRET, awardee, type SignedRequest } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';

const BUDGET = 1024 * 1024;
const BODY_BYTES = BUDGET / 8;
const PIECE = Buffer.alloc(64 * 1024);

/** A connection on which a test writes a request in its own time. */
class Sender {
  received = '';
  isClosed = false;
  /** A write that the receiver would not take, or a connection that it cut. */
  failure: string | undefined;

  private constructor(readonly socket: Socket) {
    socket.on('data', (chunk) => (this.received += chunk.toString()));
    socket.on('error', (error) => (this.failure = error.message));
    socket.on('close', () => (this.isClosed = true));
  }

  /** @param allowHalfOpen write on after the receiver has ended its own side, as most clients do */
  static async open(origin: string, allowHalfOpen = false): Promise<Sender> {
    const socket = connect({ port: Number(new URL(origin).port), host: '127.0.0.1', allowHalfOpen });
    const sender = new Sender(socket);
    await once(socket, 'connect');
    return sender;
  }

  head(path: string, headers: Readonly<Record<string, string>>, method = 'POST'): void {
    const lines = Object.entries({ host: 'localhost', ...headers });
    this.socket.write(
      `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`,
    );
  }

  /** As `200 {"status":"ok"}`, once it is there. */
  async answer(): Promise<string> {
    await until(() => /\r\n\r\n.*\}/.test(this.received));
    const [, status, body] = /^HTTP\/1\.1 (\d+)[^]*?\r\n\r\n(.*\})/.exec(this.received)!;
    return `${status} ${body}`;
  }
}

let secrets: Promise<readonly string[]> = Promise.resolve([AWARDEE_SECRET]);
let deliveries = 0;
const sized = (bytes: number) =>
  awardee(`unfinished-${++deliveries}`, 'grant.made', Buffer.from(`"${'a'.repeat(bytes - 2)}"`));

type Claimed = Pick<WebhooksOptions, 'groupCommit'> & { readonly retries?: 'provider' };

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
/** Bytes in use after a collection. */
function collected(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe.each(ADAPTERS)('bodies that do not end, on %s', (adapter) => {
  let database: TestDatabase;
  let receiver: Receiver;
  const senders: Sender[] = [];

  const start = (bodyTimeout: string, trustProxy = false, handlerTimeout?: number): Promise<Receiver> =>
    Receiver.start({
      adapter,
      fastify: { trustProxy, ...(handlerTimeout === undefined ? {} : { handlerTimeout }) },
      database,
      webhooks: {
        byteBudget: BUDGET,
        bodyTimeout,
        sources: {
          attacked: awardeeSource(),
          quiet: awardeeSource(),
          large: awardeeSource({ maxBytes: 25_000_000 }),
          asked: awardeeSource({ secrets: () => secrets }),
        },
      },
      configure: (app) => {
        if (adapter === 'express') (app as NestExpressApplication).set('trust proxy', trustProxy);
      },
    });
  const open = async (to = receiver, allowHalfOpen = false): Promise<Sender> => {
    const sender = await Sender.open(to.origin, allowHalfOpen);
    senders.push(sender);
    return sender;
  };
  /** All of a request but its last byte. */
  const unfinished = async (path: string, request: SignedRequest, more = {}, to = receiver) => {
    const sender = await open(to);
    sender.head(path, { ...request.headers, ...more, 'content-length': String(request.body.length) });
    sender.socket.write(request.body.subarray(0, -1));
    return sender;
  };
  const held = (of = receiver) => of.app.get(ByteBudget).heldBytes;
  const isFull = async (of = receiver) => until(() => held(of) > BUDGET - BODY_BYTES);

  beforeAll(async () => {
    database = await createDatabase();
    receiver = await start('30s');
  });
  afterEach(async () => {
    for (const { socket } of senders.splice(0)) socket.destroy();
    await until(() => held() === 0);
  });
  afterAll(async () => {
    await receiver?.stop();
    await database?.drop();
  });

  it('cost another source nothing, however many there are', async () => {
    for (let nth = 0; nth < 16; nth += 1) await unfinished('/webhooks/attacked', sized(BODY_BYTES));
    await isFull();
    for (let nth = 0; nth < 5; nth += 1) expect(await receiver.deliver('quiet', sized(BODY_BYTES))).toBe(OK);
    expect(held()).toBeLessThanOrEqual(BUDGET);
  });

  it('cost the same source nothing once they are known to be slow', async () => {
    for (let nth = 0; nth < 8; nth += 1) await unfinished('/webhooks/attacked', sized(BODY_BYTES));
    await until(async () => (await receiver.deliver('attacked', sized(BODY_BYTES))) === OK);
    expect(await receiver.deliver('attacked', sized(BODY_BYTES))).toBe(OK);
  });

  it('three of 25 MB, which no budget holds, cost another source nothing', async () => {
    for (let nth = 0; nth < 3; nth += 1) {
      const sender = await open();
      sender.head('/webhooks/large', { ...sized(10).headers, 'content-length': '25000000' });
      sender.socket.write(Buffer.alloc(BUDGET / 3));
    }
    await isFull();
    for (let nth = 0; nth < 5; nth += 1) expect(await receiver.deliver('quiet', sized(BODY_BYTES))).toBe(OK);
  });

  it('one that is given up is answered 503, and the rest of it does not break its connection', async () => {
    const first = sized(BODY_BYTES);
    const sender = await unfinished('/webhooks/attacked', first);
    for (let nth = 0; nth < 7; nth += 1) await unfinished('/webhooks/attacked', sized(BODY_BYTES));
    await isFull();
    expect(await receiver.deliver('quiet', sized(BODY_BYTES))).toBe(OK);
    expect(await sender.answer()).toBe(UNAVAILABLE);
    sender.received = '';
    sender.socket.write(first.body.subarray(-1));
    sender.head('/webhooks/attacked', { ...first.headers, 'content-length': String(first.body.length) });
    sender.socket.write(first.body);
    expect(await sender.answer()).toBe(OK);
  });

  describe('behind a request whose answer takes its time, on one connection', () => {
    let release!: () => void;
    const answered = () => {
      const { holdings } = receiver.app.get<ByteBudget, { readonly holdings: Set<Holding> }>(ByteBudget);
      return [...holdings].filter(({ isAnswered }) => isAnswered).length;
    };
    /** Answered 401, and the answers wait for that of the first. */
    const pipelined = async () => {
      secrets = new Promise((resolve) => (release = () => resolve([AWARDEE_SECRET])));
      const sender = await open();
      for (const path of ['asked', ...Array.from({ length: 7 }, () => 'attacked')]) {
        const { headers } = sized(10);
        sender.head(`/webhooks/${path}`, { ...headers, 'content-length': String(BODY_BYTES) });
        sender.socket.write(Buffer.alloc(BODY_BYTES));
      }
      await until(() => held() === BUDGET && answered() === 7);
      return sender;
    };

    it('cost another source nothing', async () => {
      const sender = await pipelined();
      // An equal part where four sources hold or wait: a test before this one may have left one waiting.
      expect(await receiver.deliver('quiet', sized(2 * BODY_BYTES))).toBe(OK);
      expect(held()).toBe(BODY_BYTES);
      release();
      await until(() => sender.received.split('HTTP/1.1 401').length === 9);
    });

    it('are counted no more once the connection has ended', async () => {
      const sender = await pipelined();
      sender.socket.destroy();
      await until(() => held() === BODY_BYTES);
      release();
      await until(() => held() === 0);
    });
  });

  it('without a signature they are answered 401 at once, and nothing of them is kept', async () => {
    const sender = await open();
    sender.head('/webhooks/attacked', { 'content-length': '100000' });
    expect(await sender.answer()).toBe(UNAUTHORIZED);
    sender.socket.write(Buffer.alloc(50_000));
    await new Promise((resolve) => sender.socket.write(Buffer.alloc(49_999), resolve));
    expect(held()).toBe(0);
    expect(receiver.rejections()).toContain('attacked missing-signature');
    // The rest is read, so that the sender sees the answer and may use the connection again.
    sender.received = '';
    const valid = sized(100);
    sender.socket.write('x');
    sender.head('/webhooks/attacked', { ...valid.headers, 'content-length': '100' });
    sender.socket.write(valid.body);
    expect(await sender.answer()).toBe(OK);
  });

  describe.each(['close', 'keep-alive'])('a sender that asks for connection: %s', (connection) => {
    /** Piece by piece, each when the one before has left: the answer is there long before the last. */
    const writeSlowly = async (sender: Sender, bytes: number) => {
      for (let sent = 0; sent < bytes && sender.failure === undefined; sent += PIECE.length)
        await new Promise<unknown>((resolve) =>
          sender.socket.write(PIECE.subarray(0, Math.min(PIECE.length, bytes - sent)), resolve),
        );
    };
    const { headers } = sized(10);

    it.each([
      ['401 without a signature', UNAUTHORIZED, '/webhooks/large', {}, 'POST', 100_000],
      ['401 without a signature, 4 MB', UNAUTHORIZED, '/webhooks/large', {}, 'POST', 4_000_000],
      ['401 without a signature, 25 MB', UNAUTHORIZED, '/webhooks/large', {}, 'POST', 25_000_000],
      ['405', WRONG_METHOD, '/webhooks/large', headers, 'PUT', 4_000_000],
      ['405 for a method that few know', WRONG_METHOD, '/webhooks/large', headers, 'PROPFIND', 4_000_000],
      ['413', TOO_LARGE, '/webhooks/attacked', headers, 'POST', 4_000_000],
      [
        '415',
        UNSUPPORTED_ENCODING,
        '/webhooks/large',
        { ...headers, 'content-encoding': 'br' },
        'POST',
        4_000_000,
      ],
      ['503 for want of room', UNAVAILABLE, '/webhooks/large', headers, 'POST', 25_000_000],
      ['404 for a long name', UNKNOWN_SOURCE, `/webhooks/${'n'.repeat(200)}`, {}, 'POST', 4_000_000],
    ])('sees its %s, and no reset', async (_, answer, path, more, method, bytes) => {
      const sender = await open(receiver, true);
      sender.head(path, { ...more, connection, 'content-length': String(bytes) }, method);
      await writeSlowly(sender, bytes);
      expect(await sender.answer()).toContain(answer.slice(0, 3));
      sender.socket.end();
      await until(() => sender.isClosed);
      expect(sender.failure).toBeUndefined();
    });
  });

  it('requests that come in one piece are answered in turn, and the last one ends the connection', async () => {
    const sender = await open(receiver, true);
    sender.socket.cork();
    for (const connection of ['keep-alive', 'keep-alive', 'close']) {
      const { headers, body } = sized(100);
      sender.head('/webhooks/quiet', { ...headers, connection, 'content-length': '100' });
      sender.socket.write(body);
    }
    sender.socket.uncork();
    await once(sender.socket, 'end');
    expect(sender.received.match(/HTTP\/1.1 \d+/g)).toEqual(Array(3).fill('HTTP/1.1 200'));
    sender.socket.end('after its last request');
    await until(() => sender.isClosed);
  });

  it('a sender that writes all of 25 MB before it reads sees the 401 too', async () => {
    const { status, text } = await receiver.send({ path: '/webhooks/large', body: Buffer.alloc(25_000_000) });
    expect(`${status} ${text}`).toBe(UNAUTHORIZED);
  });

  describe('with a deadline', () => {
    let hasty: Receiver;
    beforeAll(async () => {
      hasty = await start('1s');
    });
    afterAll(() => hasty?.stop());

    it.each([
      ['without a byte', 1_000_000],
      ['byte by byte', 20],
    ])('%s: answered 503, and then the connection is closed', async (_, everyMs) => {
      const sender = await open(hasty);
      sender.head('/webhooks/attacked', { ...sized(10).headers, 'content-length': '100000' });
      const drip = setInterval(() => sender.socket.write('a'), everyMs);
      try {
        expect(await sender.answer()).toBe(UNAVAILABLE);
        await until(() => sender.isClosed);
      } finally {
        clearInterval(drip);
      }
      expect(held(hasty)).toBe(0);
    });

    it('without a signature too: answered at once, and closed when its time is over', async () => {
      const sender = await open(hasty);
      sender.head('/webhooks/attacked', { 'content-length': '100000' });
      expect(await sender.answer()).toBe(UNAUTHORIZED);
      await until(() => sender.isClosed);
    });
  });

  describe('from an address', () => {
    const from = (address: string) => ({ 'x-forwarded-for': address });
    const attack = async (to: Receiver) => {
      for (let nth = 0; nth < 8; nth += 1)
        await unfinished('/webhooks/attacked', sized(BODY_BYTES), from('192.0.2.66'), to);
      await isFull(to);
      const valid = sized(BODY_BYTES);
      return to.deliver('attacked', { ...valid, headers: { ...valid.headers, ...from('192.0.2.7') } });
    };

    it('cost another address nothing, where the application trusts the proxy that names them', async () => {
      const trusting = await start('30s', true);
      try {
        expect(await attack(trusting)).toBe(OK);
      } finally {
        for (const { socket } of senders.splice(0)) socket.destroy();
        await trusting.stop();
      }
    });

    it('a header that nobody trusts makes no other address', async () => {
      expect(await attack(receiver)).toBe(UNAVAILABLE);
    });
  });

  describe.each([
    ['in groups', {}],
    ['one by one', { groupCommit: false }],
    ['while the provider waits', { retries: 'provider' as const }],
  ])('behind a pool that is held, claimed %s', (_, { retries, ...options }: Claimed) => {
    const MIB = 1024 * 1024;
    const WAVES = 8;

    it('hold no more than the byte budget when all of them have been answered', async () => {
      const pooled = await Receiver.start({
        adapter,
        database,
        poolSize: 2,
        webhooks: {
          byteBudget: 8 * MIB,
          claimTimeout: '300ms',
          sources: { large: awardeeSource({ maxBytes: 2 * MIB, retries }) },
          ...options,
        },
      });
      const dataSource = pooled.app.get(DataSource);
      const runners = [1, 2].map(() => dataSource.createQueryRunner());
      await Promise.all(runners.map((runner) => runner.connect()));
      try {
        // One body for all of them: what is held beyond it, the receiver holds.
        const { headers, body } = sized(MIB);
        const before = collected();
        for (let wave = 0; wave < WAVES; wave += 1) {
          const answers = Array.from({ length: 8 }, (_, nth) => {
            const id = { 'X-Awardee-Delivery': `held-${wave}-${nth}` };
            return pooled.deliver('large', { headers: { ...headers, ...id }, body });
          });
          expect(new Set(await Promise.all(answers))).toEqual(new Set([UNAVAILABLE]));
        }
        expect(held(pooled)).toBeLessThanOrEqual(8 * MIB);
        // 64 MiB came. The budget, its blocks and the sender's own buffers are far from it; what a collection frees goes a moment later.
        let grown = Infinity;
        await until(() => (grown = collected() - before) < 40 * MIB, 5_000).catch(() => undefined);
        expect(grown).toBeLessThan(40 * MIB);
      } finally {
        await Promise.all(runners.map((runner) => runner.release()));
        await until(() => held(pooled) === 0);
        await pooled.stop();
      }
    });
  });

  (adapter === 'fastify' ? describe : describe.skip)('under a handlerTimeout of Fastify', () => {
    let limited: Receiver;
    beforeAll(async () => {
      limited = await start('30s', false, 300);
    });
    afterAll(() => limited?.stop());

    it('are answered by Fastify, and what comes of them later is not counted', async () => {
      const request = sized(BODY_BYTES);
      const sender = await unfinished('/webhooks/attacked', request, {}, limited);
      expect(await sender.answer()).toMatch(/^503 .*Request timed out/);
      await until(() => held(limited) === 0);
      sender.received = '';
      sender.socket.write(request.body.subarray(-1));
      const next = sized(100);
      sender.head('/webhooks/attacked', { ...next.headers, 'content-length': '100' });
      sender.socket.write(next.body);
      expect(await sender.answer()).toBe(OK);
      expect(held(limited)).toBe(0);
    });
  });

  it('whatever happens to them in which order, no byte stays counted', async () => {
    const responses = new Map<string, { request: IncomingMessage; response: ServerResponse }>();
    const server = receiver.app.getHttpServer() as Server;
    const hear = (request: IncomingMessage, response: ServerResponse) =>
      responses.set(String(request.headers['x-number']), { request, response });
    server.prependListener('request', hear);
    const step = fc.constantFrom('data', 'data', 'rest', 'abort', 'answer', 'error', 'pause');
    let number = 0;
    const run = async (steps: readonly string[]) => {
      const request = sized(40_000);
      const name = String(++number);
      const sender = await open();
      sender.head('/webhooks/attacked', { ...request.headers, 'x-number': name, 'content-length': '40000' });
      await until(() => responses.has(name) || sender.isClosed);
      let sent = 0;
      const send = (bytes: number) => {
        if (sent < 40_000 && !sender.isClosed) sender.socket.write(request.body.subarray(sent, sent + bytes));
        sent += bytes;
      };
      for (const one of steps) {
        if (one === 'data') send(9_000);
        else if (one === 'rest') send(40_000);
        else if (one === 'abort') sender.socket.destroy();
        else if (one === 'answer') responses.get(name)!.response.end();
        else if (one === 'error') responses.get(name)!.request.destroy(new Error('of the socket'));
        else await new Promise((resolve) => setTimeout(resolve, 1));
      }
      sender.socket.destroy();
    };
    try {
      await fc.assert(
        fc.asyncProperty(fc.array(fc.array(step, { maxLength: 8 }), { maxLength: 4 }), async (runs) => {
          await Promise.all(runs.map((steps) => run(steps)));
          await until(() => held() === 0);
        }),
        { numRuns: 40 },
      );
    } finally {
      server.removeListener('request', hear);
    }
    expect(await receiver.deliver('attacked', sized(BODY_BYTES))).toBe(OK);
  });
});
