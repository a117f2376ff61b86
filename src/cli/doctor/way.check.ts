import { RawBodyInstaller } from '../../http/body/raw-body.installer.js';
import { wayOf } from '../../storage/postgres/transaction-way.js';
import { hint, type Check } from './finding.js';

/**
 * Parts of the application that stand on the direct route. Parts that main.ts adds (app.useGlobalGuards, app.use) are not in the root
 * module, and are not found here.
 */
export const wayCheck: Check = {
  name: 'ways',
  run: async ({ app, dataSource, options }) => {
    const { claimsAreTypeorms, why } = wayOf(dataSource);
    const obstacles = app.get(RawBodyInstaller, { strict: false }).obstacles();
    return [
      ...(claimsAreTypeorms
        ? [
            hint(
              `claims are made in TypeORM's own transactions, which costs round trips: ${why}`,
              "keep it if the application needs it; otherwise remove it, or set claims: 'message'",
            ),
          ]
        : []),
      ...(options.sources.size === 0 || obstacles.length === 0
        ? []
        : [
            hint(
              `webhooks go through the application's pipeline, which is slower: ${obstacles.join('; ')}`,
              'keep it if webhooks need it; otherwise bind it to its routes, instead of globally',
            ),
          ]),
    ];
  },
};
