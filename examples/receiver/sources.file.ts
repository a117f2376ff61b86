import { readFileSync } from 'node:fs';
import { closest } from 'fastest-levenshtein';
import { z } from 'zod';
import { ConfigurationError, providersByName, type WebhooksOptions } from '../../src/index.js';

const fileSchema = z.record(
  z.string(),
  z.looseObject({
    provider: z.string('expected the name of a provider'),
    // Some providers call them otherwise, and say so when they are missing.
    secrets: z.array(z.string('expected text'), 'expected an array of secrets').optional(),
  }),
  'expected an object of sources',
);

type Entry = z.infer<typeof fileSchema>[string];

/**
 * Sources from a JSON file: `{ "billing": { "provider": "stripe", "secrets": ["whsec_…"], "tolerance": "2m" } }`.
 * @throws ConfigurationError naming the file, the source and the remedy
 */
export function sourcesFromFile(path: string): WebhooksOptions['sources'] {
  const parsed = fileSchema.safeParse(readJson(path));
  if (!parsed.success) {
    const lines = parsed.error.issues.map(({ path: at, message }) => [...at, message].join(': '));
    throw new ConfigurationError(lines.map((line) => `WEBHOOK_SOURCES_FILE ${path}: ${line}`).join('\n'));
  }
  return Object.fromEntries(
    Object.entries(parsed.data).map(([name, entry]) => [name, sourceOf(entry, `${path}: ${name}`)]),
  );
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown;
  } catch (error) {
    throw new ConfigurationError(
      `WEBHOOK_SOURCES_FILE ${path}: expected a JSON file: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function sourceOf({ provider, ...options }: Entry, where: string): WebhooksOptions['sources'][string] {
  const factory = providersByName.get(provider);
  if (factory === undefined) {
    const hint = closest(provider, [...providersByName.keys()]);
    throw new ConfigurationError(
      `WEBHOOK_SOURCES_FILE ${where}: unknown provider '${provider}'; did you mean '${hint}'?`,
    );
  }
  try {
    return factory(options);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(`WEBHOOK_SOURCES_FILE ${where}: ${error.message}`, { cause: error });
  }
}
