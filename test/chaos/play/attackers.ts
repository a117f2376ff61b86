// Senders whom nobody believes, in a process of their own: their work must not delay the valid deliveries of the main one.
import { once, setMaxListeners } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { send } from '../../support/http.js';
import { awardee } from '../../support/signing.js';

/** What the main process is told: how often each kind got each answer. */
export type Answers = Record<string, Record<string, number>>;

const ATTACKED = '/webhooks/own';
const PACKED = '/webhooks/packed';
/** How often the main process is told. */
const TELL_EVERY_MS = 200;

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
    once: (origin, over) => raw(origin, MIB, MIB - 1, 0, over),
  },
  { name: 'slow', senders: 80, once: (origin, over) => raw(origin, MIB, 1_000, 100, over) },
];

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

function count(counts: Record<string, number>, answer: string): void {
  counts[answer] = (counts[answer] ?? 0) + 1;
}

const [origin] = process.argv.slice(2) as [string];
const over = new AbortController();
// One for each connection that is left open.
setMaxListeners(0, over.signal);
const answers: Answers = {};
const senders = KINDS.flatMap((kind) => {
  const counts = (answers[kind.name] = {});
  return Array.from({ length: kind.senders }, () => repeat(kind, origin, over.signal, counts));
});
const telling = setInterval(() => process.send!(answers), TELL_EVERY_MS);
process.once('message', () => over.abort());
process.once('disconnect', () => process.exit());
await Promise.all(senders);
clearInterval(telling);
process.send!(answers);
process.disconnect();
