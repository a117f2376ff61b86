import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import type { Answer } from '../core/answer.js';
import type { Source } from '../core/resolve-source.js';
import type { Encoding } from '../core/source.js';
import { ANSWERS } from '../inbox/answers.js';
import type { ByteBudget } from './byte-budget.js';

/** The bytes of a request, or the answer that refuses to take them. */
export type RawBody = { readonly bytes: Buffer } | { readonly refused: Answer };

const raw = new WeakMap<IncomingMessage, RawBody>();

/** What the reader kept of a request; undefined when it never saw it. */
export function rawBodyOf(request: IncomingMessage): RawBody | undefined {
  return raw.get(request);
}

const DECODERS: Record<Encoding, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>> = {
  gzip: promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip),
  deflate: promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate),
  br: promisify<Buffer, { maxOutputLength: number }, Buffer>(brotliDecompress),
};

/**
 * Reads the body of a webhook request before any parser, whatever its content type, within the source's limit and the budget.
 * Resolves false when the client went away in the middle: there is nobody to answer.
 */
export async function readRawBody(
  request: IncomingMessage,
  response: ServerResponse,
  source: Source,
  budget: ByteBudget,
): Promise<boolean> {
  const taken = { bytes: 0 };
  let gone = false;
  response.once('close', () => {
    gone = true;
    budget.giveBack(taken.bytes);
  });
  const read = await collect(request, source, budget, taken);
  if (read === 'gone') return false;
  let body = read;
  const encoding = request.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if ('bytes' in read && encoding !== '' && encoding !== 'identity') {
    body = await decode(encoding, source, read.bytes);
    if (gone) return false;
  }
  // What a body becomes is what is held, and may be a thousand times what came.
  if ('bytes' in read && 'bytes' in body && body.bytes !== read.bytes) {
    const { length } = body.bytes;
    if (budget.take(length)) taken.bytes += length;
    else body = { refused: ANSWERS.unavailable };
  }
  raw.set(request, body);
  return true;
}

async function collect(
  request: IncomingMessage,
  source: Source,
  budget: ByteBudget,
  taken: { bytes: number },
): Promise<RawBody | 'gone'> {
  if (Number(request.headers['content-length'] ?? 0) > source.maxBytes) return { refused: ANSWERS.tooLarge };
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let refused: RawBody | undefined;
    request.on('data', (chunk: Buffer) => {
      if (refused !== undefined) return;
      if (taken.bytes + chunk.length > source.maxBytes) refused = { refused: ANSWERS.tooLarge };
      else if (!budget.take(chunk.length)) refused = { refused: ANSWERS.unavailable };
      else {
        taken.bytes += chunk.length;
        chunks.push(chunk);
        return;
      }
      // What follows is read and dropped: a client that is still writing would not read the answer.
      chunks.length = 0;
      resolve(refused);
    });
    request.on('end', () =>
      resolve(refused ?? { bytes: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) }),
    );
    request.on('close', () => resolve('gone'));
    request.on('error', () => resolve('gone'));
  });
}

async function decode(encoding: string, source: Source, bytes: Buffer): Promise<RawBody> {
  const accepted = source.encodings.find((one) => one === encoding);
  if (accepted === undefined) return { refused: ANSWERS.unsupportedEncoding };
  try {
    return { bytes: await DECODERS[accepted](bytes, { maxOutputLength: source.maxBytes }) };
  } catch (error) {
    const bomb = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    return { refused: bomb ? ANSWERS.tooLarge : ANSWERS.unsupportedEncoding };
  }
}
