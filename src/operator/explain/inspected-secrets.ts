import { retryWindowMs, type Source } from '../../core/options/resolve-source.js';
import type { SecretUse } from '../../core/telemetry/tally.js';
import { fingerprint } from '../../inbox/delivery.verifier.js';
import { secretVerdict, type SecretVerdict } from './secret-verdict.js';

/** A secret by its fingerprint, and whether it can go. */
export interface InspectedSecret extends SecretVerdict {
  /** In the order of the configuration, from 1; null for one that is not configured, or that a function gave. */
  readonly position: number | null;
  /** The source's own name for it (`secretHints`). */
  readonly hint: string | null;
  readonly fingerprint: string;
  /** False: no longer configured here. Null: a function gives the secrets, so this is unknown. */
  readonly configured: boolean | null;
  readonly deliveries: number;
  readonly lastAt: Date | null;
}

/** The configured secrets of a source in their order, then those that have verified something and are configured no more. */
export function inspectedSecrets(
  source: Source,
  all: readonly SecretUse[],
  now = new Date(),
): InspectedSecret[] {
  const uses = new Map(all.filter((use) => use.source === source.name).map((use) => [use.fingerprint, use]));
  const configured = typeof source.secrets === 'function' ? null : source.secrets.map(fingerprint);
  const latest = Math.max(0, ...[...uses.values()].map((use) => use.lastAt.getTime()));
  return [...new Set([...(configured ?? []), ...uses.keys()])].map((one) => {
    const use = uses.get(one);
    const at = configured?.indexOf(one) ?? -1;
    const facts = {
      configured: configured === null ? null : at >= 0,
      lastAt: use?.lastAt ?? null,
      isLatest: use?.lastAt.getTime() === latest,
      windowMs: retryWindowMs(source.provider),
      isAssumed: source.provider.retries.windowMs === undefined,
    };
    return {
      fingerprint: one,
      position: at < 0 ? null : at + 1,
      hint: source.secretHints[at] ?? null,
      configured: facts.configured,
      deliveries: use?.deliveries ?? 0,
      lastAt: facts.lastAt,
      ...secretVerdict(facts, now),
    };
  });
}
