import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A TCP proxy in front of PostgreSQL that cuts connections at chosen moments, or takes none. */
export interface CuttingProxy {
  /** The database's URL by way of the proxy. */
  readonly url: string;
  /**
   * Cuts a connection at a statement that is exactly `sql`, or ends with it, prepared or not: before the server got it, or after it has acted on it and before its
   * answer is passed on. `skip` of them are let through first, then `times` are cut.
   */
  cutAt(sql: string, when: 'before' | 'after', options?: { skip?: number; times?: number }): void;
  /** How many connections have been cut at the statement. */
  readonly cuts: number;
  /** The next connection is ended by an administrator in the moment it is made: the farewell comes with the greeting. */
  endNextAtGreeting(): void;
  /** Passes an error on at once, and what the server says of the transaction behind it 20 ms later, as a slow network may. */
  delayStateAfterErrors(): void;
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
  let armed: { sql: string; when: 'before' | 'after'; skip: number; times: number } | undefined;
  let cuts = 0;
  let endAtGreeting = false;
  let delaysState = false;
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
    const statements = statementReader();
    client.on('data', (chunk: Buffer) => {
      const sent = statements(chunk);
      const isMet = armed !== undefined && sent.some((sql) => sql.endsWith(armed!.sql));
      if (armed !== undefined && armed.times > 0 && isMet && armed.skip-- <= 0) {
        armed.times -= 1;
        cuts += 1;
        if (armed.when === 'before') return cut(pair);
        cutAtAnswer = true;
      }
      upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => {
      if (cutAtAnswer) return cut(pair);
      if (delaysState && chunk.subarray(-FAILED.length).equals(FAILED)) {
        client.write(chunk.subarray(0, -FAILED.length));
        setTimeout(() => client.write(FAILED), STATE_DELAY_MS);
        return;
      }
      if (!endAtGreeting || !chunk.includes(READY)) return client.write(chunk);
      endAtGreeting = false;
      client.end(Buffer.concat([chunk, FAREWELL]));
      upstream.destroy();
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
      armed = { sql, when, skip, times };
      cuts = 0;
    },
    get cuts() {
      return cuts;
    },
    endNextAtGreeting: () => {
      endAtGreeting = true;
    },
    delayStateAfterErrors: () => {
      delaysState = true;
    },
    goDown,
    comeBack: listen,
    freeze: () => {
      for (const sockets of pairs) for (const socket of sockets) socket.pause();
    },
    close: goDown,
  };
}

/** Reads what a client sends: for each part of the stream, the statements that are run with it. */
function statementReader(): (chunk: Buffer) => string[] {
  const prepared = new Map<string, string>();
  let rest = Buffer.alloc(0);
  let started = false;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const run: string[] = [];
    for (;;) {
      // The first message has no type.
      const head = started ? 1 : 0;
      if (rest.length < head + 4) return run;
      const end = head + rest.readUInt32BE(head);
      if (rest.length < end) return run;
      const type = started ? String.fromCharCode(rest[0]!) : '';
      const [first = '', second = ''] = rest.toString('utf8', head + 4, end).split('\0');
      if (type === 'Q') run.push(first);
      if (type === 'P') prepared.set(first, second);
      if (type === 'B') run.push(prepared.get(second) ?? '');
      started = true;
      rest = rest.subarray(end);
    }
  };
}

/** ReadyForQuery, idle. */
const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);
/** ReadyForQuery, in a transaction that has failed. */
const FAILED = Buffer.from([0x5a, 0, 0, 0, 5, 0x45]);
const STATE_DELAY_MS = 20;
const FAREWELL = errorResponse({
  S: 'FATAL',
  V: 'FATAL',
  C: '57P01',
  M: 'terminating connection due to administrator command',
});

function errorResponse(fields: Record<string, string>): Buffer {
  const text = Object.entries(fields).map(([code, value]) => `${code}${value}\0`);
  const body = Buffer.from(`${text.join('')}\0`);
  const head = Buffer.from([0x45, 0, 0, 0, 0]);
  head.writeUInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
