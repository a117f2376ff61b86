import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { serve } from '../support/program.js';
import { eventBody, signature, type Scheme } from '../support/signed.js';
import { percentile } from '../support/statistics.js';

export interface LoadOrder {
  /** Connections are shared among them. */
  readonly ports: readonly number[];
  readonly path: string;
  /** How many sources: `{source}` in the path is each of them in turn. @default 1 */
  readonly sources?: number;
  readonly scheme: Scheme;
  readonly connections: number;
  /** For so long, or … */
  readonly ms?: number;
  /** … so many requests. */
  readonly requests?: number;
  readonly prefix: string;
  /** Whether ids come in no order, as those of some providers do, instead of ascending. @default false */
  readonly random?: boolean;
}

export interface LoadResult {
  readonly answered: number;
  readonly failed: number;
  readonly seconds: number;
  readonly p50: number;
  readonly p99: number;
}

/** Signed requests over keep-alive connections, each sent when the last was answered. Written for speed: it shares the cores. */
async function load(order: LoadOrder): Promise<LoadResult> {
  const took: number[] = [];
  let next = 0;
  let failed = 0;
  const startedAt = performance.now();
  const end = order.ms === undefined ? Infinity : startedAt + order.ms;
  const most = order.requests ?? Infinity;
  const one = (socket: Socket) =>
    new Promise<void>((resolve, reject) => {
      let sentAt = 0;
      let received = '';
      const send = () => {
        if (next >= most || performance.now() >= end) {
          socket.end();
          resolve();
          return;
        }
        const id = `${order.prefix}${(next += 1)}`;
        const path = order.path.replace('{source}', `s${next % (order.sources ?? 1)}`);
        const body = eventBody(order.random === true ? createHash('md5').update(id).digest('hex') : id);
        const headers = Object.entries(signature(order.scheme, body)).map(
          ([name, value]) => `${name}: ${value}\r\n`,
        );
        sentAt = performance.now();
        socket.write(
          `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n${headers.join('')}\r\n${body}`,
        );
      };
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1');
        const head = received.indexOf('\r\n\r\n');
        if (head === -1) return;
        const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? 0);
        if (received.length < head + 4 + length) return;
        took.push(performance.now() - sentAt);
        if (!/^HTTP\/1\.1 20[01] /.test(received)) failed += 1;
        received = '';
        send();
      });
      socket.on('error', reject);
      socket.on('connect', send);
    });
  await Promise.all(
    Array.from({ length: order.connections }, (_, nth) =>
      one(connect(order.ports[nth % order.ports.length]!, '127.0.0.1').setNoDelay(true)),
    ),
  );
  return {
    answered: took.length - failed,
    failed,
    seconds: (performance.now() - startedAt) / 1_000,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
  };
}

await serve(async () => ({
  ready: {},
  run: (order) => load(order as LoadOrder),
  stop: async () => undefined,
}));
