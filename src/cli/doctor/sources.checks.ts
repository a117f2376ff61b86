import { cautions } from '../../core/options/cautions.js';
import { retryWindowMs } from '../../core/options/resolve-source.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { Inspector } from '../../operator/inspector.js';
import { span } from '../terminal/table.js';
import { error, hint, warning, type Check } from './finding.js';

/** A redelivery that comes after its claim was deleted is handled again. */
export const retentionCheck: Check = {
  name: 'retention',
  run: async ({ options }) => {
    const short = [...options.sources.values()].filter(
      ({ provider, retentionMs }) => retentionMs < longestMs(provider),
    );
    return [
      ...short.map(({ name, provider, retentionMs }) =>
        error(
          `source '${name}' keeps claims for ${span(retentionMs)}, and ${provider.name} may send an event again for ${span(longestMs(provider))}`,
          `raise retention of the source: once its claim is deleted, a redelivered event is handled again`,
        ),
      ),
      ...(options.retention === false
        ? [
            warning(
              'retention is off: the tables grow for ever',
              'call Retention.prune() or webhook-inbox prune by a cron of your own',
            ),
          ]
        : []),
    ];
  },
};

type RetriesOf = Parameters<typeof retryWindowMs>[0];

function longestMs(provider: RetriesOf): number {
  return Math.max(retryWindowMs(provider), provider.retries.manualResendMs ?? 0);
}

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

/** What the boot warns of. */
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
