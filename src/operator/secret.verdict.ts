/** What is known of one secret of a source. */
export interface SecretFacts {
  /** False: no longer configured here. Null: a function gives the secrets, so that nobody can tell. */
  readonly configured: boolean | null;
  /** When it last verified a delivery; null for one that never has. */
  readonly lastAt: Date | null;
  /** Whether no other secret of the source has verified anything since. */
  readonly isLatest: boolean;
  /** How long the provider goes on trying, in milliseconds. */
  readonly windowMs: number;
}

export interface SecretVerdict {
  /** From then on nothing signed with it can come any more; null while that cannot be said. */
  readonly safeFrom: Date | null;
  /** A sentence for a person. */
  readonly verdict: string;
}

const UNITS = [
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
] as const;

/** Whether a secret can go: a retry of the provider's may still be signed with it for as long as the provider tries. */
export function secretVerdict(secret: SecretFacts, now: Date): SecretVerdict {
  const { configured, lastAt, isLatest, windowMs } = secret;
  if (lastAt === null)
    return { safeFrom: null, verdict: 'not used yet: keep it until the provider signs with it' };
  const used = `last used ${since(lastAt, now)}`;
  if (isLatest && configured !== false) return { safeFrom: null, verdict: `in use, ${used}: keep it` };
  const safeFrom = new Date(lastAt.getTime() + windowMs);
  const whole = `${used}, the provider retries for ${inWords(windowMs)}`;
  return { safeFrom, verdict: `${whole}: ${adviceOf(configured, safeFrom, now)}` };
}

function adviceOf(configured: boolean | null, safeFrom: Date, now: Date): string {
  const isOver = safeFrom <= now;
  if (configured === false)
    return isOver
      ? `no longer configured, and nothing that it signed is missing since ${shown(safeFrom)}`
      : `no longer configured, so that a retry that it signed is refused until ${shown(safeFrom)}`;
  return isOver ? `safe to remove since ${shown(safeFrom)}` : `safe to remove from ${shown(safeFrom)}`;
}

function since(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  return ms < 60_000 ? 'just now' : `${inWords(ms)} ago`;
}

function inWords(ms: number): string {
  const [unit, name] = UNITS.find(([size]) => ms >= size) ?? UNITS[2];
  const count = Math.round(ms / unit);
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}

/** To the minute, rounded up: never a moment too early. */
function shown(at: Date): string {
  const minute = new Date(Math.ceil(at.getTime() / 60_000) * 60_000).toISOString();
  return `${minute.slice(0, 10)} ${minute.slice(11, 16)} UTC`;
}
