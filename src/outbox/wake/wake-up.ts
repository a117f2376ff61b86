import { Injectable } from '@nestjs/common';

/** Names of the rows that were committed; undefined when it is not known which. */
export type WokenNames = readonly string[] | undefined;
type OnWake = (names: WokenNames) => void;

/**
 * Wakes the relays after a commit: this process's at once, the others by the notifier. A wake is a hint. Polling finds the rows without it.
 */
@Injectable()
export class WakeUp {
  private listener: OnWake | undefined;
  private notifier: OnWake | undefined;

  onWake(listener: OnWake | undefined): void {
    this.listener = listener;
  }

  /** From now on `notifier` passes wakes of this process on to other processes. Undefined: nothing does. */
  notifyOthersBy(notifier: OnWake | undefined): void {
    this.notifier = notifier;
  }

  /**
   * Call it after a commit.
   * @param names of the rows that may be due by it. The relays poll for these alone. An empty list wakes none
   * @param othersNotified whether the other processes are notified already
   */
  wake(names?: WokenNames, othersNotified = false): void {
    if (names?.length === 0) return;
    this.wakeOwn(names);
    if (!othersNotified) this.notifier?.(names);
  }

  /** Another process has committed. */
  wakeOwn(names?: WokenNames): void {
    this.listener?.(names);
  }
}

/** PostgreSQL takes less than 8,000 bytes. */
const MAX_BYTES = 7_000;

/** The payload of a commit's notification: its sender, and the names of the rows. */
export function wakePayload(owner: string, names: WokenNames): string {
  const payload = JSON.stringify([owner, ...(names ?? [])]);
  return Buffer.byteLength(payload) > MAX_BYTES ? JSON.stringify([owner]) : payload;
}

/** Reads a payload. Any other text, such as that of another version, means a commit of unknown rows. */
export function readWakePayload(payload: string | undefined): {
  owner: string | undefined;
  names: WokenNames;
} {
  const [owner, ...names] = parts(payload);
  const areNames = names.length > 0 && names.every((name) => typeof name === 'string');
  return { owner: typeof owner === 'string' ? owner : payload, names: areNames ? names : undefined };
}

function parts(payload: string | undefined): unknown[] {
  try {
    const read: unknown = JSON.parse(payload ?? '');
    return Array.isArray(read) ? read : [];
  } catch {
    return [];
  }
}
