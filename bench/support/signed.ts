import { createHmac } from 'node:crypto';

export const SECRET = 'bench-secret-0123456789abcdef0123456789abcdef';
export const STRIPE_SECRET = 'whsec_0123456789abcdef0123456789abcdef';
export type Scheme = 'hmac' | 'stripe';

/** 1.5 kB, as a provider's event is; the id comes first. */
const REST = `,"type":"invoice.paid","object":"event","livemode":true,"api_version":"2026-01-01","data":{"object":{"id":"in_1","note":"${'x'.repeat(1_380)}"}}}`;

export function eventBody(id: string): string {
  return `{"id":"${id}"${REST}`;
}

export function signature(scheme: Scheme, body: string): Record<string, string> {
  if (scheme === 'hmac') {
    return { 'x-signature': createHmac('sha256', SECRET).update(body).digest('hex') };
  }
  const at = Math.floor(Date.now() / 1_000);
  const mac = createHmac('sha256', STRIPE_SECRET).update(`${at}.${body}`).digest('hex');
  return { 'stripe-signature': `t=${at},v1=${mac}` };
}
