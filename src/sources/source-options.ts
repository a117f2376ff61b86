import type { Secrets, SourceDefinition, SourcePolicies } from '../core/options/source.js';
import type { DedupeKey } from './events/dedupe-key.js';

/** Options of every source, besides those of its provider. */
export interface SourceOptions extends SourcePolicies {
  /** Live secrets, as the vendor shows them; every one is tried. Keep the old one beside the new one while rotating. */
  readonly secrets: Secrets;
  /** The key that makes two deliveries the same event. @default 'preset': the key that the provider documents */
  readonly dedupe?: DedupeKey;
}

/** A provider as a function: `stripe({ secrets })`. The type argument is the payload's, so that a vendor's own types reach the handlers. */
export type SourceFactory<TOptions extends SourceOptions = SourceOptions> = <TPayload = unknown>(
  options: TOptions,
) => SourceDefinition<TPayload>;

// A record rather than a list, so that the compiler asks for each new policy.
const POLICIES: Readonly<Record<keyof SourcePolicies, true>> = {
  retries: true,
  ackTimeout: true,
  maxAttempts: true,
  concurrency: true,
  tolerance: true,
  staleDuplicates: true,
  suspectedReplays: true,
  maxBytes: true,
  encodings: true,
  retention: true,
  keepHeaders: true,
  secretHeaders: true,
  searchPaths: true,
  secretHints: true,
  classify: true,
};

/** Names of the options that are policies of the source, not the provider's. */
export const POLICY_NAMES: ReadonlySet<string> = new Set(Object.keys(POLICIES));
