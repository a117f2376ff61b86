import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/** The port that is asked for when it is free, else any other that is; on loopback. */
export async function freePort(preferred = 0): Promise<number> {
  const server = createServer();
  server.listen(preferred, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch (error) {
    if (preferred === 0) throw error;
    return freePort();
  }
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
