import { types } from 'node:util';
import type { EnqueueOptions } from '../../core/context.js';
import { WebhookInboxError } from '../../core/errors.js';

const MAX_KEY_BYTES = 255;
const MAX_DELAY_MS = 100 * 365 * 86_400_000;
const LATEST = Date.UTC(9999, 11, 31);

/**
 * Refuses what PostgreSQL would refuse, before it is asked: a statement that fails aborts the caller's transaction.
 * @throws WebhookInboxError ENQUEUE_REFUSED
 */
export function checkEnqueue(effect: string, { key, delayMs, runAt }: EnqueueOptions): void {
  const refuse = (received: string, remedy: string) =>
    new WebhookInboxError('ENQUEUE_REFUSED', `Effect '${effect}' was enqueued with ${received}: ${remedy}`);
  if (key != null && (typeof key !== 'string' || key.includes('\0')))
    throw refuse(`a key that is no text, or holds NUL (a ${typeof key})`, 'give an id as text');
  const bytes = Buffer.byteLength(key ?? '');
  if (bytes > MAX_KEY_BYTES)
    throw refuse(`a key of ${bytes} bytes, and at most ${MAX_KEY_BYTES} are kept`, 'give an id, or a hash');
  if (delayMs != null && !(typeof delayMs === 'number' && delayMs >= 0 && delayMs <= MAX_DELAY_MS))
    throw refuse(
      `delayMs ${String(delayMs)}`,
      `expected milliseconds from 0 to ${MAX_DELAY_MS}; leave it out to run at once`,
    );
  if (runAt != null && !isTime(runAt))
    throw refuse(
      `runAt ${String(runAt)}`,
      'expected a valid Date of the years 1970 to 9999; leave it out to run at once',
    );
}

function isTime(value: unknown): boolean {
  return types.isDate(value) && value.getTime() >= 0 && value.getTime() <= LATEST;
}
