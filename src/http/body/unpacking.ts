import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  type BrotliDecompress,
  type Gunzip,
  type Inflate,
} from 'node:zlib';
import type { Answer } from '../../core/answer.js';
import type { Source } from '../../core/options/resolve-source.js';
import type { Encoding } from '../../core/options/source.js';
import { ANSWERS } from '../../inbox/answers.js';
import type { Holding } from './byte-budget.js';
import { Chunks } from './chunks.js';

const CHUNK_BYTES = 64 * 1024;
/**
 * Most bytes that one packed byte may become, once there are more than `FREE_BYTES`. Real events are packed to a tenth; a packed
 * megabyte of zeros is a kilobyte, and each that it becomes is hashed for the signature.
 */
const MAX_RATIO = 100;
const FREE_BYTES = 1024 * 1024;

const UNPACKERS: Record<Encoding, () => Inflate | Gunzip | BrotliDecompress> = {
  gzip: () => createGunzip({ chunkSize: CHUNK_BYTES }),
  deflate: () => createInflate({ chunkSize: CHUNK_BYTES }),
  br: () => createBrotliDecompress({ chunkSize: CHUNK_BYTES }),
};

/** Undoes a content encoding that the source accepts. Each piece is counted as it comes out: a body may become a thousand times its bytes. */
export function unpack(
  encoding: Encoding,
  packed: Buffer,
  source: Source,
  holding: Holding,
): Promise<Buffer | Answer> {
  const limit = Math.min(source.maxBytes, Math.max(FREE_BYTES, packed.length * MAX_RATIO));
  return new Promise((resolve) => {
    const unpacker = UNPACKERS[encoding]();
    const chunks = new Chunks();
    let length = 0;
    const refuse = (answer: Answer) => {
      unpacker.destroy();
      resolve(answer);
    };
    unpacker.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > limit) refuse(ANSWERS.tooLarge);
      else if (!holding.take(chunk.length)) refuse(ANSWERS.unavailable);
      // A copy: it comes in a buffer of `CHUNK_BYTES`, however little it is.
      else chunks.add(Buffer.from(chunk));
    });
    unpacker.on('error', () => refuse(ANSWERS.unsupportedEncoding));
    unpacker.on('end', () => {
      // The signature covers the packed bytes, and so nothing may follow them.
      const isAll = unpacker.bytesWritten === packed.length;
      resolve(isAll ? chunks.toBuffer() : ANSWERS.unsupportedEncoding);
    });
    unpacker.end(packed);
  });
}
