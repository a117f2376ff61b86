import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Client } from 'pg';

const READY = 0x5a;
const IDLE = 0x49;

/** A server connection, lent to one client for a transaction at a time. */
interface Backend {
  readonly socket: Socket;
  /** Bytes of a message that has not arrived as a whole. */
  rest: Buffer;
  client?: Socket;
}

/**
 * What pgbouncer does in transaction mode, for tests: clients share few server connections, each lent from a client's first message
 * to the ReadyForQuery outside a transaction. What a server connection says while nobody has it, notifications above all, is lost.
 */
export class TransactionPooler {
  private readonly free: Backend[] = [];
  private readonly waiting: { client: Socket; bytes: Buffer }[] = [];
  private readonly lent = new Map<Socket, Backend>();
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    private readonly databaseUrl: string,
  ) {}

  static async start(databaseUrl: string, size = 3): Promise<TransactionPooler> {
    // pg does the authentication; afterwards its sockets are ours.
    const backends = Array.from({ length: size }, () => new Client({ connectionString: databaseUrl }));
    for (const backend of backends) {
      backend.on('error', () => undefined);
      await backend.connect();
    }
    const server = createServer();
    const pooler = new TransactionPooler(server, databaseUrl);
    for (const backend of backends) pooler.adopt(socketOf(backend));
    server.on('connection', (client) => pooler.greet(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return pooler;
  }

  get url(): string {
    const url = new URL(this.databaseUrl);
    url.port = String((this.server.address() as AddressInfo).port);
    return url.href;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private adopt(socket: Socket): void {
    const backend: Backend = { socket, rest: Buffer.alloc(0) };
    socket.removeAllListeners('data');
    socket.on('data', (bytes: Buffer) => this.fromServer(backend, bytes));
    this.sockets.add(socket);
    this.free.push(backend);
  }

  private greet(client: Socket): void {
    this.sockets.add(client);
    client.on('error', () => undefined);
    client.once('data', () => {
      // AuthenticationOk, a parameter that pg looks at, ReadyForQuery: the client's start-up message is believed.
      client.write(
        Buffer.from('R\0\0\0\x08\0\0\0\0S\0\0\0\x19client_encoding\0UTF8\0Z\0\0\0\x05I', 'latin1'),
      );
      client.on('data', (bytes: Buffer) => this.fromClient(client, bytes));
    });
  }

  private fromClient(client: Socket, bytes: Buffer): void {
    if (bytes[0] === 0x58) return void client.end();
    const backend = this.lent.get(client) ?? this.free.shift();
    if (backend === undefined) return void this.waiting.push({ client, bytes });
    backend.client = client;
    this.lent.set(client, backend);
    backend.socket.write(bytes);
  }

  private fromServer(backend: Backend, bytes: Buffer): void {
    const { client } = backend;
    client?.write(bytes);
    backend.rest = Buffer.concat([backend.rest, bytes]);
    while (backend.rest.length >= 5) {
      const length = 1 + backend.rest.readInt32BE(1);
      if (backend.rest.length < length) return;
      const over = backend.rest[0] === READY && backend.rest[5] === IDLE;
      backend.rest = backend.rest.subarray(length);
      if (over && client !== undefined) this.takeBack(client, backend);
    }
  }

  private takeBack(client: Socket, backend: Backend): void {
    backend.client = undefined;
    this.lent.delete(client);
    // To the end of the queue, so that a client seldom gets the same server connection twice.
    this.free.push(backend);
    const next = this.waiting.shift();
    if (next !== undefined) this.fromClient(next.client, next.bytes);
  }
}

function socketOf(client: Client): Socket {
  return (client as Client & { readonly connection: { readonly stream: Socket } }).connection.stream;
}
