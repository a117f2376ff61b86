import { useEffect, useState } from 'preact/hooks';

const TICK_MS = 1_000;
const listeners = new Set<() => void>();

// One timer for every age on the page.
setInterval(() => {
  if (document.visibilityState === 'visible') for (const listener of listeners) listener();
}, TICK_MS);

/** The time, in milliseconds since 1970; told anew every second. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = () => setNow(Date.now());
    listeners.add(tick);
    return () => void listeners.delete(tick);
  }, []);
  return now;
}
