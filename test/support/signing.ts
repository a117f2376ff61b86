import { createHmac } from 'node:crypto';

export const AWARDEE_SECRET = 'awardee-test-key-0123456789abcdef';
export const SESMETRIC_SECRET = 'sesmetric-test-key-0123456789abcdef';
export const STRIPE_SECRET = 'whsec_stripeTestKey0123456789abcdef';
export const GITHUB_SECRET = 'github-test-key-0123456789abcdef';

export const signature = (
  key: string,
  text: string | Buffer,
  algorithm = 'sha256',
  encoding: 'hex' | 'base64' = 'hex',
) => createHmac(algorithm, key).update(text).digest(encoding);

const hex = (key: string, text: string | Buffer) => signature(key, text);

/** Text and bytes are sent as they are, anything else as JSON. */
const bytes = (payload: unknown): Buffer =>
  Buffer.isBuffer(payload)
    ? payload
    : Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload));

export interface SignedRequest {
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

/** As in part A of the requirements: the body is signed, id and type are headers. */
export function awardee(id: string, type: string, payload: unknown): SignedRequest {
  const body = bytes(payload);
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'X-Awardee-Delivery': id,
      'X-Awardee-Event': type,
      'X-Awardee-Signature': hex(AWARDEE_SECRET, body),
    },
  };
}

/** As in part B: `timestamp.body` is signed, id and type are in the body. */
export function sesmetric(payload: unknown, timestamp = Math.floor(Date.now() / 1000)): SignedRequest {
  const body = bytes(payload);
  const signed = Buffer.concat([Buffer.from(`${timestamp}.`), body]);
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'X-SESMetric-Timestamp': String(timestamp),
      'X-SESMetric-Signature': hex(SESMETRIC_SECRET, signed),
    },
  };
}

export function stripeEvent(
  id: string,
  type: string,
  object: unknown = {},
  timestamp = Math.floor(Date.now() / 1000),
): SignedRequest {
  const body = Buffer.from(
    JSON.stringify({ id, object: 'event', type, created: timestamp, data: { object } }),
  );
  const signed = Buffer.concat([Buffer.from(`${timestamp}.`), body]);
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'Stripe-Signature': `t=${timestamp},v1=${hex(STRIPE_SECRET, signed)}`,
    },
  };
}

export function githubEvent(id: string, event: string, payload: unknown): SignedRequest {
  const body = bytes(payload);
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'X-GitHub-Delivery': id,
      'X-GitHub-Event': event,
      'X-Hub-Signature-256': `sha256=${hex(GITHUB_SECRET, body)}`,
    },
  };
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

export async function post(
  origin: string,
  path: string,
  request: SignedRequest,
  method = 'POST',
): Promise<Reply> {
  const response = await fetch(`${origin}${path}`, {
    method,
    headers: request.headers,
    body: new Uint8Array(request.body),
  });
  const text = await response.text();
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // Not every answer is JSON.
  }
  return { status: response.status, body, headers: response.headers };
}
