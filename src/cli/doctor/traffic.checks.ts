import { closest, distance } from 'fastest-levenshtein';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import { Inspector } from '../../operator/inspector.js';
import { SILENT_MS } from '../../operator/stats.js';
import { DoctorStore, type ArrivedType } from '../../storage/desk/doctor.store.js';
import { RelayStore } from '../../storage/desk/relay.store.js';
import { span } from '../terminal/table.js';
import { error, hint, warning, type Check, type Finding, type Patient } from './finding.js';

/** A name this near is taken for a slip. */
const MAX_EDITS = 3;
/** Rows of an unknown name: a deploy takes its time. */
const UNKNOWN_MS = 10 * 60_000;
const OVERDUE_MS = 5 * 60_000;

/** Types that come and that no handler takes, and handlers whose types never came: often one slip, seen from both sides. */
export const typesCheck: Check = {
  name: 'types',
  run: async (patient) => {
    const registry = patient.app.get(HandlerRegistry, { strict: false });
    const findings: Finding[] = [];
    for (const source of patient.options.sources.keys()) {
      const arrived = await arrivedTypes(patient, source);
      const handlers = registry.handlersOf(source);
      const handled = handlers.flatMap(({ types }) => types);
      if (registry.routesOf(source).length > 0) continue;
      findings.push(
        ...unhandled(source, arrived, handled, registry),
        ...silent(source, arrived, handlers, registry),
      );
    }
    return findings;
  },
};

function arrivedTypes({ app, read }: Patient, source: string): Promise<ArrivedType[]> {
  return read((manager) => app.get(DoctorStore, { strict: false }).arrivedTypes(manager, source));
}

function unhandled(
  source: string,
  arrived: readonly ArrivedType[],
  handled: readonly string[],
  registry: HandlerRegistry,
): Finding[] {
  return arrived
    .filter(({ type }) => registry.match(source, type).length === 0)
    .map(({ type, events, lastAt }) => {
      const near = nearest(type, handled);
      const text = `'${type}' of source '${source}' came ${events} times, last at ${lastAt.toISOString()}, and no handler takes it`;
      return near === undefined
        ? hint(text, 'write a handler, or have the provider send it no longer')
        : warning(
            `${text}; a handler takes '${near}'`,
            `correct the type in @OnWebhook('${source}', '${type}'), then replay`,
          );
    });
}

function silent(
  source: string,
  arrived: readonly ArrivedType[],
  handlers: readonly Handler[],
  registry: HandlerRegistry,
): Finding[] {
  return handlers
    .filter((handler) => !arrived.some(({ type }) => registry.takes(handler, type)))
    .map(({ name, types }) => {
      const near = types
        .map((type) =>
          nearest(
            type,
            arrived.map((one) => one.type),
          ),
        )
        .find((one) => one !== undefined);
      const text = `no event has come for ${name} (${types.join(', ')}) among the newest of '${source}'`;
      return near === undefined
        ? hint(text, 'subscribe to the type at the provider, if the handler is still wanted')
        : warning(
            `${text}; '${near}' came`,
            `correct the type in @OnWebhook('${source}', …), or the subscription at the provider`,
          );
    });
}

function nearest(type: string, known: readonly string[]): string | undefined {
  const exact = known.filter((one) => !one.includes('*'));
  if (exact.length === 0) return undefined;
  const near = closest(type, exact);
  const edits = distance(type, near);
  return edits > 0 && edits <= MAX_EDITS && edits < type.length / 3 ? near : undefined;
}

/** Rows without code that runs them, and sources that are not configured. */
export const leftoversCheck: Check = {
  name: 'leftovers',
  run: async ({ app, read }) => {
    const relays = app.get(RelayStore, { strict: false });
    const registry = app.get(HandlerRegistry, { strict: false });
    const known = new Set(registry.names());
    const unknown = await read((manager) => relays.unknownNames(manager, UNKNOWN_MS, SILENT_MS));
    const former = await app.get(Inspector, { strict: false }).formerSources();
    return [
      ...unknown
        .filter(({ name }) => !known.has(name))
        .map(({ name, rows }) =>
          error(
            `${rows} rows wait for '${name}', and no running instance has that handler or effect`,
            `name it in \`was\` of the handler that has taken its place, or give them up`,
          ),
        ),
      ...former.map((source) =>
        warning(
          `events of source '${source}' are stored, and no instance has configured it`,
          `configure it again, or leave it: they are deleted after retention.formerSources`,
        ),
      ),
    ];
  },
};

export const relayCheck: Check = {
  name: 'relay',
  run: async ({ app }) => {
    const { instances, overdue } = await app.get(Inspector, { strict: false }).relays();
    const alive = instances.filter((one) => one.alive);
    const late = overdue.find(({ ageMs }) => ageMs > OVERDUE_MS);
    const waits = late === undefined ? '' : `; '${late.name}' has been due for ${span(late.ageMs)}`;
    if (alive.some((one) => one.relays))
      return late === undefined
        ? []
        : [
            warning(
              `the relays lag behind${waits}`,
              'start more instances, raise relay.handlers or relay.effects, or look for slow handlers',
            ),
          ];
    const text =
      alive.length === 0 ? 'no instance has given a sign of life' : 'every running instance has relay: false';
    const level = late === undefined ? warning : error;
    return [level(`${text}: nothing runs what is owed${waits}`, 'start an instance without relay: false')];
  },
};
