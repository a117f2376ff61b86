import { cautions } from '../../core/options/cautions.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { Inspector } from '../../operator/inspector.js';
import { hint, warning, type Check } from './finding.js';

/** A claim is kept for as long as its event may come again: the boot refuses less. */
export const retentionCheck: Check = {
  name: 'retention',
  run: async ({ options }) =>
    options.retention === false
      ? [
          warning(
            'retention is off: the tables grow for ever',
            'call Retention.prune() or webhook-inbox prune by a cron of your own',
          ),
        ]
      : [],
};

export const secretsCheck: Check = {
  name: 'secrets',
  run: async ({ app, options }) => {
    const inspector = app.get(Inspector, { strict: false });
    const now = new Date();
    const found = [];
    for (const source of options.sources.keys()) {
      for (const { configured, safeFrom, verdict, hint: name, fingerprint } of await inspector.secrets(
        source,
      ))
        if (configured === true && safeFrom !== null && safeFrom <= now)
          found.push(
            hint(
              `secret ${name ?? fingerprint} of source '${source}': ${verdict}`,
              'remove it from the secrets of the source',
            ),
          );
    }
    return found;
  },
};

/** The warnings of the boot. */
export const cautionsCheck: Check = {
  name: 'cautions',
  run: async ({ app, options }) => {
    const registry = app.get(HandlerRegistry, { strict: false });
    return [...options.sources.values()].flatMap((source) => {
      const waits = registry.handlersOf(source.name).some(({ inline }) => inline);
      const routes = registry.routesOf(source.name);
      const untaken = registry.takesAny(source.name)
        ? []
        : [
            warning(
              `no handler takes the events of source '${source.name}': each is kept as skipped`,
              `list a class with @OnWebhook('${source.name}', …) among the providers of a module`,
            ),
          ];
      return [
        ...cautions(source, { waits, routes }).map((text) => warning(text, 'do as the warning says')),
        ...untaken,
      ];
    });
  },
};
