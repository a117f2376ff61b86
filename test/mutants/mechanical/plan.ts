import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { faultsOf, type Kinds } from './code.js';
import type { Fault } from './fault.js';

interface Area {
  /** The beginning of a file's path; the longest that fits counts. */
  readonly files: string;
  readonly kinds: Kinds;
  /** Specs that must notice a fault, the cheapest first. */
  readonly specs: readonly string[];
}

const integration = (...names: readonly string[]) => names.map((name) => `test/integration/${name}.spec.ts`);
const unit = (...names: readonly string[]) => names.map((name) => `test/unit/${name}.spec.ts`);
const e2e = (...names: readonly string[]) => names.map((name) => `test/e2e/${name}.spec.ts`);
const SQL = { sql: true, comparisons: true, refusals: true } as const;
const TIMES = { comparisons: true } as const;
const DESK = integration(
  'predicates.desk',
  'operator.actions',
  'operator',
  'replay',
  'operator.alerts',
  'desk-plans',
);

const CLAIM_SPECS = [
  ...integration('predicates.claims', 'claim', 'group-commit', 'model'),
  ...e2e('conflicts', 'dedupe', 'own-retries'),
];

/** Which faults are derived from a file, and which specs must notice them. */
export const AREAS: readonly Area[] = [
  {
    files: 'migrations/inbox.tables',
    kinds: { sql: true, indexes: true },
    specs: integration(
      'migrations',
      'lease',
      'order',
      'turn-plans',
      'claim',
      'effects',
      'renaming',
      'retention-plans',
      'desk-plans',
    ),
  },
  {
    files: 'migrations/desk.tables',
    kinds: { indexes: true },
    specs: integration('migrations', 'desk-plans', 'operator.rejections'),
  },
  {
    files: 'migrations/views',
    kinds: { sql: true },
    specs: integration('view-entities', 'operator', 'erasure', 'claim'),
  },
  { files: 'migrations/own.objects', kinds: { sql: true }, specs: integration('migrations') },
  { files: 'src/storage/claim', kinds: SQL, specs: CLAIM_SPECS },
  { files: 'src/storage/new-claim', kinds: SQL, specs: CLAIM_SPECS },
  {
    files: 'src/storage/named-lease',
    kinds: SQL,
    specs: integration('predicates', 'jobs', 'startup-reconciler', 'operator.alerts'),
  },
  {
    files: 'src/storage/outbox',
    kinds: SQL,
    specs: [
      ...integration('predicates', 'lease', 'relay', 'rounds', 'slots', 'model', 'woken-names'),
      ...e2e('provider-retries'),
    ],
  },
  {
    files: 'src/storage/pause',
    kinds: SQL,
    specs: [
      ...integration('predicates'),
      ...e2e('pauses'),
      ...integration('pause-deliveries', 'renaming', 'operator.actions'),
    ],
  },
  {
    files: 'src/storage/pending',
    kinds: SQL,
    specs: integration(
      'predicates',
      'predicates.turns',
      'lease',
      'backlog',
      'operator.alerts',
      'desk-plans',
      'operator',
    ),
  },
  { files: 'src/storage/record', kinds: SQL, specs: integration('business-record') },
  {
    files: 'src/storage/desk/relay',
    kinds: SQL,
    specs: integration('predicates.desk', 'operator.alerts', 'operator', 'telemetry'),
  },
  {
    files: 'src/storage/settle',
    kinds: SQL,
    specs: integration(
      'predicates',
      'lease',
      'relay',
      'doubt',
      'effects',
      'group-settle',
      'new-effects',
      'failures',
    ),
  },
  {
    files: 'src/storage/postgres/takeover',
    kinds: SQL,
    specs: [...integration('predicates.takeover'), 'test/crash/takeover.spec.ts'],
  },
  {
    files: 'src/storage/turn',
    kinds: SQL,
    specs: integration('predicates.turns', 'order', 'turn-plans', 'two-relays'),
  },
  {
    files: 'src/storage/watermark',
    kinds: SQL,
    specs: integration('predicates', 'handler-options', 'order'),
  },
  { files: 'src/storage/desk/', kinds: SQL, specs: DESK },
  {
    files: 'src/storage/desk/dead',
    kinds: SQL,
    specs: integration('predicates.desk', 'operator.actions', 'operator', 'desk-plans', 'failures'),
  },
  {
    files: 'src/storage/desk/decision',
    kinds: SQL,
    specs: integration('predicates', 'operator.actions', 'doubt', 'order', 'model'),
  },
  {
    files: 'src/storage/effect',
    kinds: SQL,
    specs: integration('predicates', 'effects', 'renaming', 'new-effects'),
  },
  { files: 'src/storage/desk/erasure', kinds: SQL, specs: integration('predicates', 'erasure') },
  {
    files: 'src/storage/desk/rejection',
    kinds: SQL,
    specs: integration('predicates.desk', 'operator.rejections', 'retention'),
  },
  {
    files: 'src/storage/desk/replay',
    kinds: SQL,
    specs: integration('predicates.desk', 'replay', 'new-effects', 'order', 'renaming'),
  },
  {
    files: 'src/storage/desk/retention',
    kinds: SQL,
    specs: integration('predicates.retention', 'retention', 'retention-plans'),
  },
  {
    files: 'src/storage/desk/search',
    kinds: SQL,
    specs: integration('predicates.desk', 'operator', 'desk-plans'),
  },
  {
    files: 'src/storage/desk/stat',
    kinds: SQL,
    specs: integration('predicates.desk', 'operator.alerts', 'operator'),
  },
  {
    files: 'src/dashboard/',
    kinds: { refusals: true, comparisons: true },
    specs: [...unit('dashboard-page'), ...e2e('dashboard')],
  },
  { files: 'src/operator/', kinds: { refusals: true, comparisons: true }, specs: DESK },
  {
    files: 'src/operator/desk',
    kinds: { refusals: true, comparisons: true },
    specs: integration('operator.alerts', 'lifecycle'),
  },
  {
    files: 'src/operator/event.filter',
    kinds: { refusals: true, comparisons: true },
    specs: integration('operator'),
  },
  {
    files: 'src/operator/former-sources',
    kinds: { refusals: true, comparisons: true },
    specs: integration('retention'),
  },
  {
    files: 'src/operator/inspector',
    kinds: { refusals: true, comparisons: true },
    specs: [...integration('operator'), ...e2e('dashboard')],
  },
  {
    files: 'src/operator/pauses',
    kinds: { refusals: true, comparisons: true },
    specs: [...integration('renaming'), ...e2e('pauses')],
  },
  {
    files: 'src/operator/revivals',
    kinds: { refusals: true, comparisons: true },
    specs: integration('operator.actions'),
  },
  {
    files: 'src/operator/source.inspector',
    kinds: { refusals: true, comparisons: true },
    specs: integration('operator'),
  },
  {
    files: 'src/operator/webhook-health',
    kinds: { refusals: true, comparisons: true },
    specs: integration('telemetry'),
  },
  {
    files: 'src/operator/retention',
    kinds: { refusals: true, comparisons: true },
    specs: integration('retention'),
  },
  {
    files: 'src/operator/watch',
    kinds: TIMES,
    specs: [...unit('watch'), ...integration('operator.alerts', 'operator.rejections')],
  },
  {
    files: 'src/operator/explain/',
    kinds: TIMES,
    specs: [...unit('diagnosis', 'secret-verdict'), ...integration('operator.rejections')],
  },
  { files: 'src/operator/erasure', kinds: { refusals: true }, specs: integration('erasure') },
  {
    files: 'src/operator/replay/',
    kinds: { refusals: true, comparisons: true },
    specs: integration('replay', 'forward', 'new-effects'),
  },
  {
    files: 'src/outbox/takeover/',
    kinds: TIMES,
    specs: [...unit('lock-watch'), 'test/crash/takeover.spec.ts'],
  },
  {
    files: 'src/outbox/relay/',
    kinds: TIMES,
    specs: integration('rounds', 'relay', 'solo', 'slots', 'woken-names', 'missing-tables'),
  },
  {
    files: 'src/outbox/relay/lease-plan',
    kinds: TIMES,
    specs: integration('batch', 'slots', 'rounds', 'relay'),
  },
  { files: 'src/outbox/slots/', kinds: TIMES, specs: integration('slots', 'solo') },
  {
    files: 'src/outbox/runs/',
    kinds: TIMES,
    specs: integration('doubt', 'effects', 'failures', 'batch', 'time-limits'),
  },
  { files: 'src/outbox/enqueue/', kinds: TIMES, specs: integration('effects') },
  { files: 'src/outbox/wake/', kinds: TIMES, specs: [...unit('wake-payload'), ...integration('wake-up')] },
  { files: 'src/core/options/retry', kinds: TIMES, specs: integration('failures') },
  {
    files: 'src/core/time/',
    kinds: TIMES,
    specs: [...unit('hysteresis', 'zoned-time'), ...integration('telemetry')],
  },
  {
    files: 'src/http/body/',
    kinds: TIMES,
    specs: [...unit('byte-budget'), ...e2e('body-limits', 'unfinished-bodies')],
  },
];

/** The area of a file. */
export function areaOf(file: string): Area | undefined {
  const areas = AREAS.filter(({ files }) => file.startsWith(files));
  return areas.toSorted((a, b) => b.files.length - a.files.length)[0];
}

/** Every fault that the code gives, by file. */
export function derived(root: string): Map<string, readonly Fault[]> {
  const files = ['src', 'migrations'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${folder}/${name}`)
      .sort(),
  );
  const all = files.map((file): [string, readonly Fault[]] => {
    const area = areaOf(file);
    return [
      file,
      area === undefined ? [] : faultsOf(file, readFileSync(join(root, file), 'utf8'), area.kinds),
    ];
  });
  return new Map(all.filter(([, faults]) => faults.length > 0));
}
