import { didYouMean } from './did-you-mean.js';
import { headOf } from '../event.js';
import { ConfigurationError, WebhookInboxError } from '../errors.js';
import type { ResolvedOptions } from './resolve-options.js';
import type { Source } from './resolve-source.js';

/** The longest name that is shown and compared. Over HTTP a name may be any text. */
const MAX_SHOWN = 128;

/** @throws WebhookInboxError UNKNOWN_SOURCE */
export function knownSource(options: ResolvedOptions, name: string): Source {
  const source = options.sources.get(name);
  if (source !== undefined) return source;
  throw new WebhookInboxError('UNKNOWN_SOURCE', `No ${configured(options, name)}`);
}

/** @throws ConfigurationError when a decorator names a source that is not configured */
export function configuredSource(options: ResolvedOptions, name: string, at: string): Source {
  const source = options.sources.get(name);
  if (source !== undefined) return source;
  throw new ConfigurationError(`${at}: ${noSource(options, name)}`);
}

/** That there is no such source, with the one that may be meant. Lists the sources: for the log, and never for who sent the name. */
export function noSource(options: ResolvedOptions, name: string): string {
  return `no ${configured(options, name)}`;
}

function configured({ sources }: ResolvedOptions, name: unknown): string {
  // Tests give anything.
  const text = String(name);
  const shown = text.length > MAX_SHOWN ? `${headOf(text, MAX_SHOWN - 1)}…` : text;
  const hint = didYouMean(shown, [...sources.keys()]);
  return `source '${shown}' is configured${hint || '; add it to the sources of WebhooksModule'}`;
}
