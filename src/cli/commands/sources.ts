import type { Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';

export const sources: Definition<object> = {
  usage: 'sources [name]',
  about:
    "Lists sources with what they brought; with --app also each source's handlers, windows and secrets by fingerprint.",
  needs: 'tables',
  lists: true,
  run: async ({ session, out }, _options, ...args) => {
    const [name = ''] = args as unknown[] as [string?];
    const inspector = session.inspector;
    if (!session.hasApp) {
      const names = (await inspector.knownSources()).filter((one) => one.includes(name));
      const rates = await session.stats.rates(names);
      const rows = names.map((one) => ({ name: one, rates: rates.get(one)! }));
      out.answer({ sources: rows }, () =>
        out.table(
          ['SOURCE', 'HOUR', 'DAY', 'DUPLICATES', 'REJECTED', 'DEAD'],
          rows.map(({ name: one, rates: r }) => [
            one,
            r.hour,
            r.day,
            r.duplicatesDay,
            r.rejectedDay,
            r.deadDay,
          ]),
        ),
      );
      return rows.length === 0 ? EXIT.nothing : undefined;
    }
    const page = await inspector.sources(name, '', {}, Number.MAX_SAFE_INTEGER);
    const former = await inspector.formerSources();
    out.answer({ sources: page.sources, former }, () => {
      out.table(
        ['SOURCE', 'PROVIDER', 'RETRIES', 'HOUR', 'DAY', 'REJECTED', 'LAST', 'LAST TYPE', 'HANDLERS'],
        page.sources.map((one) => [
          one.name,
          one.provider,
          one.retries,
          one.rates.hour,
          one.rates.day,
          one.rates.rejectedDay,
          one.lastAt,
          one.lastType,
          one.handlers.map((handler) => handler.name.slice(one.name.length + 1)).join(', '),
        ]),
      );
      const secrets = page.sources.flatMap((one) =>
        one.secrets.map((secret) => ({ source: one.name, ...secret })),
      );
      if (secrets.length > 0) {
        out.line();
        out.table(
          ['SOURCE', 'SECRET', 'DELIVERIES', 'VERDICT'],
          secrets.map((one) => [one.source, one.hint ?? one.fingerprint, one.deliveries, one.verdict]),
        );
      }
      if (former.length > 0) {
        out.line();
        out.line(`Stored and not configured: ${former.join(', ')}`);
      }
    });
    return page.sources.length === 0 ? EXIT.nothing : undefined;
  },
};
