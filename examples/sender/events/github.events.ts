import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import type { SentEvent } from '../sent.event.js';

interface Definition {
  readonly name: string;
  readonly examples: readonly unknown[];
}

/** Every payload of `@octokit/webhooks-examples`, under new delivery ids. */
export function githubEvents(): SentEvent[] {
  const definitions = createRequire(import.meta.url)('@octokit/webhooks-examples') as Definition[];
  return definitions.flatMap(({ name, examples }) =>
    examples.map((example) => ({
      source: 'github' as const,
      id: randomUUID(),
      type: name,
      body: Buffer.from(JSON.stringify(example)),
    })),
  );
}
