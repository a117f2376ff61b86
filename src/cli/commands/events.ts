import { Option } from 'commander';
import { UUID } from '../../core/cursor.js';
import type { InspectedEvent } from '../../operator/inspector.js';
import type { ListedEvent } from '../../storage/desk/event.sql.js';
import { fromPrimary } from '../../storage/postgres/replica.js';
import { count, deciderOf, type Definition, type DeedOptions } from '../command.js';
import type { Session } from '../session/session.js';
import { Ended, EXIT, UsageError } from '../terminal/exit.js';
import type { Output } from '../terminal/output.js';
import { printable, span, type Cell } from '../terminal/table.js';

export const events: Definition<{ readonly limit: number; readonly after?: string }> = {
  usage: 'events [filter...]',
  about:
    "Lists events, newest first: webhook-inbox events source:stripe state:dead after:2h. Write '--' before a filter that begins with '-'.",
  needs: 'tables',
  lists: true,
  options: [
    new Option('--limit <n>', 'events of a page').argParser(count).default(50),
    new Option('--after <cursor>', 'the next page, by the cursor of the last one'),
  ],
  run: async ({ session, out }, { limit, after }, ...args) => {
    const [words = []] = args as unknown[] as [string[]?];
    const filter = words.join(' ');
    const inspector = session.inspector;
    // Without the application no names are known here, and all would look misspelt.
    if (session.hasApp) for (const hint of inspector.unknownNames(filter, 'events')) out.note(hint);
    const page = await inspector.events(filter, after, limit);
    out.answer(page, () => {
      listEvents(out, page.events);
      if (page.searchedTo !== undefined) out.line(`Looked at everything received since ${page.searchedTo}.`);
      if (page.next !== undefined) out.line(`There is more: --after ${page.next}`);
    });
    return page.events.length === 0 && page.next === undefined ? EXIT.nothing : undefined;
  },
};

export function listEvents(out: Output, rows: readonly ListedEvent[]): void {
  out.table(
    ['RECEIVED', 'SOURCE', 'TYPE', 'STATE', 'EVENT', 'ID', 'OUTCOME'],
    rows.map((one) => [one.receivedAt, one.source, one.type, one.state, one.eventId, one.id, one.outcome]),
  );
}

interface Naming {
  readonly source?: string;
  readonly tenant?: string;
}

/** Options that distinguish two events of one id. */
export const namingOptions = (): Option[] => [
  new Option('--source <name>', 'the source, where several have an event of this id'),
  new Option('--tenant <name>', 'the tenant, where several have one'),
];

/**
 * The event that a person names, by the provider's id or by ours.
 * @throws Ended where there is none; UsageError where there are several
 */
export async function eventNamed(
  session: Session,
  id: string,
  { source, tenant }: Naming,
): Promise<ListedEvent> {
  const page = await session.inspector.events(`id:"${id.replaceAll('"', '')}"`);
  const found = page.events.filter(
    (one) => (source ?? one.source) === one.source && (tenant ?? one.tenant) === one.tenant,
  );
  const [only, ...others] = found;
  if (only === undefined)
    throw new Ended(EXIT.nothing, `there is no event '${id}': it never arrived, or retention has deleted it`);
  if (others.length === 0) return only;
  const names = found.map((one) => `${one.source}${one.tenant && ` / ${one.tenant}`} (${one.id})`).join(', ');
  throw new UsageError(
    `'${id}' names several events: ${names}. Give --source and --tenant, or our id in brackets`,
  );
}

export const show: Definition<Naming & { readonly body?: boolean }> = {
  usage: 'show <event>',
  about: "Shows an event by the provider's id or by ours, with every run and effect of it.",
  needs: 'tables',
  lists: true,
  options: [
    ...namingOptions(),
    new Option(
      '--body',
      'print the stored body too; the audit records it, so --by and --reason are required',
    ),
    new Option('--by <name>', 'your name or address, for the audit').env('WEBHOOK_INBOX_BY'),
    new Option('--reason <text>', 'the reason, for the audit'),
  ],
  run: async ({ session, out }, options, ...args) => {
    const [id] = args as unknown[] as [string];
    const inspector = session.inspector;
    const our = UUID.test(id) ? await inspector.event(id) : undefined;
    const event = our ?? (await inspector.event((await eventNamed(session, id, options)).id))!;
    const body = options.body === true ? await bodyOf(session, event, options) : undefined;
    out.answer(body === undefined ? event : { ...event, body }, () => {
      showEvent(out, event, session.hasApp);
      if (body !== undefined) {
        out.line();
        out.line(body);
      }
    });
    return undefined;
  },
};

/** Noted before it is shown, as on the desk. */
async function bodyOf(session: Session, { id }: InspectedEvent, deed: DeedOptions): Promise<string> {
  const decider = deciderOf(deed);
  const stored = await fromPrimary(() => session.inspector.body(id));
  if (!stored?.body)
    throw new Ended(EXIT.nothing, 'there is no body: it was removed, by retention or by a person');
  await session.operator.revealed(`event ${id}`, 'shown', decider);
  return stored.body.toString('utf8');
}

function showEvent(out: Output, event: InspectedEvent, hasApp: boolean): void {
  const facts: [string, Cell][] = [
    ['event', `${event.source}${event.tenant && ` / ${event.tenant}`} ${event.eventId}`],
    ['our id', event.id],
    ['type', event.type],
    ['state', event.state],
    ['outcome', event.outcome],
    ['received', event.receivedAt.toISOString()],
    ['took', event.processedAt && span(event.processedAt.getTime() - event.receivedAt.getTime())],
    ['happened', event.occurredAt?.toISOString()],
    ['origin', event.origin],
    ['duplicates', event.duplicates],
    ['verified by', event.verifiedBy],
    ['body', event.bytes === null ? 'removed' : `${event.bytes} bytes, SHA-256 ${event.sha256 ?? '-'}`],
    ['handlers today', hasApp ? event.matches.join(', ') || 'none' : undefined],
  ];
  for (const [name, value] of facts)
    if (value !== undefined && value !== null) out.line(`${name.padEnd(15)} ${printable(String(value))}`);
  out.line();
  out.table(
    ['KIND', 'NAME', 'STATE', 'ATTEMPT', 'ROW', 'REASON'],
    event.rows.map((row) => [row.kind, row.name, row.state, row.attempt, row.id, row.reason]),
  );
  const names = new Map(event.rows.map((row) => [row.id, row.name]));
  out.line();
  out.table(
    ['ENDED', 'NAME', 'ATTEMPT', 'OUTCOME', 'BY', 'WHY', 'INSTANCE', 'PLACE'],
    event.attempts.map((one) => [
      one.endedAt?.toISOString(),
      names.get(one.outboxId),
      one.attempt,
      one.outcome,
      one.by,
      one.why ?? one.reason,
      one.host ?? one.instance,
      one.place,
    ]),
  );
  if (event.pauses.length > 0) {
    out.line();
    out.table(
      ['AT', 'DEED', 'NAME', 'BY', 'WHY'],
      event.pauses.map((one) => [one.at, one.action, one.target, one.by, one.why]),
    );
  }
  for (const row of event.rows.filter(({ error }) => error !== null)) {
    out.line();
    out.line(`${row.name} (${row.id}): ${printable(row.error!)}`);
  }
  for (const { kind, deliveries, lastAt } of event.conflicts)
    out.line(`conflict: ${kind}, ${deliveries} deliveries, the last at ${lastAt.toISOString()}`);
}
