import { useEffect, useState } from 'preact/hooks';

/** The zone in which times are shown and in which `after:` and `before:` are read. */
export type Zone = 'utc' | 'local';

const KEY = 'webhooks-desk-zone';
const listeners = new Set<() => void>();
let zone: Zone = remembered();

/** Storage may be forbidden to the page: the choice then lasts as long as the page. */
function remembered(): Zone {
  try {
    return localStorage.getItem(KEY) === 'utc' ? 'utc' : 'local';
  } catch {
    return 'local';
  }
}

export function chooseZone(next: Zone): void {
  zone = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // See remembered.
  }
  for (const listener of listeners) listener();
}

/** The name that the server reads times by. */
export function zoneName(): string {
  return zone === 'utc' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Minutes by which the zone is ahead of UTC at a moment. */
export function offsetMinutes(at: Date): number {
  return zone === 'utc' ? 0 : -at.getTimezoneOffset();
}

export function useZone(): Zone {
  const [current, setCurrent] = useState(zone);
  useEffect(() => {
    const changed = () => setCurrent(zone);
    changed();
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  return current;
}
