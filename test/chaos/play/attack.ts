import { once, setMaxListeners } from 'node:events';
import { connect } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { send } from '../../support/http.js';
import { awardee } from '../../support/signing.js';

/** Answers of each kind of sender, and what valid deliveries to other sources met meanwhile. */
export interface AttackReport {
  readonly answers: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly valid: number;
  readonly validAnswers: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** By how much the senders' own event loop was late, which their times contain: 99 of 100 turns by less. */
  readonly sendersLateP99Ms: number;
}

/** Sources that are attacked; valid deliveries go to another. */
const ATTACKED = '/webhooks/own';
const PACKED = '/webhooks/packed';
const VALID = '/webhooks/keyed';
const VALID_EVERY_MS = 25;

const MIB = 1024 * 1024;
const NESTED = Buffer.from(`${'['.repeat(1_000)}${'0,'.repeat(124_000)}0${']'.repeat(1_000)}`);
const BOMB = gzipSync(Buffer.alloc(25 * MIB));
const UNSIGNED = Buffer.alloc(4 * MIB);
/** The headers of a signature that is none: nothing else lets a body be looked at. */
const FORGED = { ...awardee('forged', 'forged', '{}').headers, 'X-Awardee-Signature': 'ab'.repeat(32) };

/** A sender of one kind: repeats its request until the attack is over. */
interface Kind {
  readonly name: string;
  /** So many at once. */
  readonly senders: number;
  /** It is answered when the attack is over, at the latest. @default false */
  readonly lasts?: boolean;
  /** @returns status and body of the answer, or how the connection ended */
  readonly once: (origin: string, over: AbortSignal) => Promise<string>;
}

const posted = (path: string, headers: Record<string, string>, body: Buffer, chunked?: number) => {
  return async (origin: string) => {
    const { status } = await send(origin, { path, headers, body, chunked });
    return String(status);
  };
};

const KINDS: readonly Kind[] = [
  { name: 'nested', senders: 4, once: posted(ATTACKED, FORGED, NESTED) },
  { name: 'flooding', senders: 20, once: posted(ATTACKED, FORGED, Buffer.from('{"id":"flood"}')) },
  { name: 'oversized', senders: 4, once: posted(ATTACKED, FORGED, Buffer.alloc(3 * MIB), 64 * 1024) },
  { name: 'unsigned', senders: 4, once: posted(PACKED, {}, UNSIGNED) },
  { name: 'compressed', senders: 4, once: posted(PACKED, { ...FORGED, 'content-encoding': 'gzip' }, BOMB) },
  {
    name: 'unfinished',
    senders: 80,
    lasts: true,
    once: (origin, over) => raw(origin, MIB, MIB - 1, 0, over),
  },
  { name: 'slow', senders: 80, lasts: true, once: (origin, over) => raw(origin, MIB, 1_000, 100, over) },
];

/** What each kind may be answered. A connection may be closed where its body does not come. */
export const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  nested: ['401', '503'],
  flooding: ['401', '503'],
  oversized: ['413', '503'],
  unsigned: ['401'],
  compressed: ['413', '503'],
  unfinished: ['503', 'over'],
  slow: ['503', 'over'],
};

/** On a machine that is busy, an attack goes on until it shows something, for so long at most. */
const MOST_MS = 120_000;
/** Valid deliveries on their way at once: more would measure how long they wait for each other. */
const MOST_UNDER_WAY = 20;

/**
 * Has senders whom nobody believes send for so long, beside valid deliveries to another source.
 * @param enough valid deliveries: with fewer the attack goes on, as without an answer to each kind of sender
 */
export async function attack(
  origin: string,
  ms: number,
  name: string,
  enough: number,
): Promise<AttackReport> {
  const over = new AbortController();
  const late = monitorEventLoopDelay({ resolution: 10 });
  late.enable();
  // One for each connection that is left open.
  setMaxListeners(0, over.signal);
  const startedAt = performance.now();
  const answers: Record<string, Record<string, number>> = {};
  const senders = KINDS.flatMap((kind) => {
    const counts = (answers[kind.name] = {});
    return Array.from({ length: kind.senders }, () => repeat(kind, origin, over.signal, counts));
  });
  const validAnswers: Record<string, number> = {};
  const times: number[] = [];
  const underWay = new Set<Promise<void>>();
  const shows = () =>
    times.length >= enough && KINDS.every((kind) => kind.lasts || answersTo(answers, kind) > 0);
  for (let nth = 0; ; nth += 1) {
    const elapsedMs = performance.now() - startedAt;
    if (elapsedMs >= ms && (shows() || elapsedMs >= MOST_MS)) break;
    if (underWay.size < MOST_UNDER_WAY) {
      const delivery = deliver(origin, `${name}-${nth}`, times, validAnswers);
      underWay.add(delivery);
      void delivery.finally(() => underWay.delete(delivery));
    }
    await sleep(VALID_EVERY_MS);
  }
  over.abort();
  late.disable();
  await Promise.all([...underWay, ...senders]);
  times.sort((a, b) => a - b);
  const at = (part: number) => Math.round(times[Math.floor((times.length - 1) * part)] ?? 0);
  return {
    answers,
    valid: times.length,
    validAnswers,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    sendersLateP99Ms: Math.round(late.percentile(99) / 1e6),
  };
}

async function deliver(
  origin: string,
  id: string,
  times: number[],
  counts: Record<string, number>,
): Promise<void> {
  const startedAt = performance.now();
  const { status } = await send(origin, { path: VALID, ...awardee(id, 'happened', { id, resource: 'one' }) });
  times.push(performance.now() - startedAt);
  count(counts, String(status));
}

async function repeat(kind: Kind, origin: string, over: AbortSignal, counts: Record<string, number>) {
  while (!over.aborted) {
    const answer = await kind.once(origin, over).catch((error: Error) => `error ${error.message}`);
    count(counts, answer);
    await sleep(10);
  }
}

/** Declares `declared` bytes, sends `sent` of them, and then one more every so many milliseconds. */
async function raw(
  origin: string,
  declared: number,
  sent: number,
  everyMs: number,
  over: AbortSignal,
): Promise<string> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1');
  socket.on('error', () => undefined);
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString();
    socket.destroy();
  });
  const closed = once(socket, 'close');
  const headers = { host: 'localhost', ...FORGED, 'content-length': String(declared) };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.write(`POST ${ATTACKED} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
  socket.write(Buffer.alloc(sent, 'a'));
  const drip = everyMs === 0 ? undefined : setInterval(() => socket.write('a'), everyMs);
  const stop = () => socket.destroy();
  over.addEventListener('abort', stop, { once: true });
  await closed;
  over.removeEventListener('abort', stop);
  clearInterval(drip);
  return received === '' ? (over.aborted ? 'over' : 'closed') : received.slice(9, 12);
}

const answersTo = (answers: AttackReport['answers'], { name }: Kind) =>
  Object.values(answers[name] ?? {}).reduce((sum, one) => sum + one, 0);

function count(counts: Record<string, number>, answer: string): void {
  counts[answer] = (counts[answer] ?? 0) + 1;
}
