/** The facts about one secret of a source. */
export interface SecretFacts {
  /** False: no longer configured here. Null: a function gives the secrets, so this is unknown. */
  readonly configured: boolean | null;
  /** When it last verified a delivery; null for one that never has. */
  readonly lastAt: Date | null;
  /** Whether no other secret of the source has verified anything since. */
  readonly isLatest: boolean;
  /** How long the provider goes on trying, in milliseconds. */
  readonly windowMs: number;
  /** Whether the provider does not say so. @default false */
  readonly isAssumed?: boolean;
}

/** Whether a secret can be removed, and when. */
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
  const { configured, lastAt, isLatest, windowMs, isAssumed = false } = secret;
  if (lastAt === null)
    return { safeFrom: null, verdict: 'not used yet: keep it until the provider signs with it' };
  const used = `last used ${since(lastAt, now)}`;
  // It may be a tenant's only one, and the tenant quiet.
  if (configured === null)
    return {
      safeFrom: null,
      verdict: `${used}, given by a function: ask its owner if it can be removed`,
    };
  if (isLatest && configured) return { safeFrom: null, verdict: `in use, ${used}: keep it` };
  const safeFrom = new Date(lastAt.getTime() + windowMs);
  const retries = isAssumed ? 'the provider is assumed to retry' : 'the provider retries';
  const whole = `${used}, ${retries} for ${inWords(windowMs)}`;
  return { safeFrom, verdict: `${whole}: ${adviceOf(configured, safeFrom, now)}` };
}

/** Only the past is known: a secret of a second, quiet endpoint looks like an old one, and a refused request is counted as no use. */
function adviceOf(configured: boolean, safeFrom: Date, now: Date): string {
  const isOver = safeFrom <= now;
  const at = shown(safeFrom);
  if (!configured)
    return isOver
      ? `no longer configured; retries of its events ended at ${at}, and new requests signed with it are refused`
      : `no longer configured; requests signed with it are refused, also retries until ${at}`;
  return isOver
    ? `safe to remove since ${at}, unless another endpoint signs with it`
    : `safe to remove from ${at}, unless it is used again`;
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
