import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import { resolveOptions } from '../../src/core/options/resolve-options.js';
import { addressOf, encodingOf, networkOf } from '../../src/http/body/body-intake.js';
import { ByteBudget, type Holding } from '../../src/http/body/byte-budget.js';
import { LARGE_BYTES, waitForTurn } from '../../src/http/body/large-bodies.js';
import { Chunks } from '../../src/http/body/chunks.js';
import { unpack } from '../../src/http/body/unpacking.js';
import { ExpressWay, type ExpressAdapterLike } from '../../src/http/direct/express-way.js';
import { awardeeSource } from '../support/sources.js';

const BUDGET = 1_000;

const nobody = { isAnswered: false, giveUp: () => {} };
const budgetOf = () => new ByteBudget(resolveOptions({ sources: {}, byteBudget: BUDGET }));

describe('the byte budget', () => {
  let budget: ByteBudget;
  let gone: string[];
  const answered = new Set<string>();
  const open = (source: string, address = 'a', name = `${source} ${address}`) =>
    budget.open(source, address, { isAnswered: answered.has(name), giveUp: () => void gone.push(name) });
  const held = (source: string, bytes: number, address?: string, name?: string): Holding => {
    const holding = open(source, address, name);
    expect(holding.take(bytes)).toBe(true);
    return holding;
  };

  beforeEach(() => {
    budget = budgetOf();
    gone = [];
    answered.clear();
  });

  it('one source and one address may use all of it', () => {
    for (let nth = 0; nth < 10; nth += 1) held('storm', 100);
    expect(budget.heldBytes).toBe(BUDGET);
    expect(open('storm').take(1)).toBe(false);
    expect(gone).toEqual([]);
  });

  it('the oldest body of the source that holds the most makes room for another source', () => {
    held('attacked', 500, 'a', 'first');
    held('attacked', 400, 'a', 'second');
    held('other', 100, 'a', 'bystander');
    expect(open('quiet').take(50)).toBe(true);
    expect(gone).toEqual(['first']);
    expect(budget.heldBytes).toBe(550);
  });

  it('of the same source, the oldest body of the address that holds the most', () => {
    for (const nth of [1, 2, 3]) held('source', 300, 'attacker', `attacker ${nth}`);
    held('source', 100, 'bystander');
    expect(open('source', 'sender').take(50)).toBe(true);
    expect(gone).toEqual(['attacker 1']);
  });

  it('a slow body is the first, whoever asks', () => {
    held('source', 600, 'a', 'fast');
    held('source', 400, 'a', 'slow').markSlow(true);
    expect(open('source', 'a').take(50)).toBe(true);
    expect(gone).toEqual(['slow']);
  });

  it('one that is slow and answered already is not given up again', () => {
    const answered = held('source', 600);
    answered.close();
    answered.markSlow(true);
    held('source', 900);
    expect(open('source').take(200)).toBe(false);
    expect(gone).toEqual([]);
  });

  it('a body that is complete is never given up', () => {
    held('attacked', 1_000).markArrived();
    expect(open('quiet').take(1)).toBe(false);
    expect(gone).toEqual([]);
  });

  it('one whose answer waits to be read makes room, also where it is complete', () => {
    answered.add('attacked a');
    held('attacked', 600).markArrived();
    held('attacked', 400, 'b').markArrived();
    expect(open('quiet').take(600)).toBe(true);
    expect(gone).toEqual(['attacked a']);
    expect(budget.heldBytes).toBe(BUDGET);
  });

  it('while a source waits, the others do not grow beyond their part', () => {
    const first = held('busy', 450);
    const second = held('busy', 550);
    for (const holding of [first, second]) holding.markArrived();
    // Just its own part.
    expect(open('quiet').take(500)).toBe(false);
    second.close();
    expect(open('busy').take(51)).toBe(false);
    expect(open('busy').take(50)).toBe(true);
    expect(open('quiet').take(500)).toBe(true);
  });

  it('a source that holds nothing any more has no part', () => {
    held('former', 100).close();
    for (const bytes of [450, 550]) held('busy', bytes).markArrived();
    expect(open('quiet').take(500)).toBe(false);
    expect(open('busy').take(1)).toBe(false);
  });

  it('a source loses no body to one that would hold as much', () => {
    held('one', 500);
    held('other', 450);
    expect(open('other').take(51)).toBe(false);
    expect(open('third').take(450)).toBe(true);
    expect(gone).toEqual(['one a']);
  });

  it('a source with more than its part does not wait for more', () => {
    expect(open('greedy').take(BUDGET + 1)).toBe(false);
    expect(open('other').take(900)).toBe(true);
  });

  it('holds the bytes for as long as work with them goes on', async () => {
    const holding = held('source', 100);
    let end = () => {};
    const work = holding.during(new Promise<void>((resolve) => (end = resolve)));
    holding.close();
    expect(budget.heldBytes).toBe(100);
    end();
    await work;
    expect(budget.heldBytes).toBe(0);
    // The host may run the route of a request whose sender has gone.
    const late = holding.during(new Promise<void>((resolve) => (end = resolve)));
    expect(budget.heldBytes).toBe(100);
    end();
    await late;
    expect(budget.heldBytes).toBe(0);
  });

  it('is empty when all bodies are over, and takes no more than there is room for, whatever happened to them in which order', async () => {
    const step = fc.record({
      body: fc.nat(5),
      what: fc.constantFrom('take', 'take', 'take', 'arrive', 'close', 'slow', 'work', 'end work'),
      bytes: fc.integer({ min: 1, max: 700 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const tried = budgetOf();
        const ends: (() => void)[] = [];
        const bodies = Array.from({ length: 6 }, (_, nth) =>
          tried.open(`source ${nth % 2}`, `address ${nth % 3}`, nobody),
        );
        for (const { body, what, bytes } of steps) {
          const holding = bodies[body]!;
          if (what === 'take' && holding.take(bytes)) expect(tried.heldBytes).toBeLessThanOrEqual(BUDGET);
          if (what === 'arrive') holding.markArrived();
          else if (what === 'close') holding.close();
          else if (what === 'slow') holding.markSlow(true);
          else if (what === 'end work') ends.shift()?.();
          else if (what === 'work') void holding.during(new Promise<void>((resolve) => ends.push(resolve)));
        }
        for (const holding of bodies) holding.close();
        for (const end of ends) end();
        await new Promise(setImmediate);
        expect(tried.heldBytes).toBe(0);
      }),
    );
  });
});

describe('the bytes of a body, put together', () => {
  it('are those that came, however they came', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 700 }), { maxLength: 50 }), (parts) => {
        const chunks = new Chunks();
        for (const part of parts) chunks.add(Buffer.from(part));
        return chunks.toBuffer().equals(Buffer.concat(parts));
      }),
    );
  });

  it('take at most twice their number, where each comes alone', () => {
    fc.assert(
      fc.property(fc.integer({ min: 500, max: 20_000 }), (bytes) => {
        const chunks = new Chunks();
        for (let nth = 0; nth < bytes; nth += 1) chunks.add(Buffer.from([nth]));
        expect(chunks.capacity).toBeLessThanOrEqual(2 * bytes);
      }),
      { numRuns: 10 },
    );
  });
});

