import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** Of a hundred effects: how many are refused at first, and how many happen although their answer is lost. */
const REFUSED_PERCENT = 10;
const UNANSWERED_PERCENT = 5;

/** What the sink knows of one Idempotency-Key. */
interface Effect {
  readonly source: string;
  readonly eventId: string;
  calls: number;
  happened: boolean;
}

/** The service that effects call. It honours the key, as a payment provider does: an effect that has happened does not happen again. */
export class Sink {
  readonly effects = new Map<string, Effect>();

  private constructor(private readonly server: Server) {}

  static async start(): Promise<Sink> {
    const server = createServer();
    const sink = new Sink(server);
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      sink.answer(request, response).catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return sink;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/effects`;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const key = String(request.headers['idempotency-key']);
    const { source, eventId } = (await json(request)) as { source: string; eventId: string };
    const effect = this.effects.get(key) ?? { source, eventId, calls: 0, happened: false };
    this.effects.set(key, effect);
    effect.calls += 1;
    const first = effect.calls === 1;
    const lot = createHash('sha256').update(key).digest().readUInt32BE(0) % 100;
    if (first && lot < REFUSED_PERCENT) {
      response.writeHead(500).end();
      return;
    }
    effect.happened = true;
    if (first && lot < REFUSED_PERCENT + UNANSWERED_PERCENT) response.destroy();
    else response.writeHead(204).end();
  }
}
