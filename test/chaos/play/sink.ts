import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Log, SinkCall } from './log.js';

/** Of a hundred keys: refused at first, answered late enough for a renewal, and done without an answer. */
const REFUSED = 10;
const SLOW = 2;
const UNANSWERED = 5;

/** The event decides, not chance: a repeated schedule meets the same sink. */
function lotOf(eventId: string): number {
  return createHash('sha256').update(eventId).digest().readUInt32BE(0) % 100;
}

/** Whether the sink refuses the first call for an event, or is slow to answer it. */
export const isRefused = (eventId: string) => lotOf(eventId) < REFUSED;
export const isSlow = (eventId: string) => lotOf(eventId) >= 100 - SLOW;

type Told = Pick<SinkCall, 'source' | 'eventId'>;

/** The services that effects call: one honours the idempotency key, the other one knows no keys. */
export class ChaosSink {
  private readonly calls = new Map<string, number>();
  private readonly applied = new Set<string>();

  private constructor(
    private readonly server: Server,
    private readonly log: Pick<Log<SinkCall>, 'write'>,
    private readonly slowMs: number,
  ) {}

  static async start(log: Pick<Log<SinkCall>, 'write'>, slowMs: number): Promise<ChaosSink> {
    const server = createServer();
    const sink = new ChaosSink(server, log, slowMs);
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      sink.answer(request, response).catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return sink;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const key = String(request.headers['webhook-id'] ?? request.headers['idempotency-key']);
    const sink = request.url === '/raw' ? 'raw' : 'idempotent';
    const body = (await json(request)) as Told & { readonly data?: Told };
    const { source, eventId } = body.data ?? body;
    const nth = (this.calls.get(key) ?? 0) + 1;
    this.calls.set(key, nth);
    const lot = lotOf(eventId);
    const refused = nth === 1 && lot < REFUSED;
    const applied = !refused && (sink === 'raw' || !this.applied.has(key));
    if (applied) this.applied.add(key);
    this.log.write({ sink, key, source, eventId, applied });
    if (refused) return void response.writeHead(503).end();
    const ms = nth === 1 && lot >= 100 - SLOW ? this.slowMs : lot;
    await new Promise((resolve) => setTimeout(resolve, ms));
    // Only where the key makes up for it: at the raw sink every extra call is to be the kills'.
    if (nth === 1 && sink === 'idempotent' && lot < REFUSED + UNANSWERED) return void response.destroy();
    response.writeHead(204).end();
  }
}
