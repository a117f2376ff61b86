import type { ModulesContainer } from '@nestjs/core';
import { ConfigurationError } from './core/errors.js';
import type { ResolvedOptions } from './core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from './core/tokens.js';

/**
 * Two imports with options of their own are two modules to Nest, each with relay, timers and routes, and each knows only its own sources.
 * The same dynamic module imported in several places is one, and is fine.
 * @param modules those of one application; another in the same process has its own
 * @throws ConfigurationError
 */
export function refuseSecondImport(modules: ModulesContainer, moduleClass: object): void {
  const imports = [...modules.values()].filter(({ metatype }) => metatype === moduleClass);
  if (imports.length < 2) return;
  const received = imports.map(({ providers }) => {
    const options = providers.get(WEBHOOKS_OPTIONS)?.instance as ResolvedOptions | undefined;
    if (options === undefined) return 'one without forRoot';
    return `one with ${[...options.sources.keys()].map((name) => `'${name}'`).join(', ') || 'no sources'}`;
  });
  throw new ConfigurationError(
    `WebhooksModule is imported more than once: expected once in an application, by forRoot or forRootAsync in the root module, with ` +
      `all its sources; received ${received.join(' and ')}. It is global: a module of handlers does not import it, and lists their ` +
      `classes among its providers`,
  );
}
