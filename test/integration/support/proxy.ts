import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of PostgreSQL that cuts connections at chosen moments, or takes none. */
export interface CuttingProxy {
  /** The database's URL by way of the proxy. */
  readonly url: string;
  /**
   * Cuts a connection at a statement that is exactly `sql`: before the server got it, or after it has acted on it and before its
   * answer is passed on. `skip` of them are let through first, then `times` are cut.
   */
  cutAt(sql: string, when: 'before' | 'after', options?: { skip?: number; times?: number }): void;
  /** How many connections have been cut at the statement. */
  readonly cuts: number;
  /** Takes no connection any more and cuts those that are there: the server is gone. */
  goDown(): Promise<void>;
  comeBack(): Promise<void>;
  /** Passes nothing on any more, and cuts nothing either: a half-open network. */
  freeze(): void;
  close(): Promise<void>;
}

export async function cuttingProxy(databaseUrl: string): Promise<CuttingProxy> {
  const target = new URL(databaseUrl);
  const pairs = new Set<readonly [Socket, Socket]>();
  let armed: { message: Buffer; when: 'before' | 'after'; skip: number; times: number } | undefined;
  let cuts = 0;
  let server: Server;
  let port = 0;

  const cut = (pair: readonly [Socket, Socket]) => {
    for (const socket of pair) socket.destroy();
    pairs.delete(pair);
  };
  const accept = (client: Socket) => {
    const upstream = connect(Number(target.port), target.hostname);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    let cutAtAnswer = false;
    client.on('data', (chunk: Buffer) => {
      if (armed !== undefined && armed.times > 0 && chunk.includes(armed.message) && armed.skip-- <= 0) {
        armed.times -= 1;
        cuts += 1;
        if (armed.when === 'before') return cut(pair);
        cutAtAnswer = true;
      }
      upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => {
      if (cutAtAnswer) cut(pair);
      else client.write(chunk);
    });
    for (const socket of pair) {
      socket.on('error', () => cut(pair));
      socket.on('close', () => cut(pair));
    }
  };
  const listen = async () => {
    server = createServer(accept);
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    ({ port } = server.address() as AddressInfo);
  };
  const goDown = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const pair of pairs) cut(pair);
    await closed;
  };
  await listen();
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  return {
    url: url.href,
    cutAt: (sql, when, { skip = 0, times = 1 } = {}) => {
      armed = { message: Buffer.from(`${sql}\0`), when, skip, times };
      cuts = 0;
    },
    get cuts() {
      return cuts;
    },
    goDown,
    comeBack: listen,
    freeze: () => {
      for (const sockets of pairs) for (const socket of sockets) socket.pause();
    },
    close: goDown,
  };
}
