import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SinkRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A server on a loopback address that remembers what it was sent and answers as told. */
export class FakeSink {
  readonly requests: SinkRequest[] = [];
  connections = 0;
  answer: (response: ServerResponse, request: SinkRequest) => void = (response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');

  private constructor(private readonly server: Server) {}

  static async start(host = '127.0.0.1'): Promise<FakeSink> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { method = '', url = '', headers } = request;
        const received = { method, url, headers, body: Buffer.concat(chunks).toString() };
        sink.requests.push(received);
        sink.answer(response, received);
      });
    });
    const sink = new FakeSink(server);
    server.on('connection', () => (sink.connections += 1));
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    return sink;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