it.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '::ffff:192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::9', '2001:db8:1:2'],
  ['2001:db8::9', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['unknown', 'unknown'],
])('the address %s counts as %s', (address, network) => expect(networkOf(address)).toBe(network));

it('an address that the application cannot tell is none, and no reason to refuse', () => {
  const refusing = {
    get ip(): string {
      throw new TypeError("Cannot read properties of undefined (reading 'startsWith')");
    },
  };
  const way = new ExpressWay({ getInstance: () => ({ request: refusing }) } as unknown as ExpressAdapterLike);
  const seen = way.asSeen(new IncomingMessage(new Socket()));
  expect([addressOf(refusing), addressOf(seen)]).toEqual(['', '']);
});

describe('a packed body', () => {
  const source = resolveOptions({
    sources: { packed: awardeeSource({ maxBytes: 10_000_000, encodings: ['gzip', 'deflate', 'br'] }) },
  }).sources.get('packed')!;
  const ways = [
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ] as const;
  const unpacked = async (encoding: (typeof ways)[number][0], bytes: Buffer) => {
    const budget = new ByteBudget(resolveOptions({ sources: {} }));
    const holding = budget.open('packed', 'a', nobody);
    const body = await unpack(encoding, bytes, source, holding);
    holding.close();
    expect(budget.heldBytes).toBe(0);
    return Buffer.isBuffer(body) ? body.toString() : body.status;
  };
  const text = 'an event, '.repeat(1_000);

  it.each(ways)(
    '%s: is taken as it was packed, and refused when anything is missing or follows',
    async (encoding, pack) => {
      const packed = pack(Buffer.from(text));
      expect(await unpacked(encoding, packed)).toBe(text);
      expect(await unpacked(encoding, packed.subarray(0, -2))).toBe(415);
      expect(await unpacked(encoding, Buffer.alloc(0))).toBe(415);
      for (const more of [Buffer.from('{"amount":1}'), Buffer.alloc(7)])
        expect(await unpacked(encoding, Buffer.concat([packed, more]))).toBe(415);
    },
  );

  it.each(ways)(
    '%s: becomes at most a hundred times its bytes, once there is more than a megabyte',
    async (encoding, pack) => {
      expect(await unpacked(encoding, pack(Buffer.alloc(1024 * 1024)))).toHaveLength(1024 * 1024);
      expect(await unpacked(encoding, pack(Buffer.alloc(5_000_000)))).toBe(413);
    },
  );

  it('x-gzip is gzip', () => {
    const of = (encoding: string) => encodingOf({ headers: { 'content-encoding': encoding } });
    expect([of('x-gzip'), of(' GZIP '), of('identity'), of(''), of('zstd')]).toEqual([
      'gzip',
      'gzip',
      undefined,
      undefined,
      'zstd',
    ]);
  });
});

describe('large bodies', () => {
  const CHUNK = Buffer.alloc(64 * 1024);
  const read: string[] = [];
  /** A body whose bytes are all there at once, as those of a fast sender are. */
  const body = (name: string, chunks: number) => {
    let left = chunks;
    let bytes = 0;
    const stream = new Readable({ read: () => void stream.push(left-- > 0 ? CHUNK : null) });
    stream.on('data', (chunk: Buffer) => {
      read.push(name);
      bytes += chunk.length;
      if (bytes > LARGE_BYTES) waitForTurn(stream);
    });
    return new Promise((resolve) => stream.on('end', resolve));
  };

  it('bring a few chunks in a turn of the event loop, however many there are, and all come to their end', async () => {
    read.length = 0;
    const all = Promise.all(Array.from({ length: 30 }, (_, nth) => body(`large ${nth}`, 20)));
    let over = false;
    void all.then(() => (over = true));
    // The first turns bring the first chunks of all.
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
    while (!over) {
      const before = read.length;
      await nextTurn();
      expect(read.length - before).toBeLessThanOrEqual(4);
    }
    expect(read).toHaveLength(30 * 20);
    // None waits until the others are through.
    expect(new Set(read.slice(-60)).size).toBe(30);
  });

  it('those of a usual size are read at once', async () => {
    read.length = 0;
    const all = Promise.all([body('a', 1), body('b', 1)]);
    await nextTurn();
    expect(read).toEqual(['a', 'b']);
    await all;
  });
});
