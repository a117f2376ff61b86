import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of the test server that can freeze: connections stay open, and not a byte passes. */
export class TcpProxy {
  private readonly pairs = new Set<readonly [Socket, Socket]>();
  /** Connections that came in. */
  connections = 0;

  private constructor(
    private readonly server: Server,
    private target: URL,
  ) {}

  static async start(databaseUrl: string): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server, new URL(databaseUrl));
    server.on('connection', (client) => proxy.join(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The database's URL through this proxy. */
  get url(): string {
    const url = new URL(this.target);
    url.port = String((this.server.address() as AddressInfo).port);
    return url.href;
  }

  /** The connections that are open now say nothing more; new ones work. */
  freeze(): void {
    for (const [client, upstream] of this.pairs) {
      for (const socket of [client, upstream]) socket.unpipe().pause();
    }
  }

  /** Leads to another server from now on; what is open is cut. */
  lead(databaseUrl: string): void {
    this.target = new URL(databaseUrl);
    this.cut();
  }

  private cut(): void {
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private join(client: Socket): void {
    this.connections += 1;
    const upstream = connect(Number(this.target.port), this.target.hostname);
    const pair = [client, upstream] as const;
    this.pairs.add(pair);
    for (const [from, to] of [pair, [upstream, client] as const]) {
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        this.pairs.delete(pair);
      });
    }
  }
}
