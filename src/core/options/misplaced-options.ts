import { ConfigurationError } from '../errors.js';

const STATIC = 'Nest needs it before the factory runs: give it next to `useFactory`, not in its result';
/** Options that are often given in the wrong place. `forRoot` has taken its own `controller` and `dataSource` out. */
const MISPLACED: Readonly<Record<string, string>> = {
  path: "the path of the module's own route is `controller: { path }`",
  controller: STATIC,
  dataSource: STATIC,
};

/** @throws ConfigurationError */
export function refuseMisplaced(options: object | undefined): void {
  for (const name of Object.keys(options ?? {})) {
    if (Object.hasOwn(MISPLACED, name))
      throw new ConfigurationError(`WebhooksModule options: unknown option '${name}'; ${MISPLACED[name]!}`);
  }
}
