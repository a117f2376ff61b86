import { WebhookInboxError } from './errors.js';

/** The call of the application's code that `around` wraps. */
export interface RunInfo {
  /** `batch`: a handler with `batch`; the event is then the first of `events`. */
  readonly kind: 'handler' | 'batch' | 'effect' | 'probe' | 'complete' | 'hydrate';
  /** The full name of the handler (`source/name`), or that of the effect. */
  readonly name: string;
  readonly outboxId: string;
  readonly attempt: number;
  /** Undefined for an effect that no event has led to. */
  readonly source?: string;
  readonly tenant?: string;
  readonly eventId?: string;
  /** How many events a batch has; 1 for all others. */
  readonly events: number;
  /**
   * A delivery waits for it: it runs in the async context of the delivery's own request. All other work starts in a neutral one,
   * without a request.
   */
  readonly inDelivery: boolean;
}

/**
 * Opens contexts of the application around its own code: `around: (run, info) => cls.run(() => { cls.set('tenant', info.tenant); return
 * run(); })`. It calls `run` once and awaits it.
 */
export type Around = (run: () => Promise<unknown>, info: RunInfo) => unknown;

/** @throws the error of `code` or of `around`; WebhookInboxError when `around` did not call `run` */
export function runAround<T>(around: Around | undefined, info: RunInfo, code: () => Promise<T>): Promise<T> {
  return around === undefined ? code() : runWithin(around, info, code);
}

async function runWithin<T>(around: Around, info: RunInfo, code: () => Promise<T>): Promise<T> {
  let running: Promise<T> | undefined;
  // A second call would do the work twice.
  const run = () => (running ??= code());
  try {
    await around(run, info);
  } finally {
    // Unhandled, a failure that `around` has not waited for would end the process.
    running?.catch(() => undefined);
  }
  // Checked only here: an `around` that does not wait for `run` must not have it committed half done.
  if (running !== undefined) return running;
  throw new WebhookInboxError(
    'CONFIGURATION',
    `\`around\` ended without a call of \`run\`, so ${info.name} was not run: call \`run\` once, and await it`,
  );
}
