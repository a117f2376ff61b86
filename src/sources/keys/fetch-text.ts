/** Longest answer that is read, in bytes: certificates and keys are a few kilobytes. */
const MAX_BYTES = 65_536;
/** How long a fetch may take, in milliseconds. */
const TIMEOUT_MS = 5_000;

/** A function like the global `fetch`. */
export type Fetch = typeof globalThis.fetch;

/** Another answer than 200. */
export class AnsweredOtherwise extends Error {
  constructor(
    url: string,
    readonly status: number,
    /** The text of the answer, as far as it is read. */
    readonly text: string,
  ) {
    super(`${url} answered ${status}`);
  }

  /** The answer is permanent: the file does not exist. Any other status than 200 may be temporary. */
  get isForGood(): boolean {
    return this.status === 404 || this.status === 410;
  }
}

/**
 * The text of a 200 answer. Redirects are errors, since they could lead to any host; size and time are bounded.
 * @throws AnsweredOtherwise, Error
 */
export async function fetchText(fetch: Fetch, url: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(url, { ...init, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) });
  if (response.status === 200) return readBounded(response);
  throw new AnsweredOtherwise(url, response.status, await readBounded(response).catch(() => ''));
}

async function readBounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error(`the answer is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
