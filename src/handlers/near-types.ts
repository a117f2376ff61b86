import { nearMiss } from '../core/options/did-you-mean.js';
import type { Provider } from '../core/provider.js';
import { typeMatches, type Handler } from './handler.registry.js';

/** Warnings for types that a provider does not send, and that are nearly one of its own. Their handlers never run. */
export function nearTypes(
  { name, types: known = [] }: Pick<Provider, 'name' | 'types'>,
  handlers: readonly Pick<Handler, 'origin' | 'types'>[],
): string[] {
  return handlers.flatMap(({ origin, types }) =>
    types.flatMap((type) => {
      const meant = meantBy(type, known);
      if (meant === undefined) return [];
      return (
        `${origin.at}: ${name} has no event type '${type}' that this version knows; did you mean '${meant}'? ` +
        'A handler of a wrong type never runs. Keep a type that is newer than this version'
      );
    }),
  );
}

function meantBy(type: string, known: readonly string[]): string | undefined {
  if (known.some((one) => typeMatches(type, one))) return undefined;
  if (!type.includes('*')) return nearMiss(type, known) ?? withoutAction(type, known);
  // Only the beginning of a pattern is compared: 'invoices.*'.
  const beginning = nearMiss(type.slice(0, -1), beginnings(known));
  return type.endsWith('*') && beginning !== undefined ? `${beginning}*` : undefined;
}

/** GitHub has the type in a header and the action in the body: 'pull_request.opened' is a name of its documentation alone. */
function withoutAction(type: string, known: readonly string[]): string | undefined {
  return known.find((one) => type.startsWith(`${one}.`));
}

/** Each part of a type up to a separator: 'customer.' and 'customer.source.'. */
function beginnings(known: readonly string[]): string[] {
  const parts = known.flatMap((type) =>
    [...type.matchAll(/[./_]/g)].map(({ index }) => type.slice(0, index + 1)),
  );
  return [...new Set(parts)];
}
