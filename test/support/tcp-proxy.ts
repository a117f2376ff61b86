import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of a server that can freeze: connections stay open, and not a byte passes. */
export class TcpProxy {
  private readonly pairs = new Set<readonly [Socket, Socket]>();
  private isSilent = false;
  /** Connections that came in. */
  connections = 0;

  private constructor(
    private readonly server: Server,
    private target: URL,
  ) {}

  /** @param url of the server, with its port */
  static async start(url: string): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server, new URL(url));
    server.on('connection', (client) => proxy.join(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The server's URL through this proxy. */
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

  /** Cuts the network until `goOn`: nothing passes on open connections or new ones, and neither side is told. */
  silence(): void {
    this.isSilent = true;
    this.freeze();
  }

  /** Ends `silence`: what was sent meanwhile arrives, as after retransmissions. */
  goOn(): void {
    this.isSilent = false;
    for (const pair of this.pairs) {
      if (pair.some(({ destroyed }) => destroyed)) this.end(pair);
      else pass(pair);
    }
  }

  /** Ends `silence` for new connections. Nothing passes on those of before: their router has forgotten them. */
  allowNew(): void {
    this.isSilent = false;
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
    if (!this.isSilent) pass(pair);
    for (const socket of pair) {
      socket.on('error', () => undefined);
      socket.on('close', () => this.end(pair));
    }
  }

  private end(pair: readonly [Socket, Socket]): void {
    if (this.isSilent) return;
    this.pairs.delete(pair);
    for (const socket of pair) socket.destroy();
  }
}

function pass([client, upstream]: readonly [Socket, Socket]): void {
  client.pipe(upstream);
  upstream.pipe(client);
}
