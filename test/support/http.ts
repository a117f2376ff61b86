import { request as httpRequest } from 'node:http';

/** A request down to its header lines: `fetch` joins repeats and sets some of its own. */
export interface RawRequest {
  readonly method?: string;
  readonly path: string;
  /** A list keeps repeated names. */
  readonly headers?: Readonly<Record<string, string>> | readonly (readonly [string, string])[];
  readonly body?: Buffer | string;
  /** Sent in chunks of this many bytes, without a content-length. */
  readonly chunked?: number;
}

export interface RawReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Sends a request on a connection of its own, and reads the whole answer. */
export function send(origin: string, { method = 'POST', path, headers = {}, body, chunked }: RawRequest) {
  const bytes = Buffer.from(body ?? '');
  const lines = Array.isArray(headers) ? headers : Object.entries(headers);
  const length: [string, string][] =
    chunked === undefined ? [['content-length', String(bytes.length)]] : [['transfer-encoding', 'chunked']];
  const { host, hostname, port } = new URL(origin);
  const named = lines.some(([name]) => name.toLowerCase() === 'host');
  return new Promise<RawReply>((resolve, reject) => {
    const sent = httpRequest({
      hostname,
      port,
      path,
      method,
      agent: false,
      headers: [...(named ? [] : [['host', host]]), ...lines, ...length].flat() as never,
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text: Buffer.concat(parts).toString('utf8'),
        }),
      );
    });
    if (chunked === undefined) {
      sent.end(bytes);
      return;
    }
    for (let at = 0; at < bytes.length; at += chunked) sent.write(bytes.subarray(at, at + chunked));
    sent.end();
  });
}
