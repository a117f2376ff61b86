import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import type { Server } from './server.js';

/** The server as from another machine: each message takes `ms` more, each way. */
export async function awayBy(ms: number, server: Server): Promise<Server> {
  let target: URL | undefined;
  const proxy = createServer((client) => {
    const upstream = connect(Number(target!.port), target!.hostname);
    passLate(client, upstream, ms);
    passLate(upstream, client, ms);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    ...server,
    database: async (name) => {
      target = new URL(await server.database(name));
      const url = new URL(target);
      url.port = String((proxy.address() as AddressInfo).port);
      return url.href;
    },
  };
}

function passLate(from: Socket, to: Socket, ms: number): void {
  from.setNoDelay(true);
  from.on('data', (chunk) => setTimeout(() => to.write(chunk), ms));
  from.on('error', () => undefined);
  from.on('close', () => setTimeout(() => to.destroy(), ms));
}
