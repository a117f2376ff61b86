/** What the API answers, as JSON: dates are texts. */
export type EventState = 'erased' | 'dead' | 'pending' | 'processed' | 'superseded' | 'skipped';
export type RowState =
  'pending' | 'done' | 'superseded' | 'dead' | 'parked' | 'erased' | 'cancelled' | 'handed';

export type FilteredList = 'events' | 'effects' | 'dead' | 'rejections' | 'audit';
export interface Meta {
  sources: string[];
  effects: string[];
  /** Keys of each list's filter, with what stands behind each. */
  filterKeys: Record<FilteredList, Record<string, string>>;
  /** Whether the person may see everything: the overview, relays and the audit are of all sources. */
  seesAll: boolean;
  keepsRejections: boolean;
  maxAtOnce: number;
  now: number;
  readOnly: boolean;
  payloads: 'hidden' | 'reveal' | 'shown';
  unauthenticated: boolean;
  signInUrl?: string;
  /** Where a line of the application's code is shown, with {file} and {line}. */
  sourceLink?: string;
  /** Begins the places that lie below the server's working directory. */
  root: string;
  can: string[];
  actor: string;
}
export interface Step {
  at: number;
  deliveries: number;
  handled: number;
  duplicates: number;
  rejected: number;
  rejectedBy: Record<string, number>;
  retried: number;
  dead: number;
  lost: number;
  unavailable: number;
  ackP50: number | null;
  ackP99: number | null;
  backlogMs: number | null;
  pending: number | null;
  running: number | null;
  deadRows: number | null;
}
export interface Overview {
  range: 'hour' | 'day';
  stepMs: number;
  steps: Step[];
  rejectedBy: { reason: string; count: number }[];
  now: {
    pending: number;
    dead: number;
    parked: number;
    running: number;
    instances: number;
    overdue: { name: string; ageMs: number }[];
  };
}
export interface ListedEvent {
  id: string;
  source: string;
  tenant: string;
  eventId: string;
  type: string;
  receivedAt: string;
  occurredAt: string | null;
  origin: string;
  state: EventState;
  outcome: string | null;
  processedAt: string | null;
  owed: number;
  effectsPending: number;
  effectsDone: number;
  effectsDead: number;
  effectsParked: number;
  duplicates: number;
}
export interface EventPage {
  events: ListedEvent[];
  next?: string;
  searchedTo?: string;
  rowsLookedAt?: number;
  /** Names in the filter that nothing is called by. */
  hints?: string[];
}
export interface Row {
  id: string;
  parentId: string | null;
  kind: 'handler' | 'effect';
  name: string;
  key: string;
  state: RowState;
  attempt: number;
  attemptBase: number;
  lost: number;
  createdAt: string;
  dueAt: string;
  settledAt: string | null;
  leasedBy: string | null;
  reason: string | null;
  error: string | null;
  /** `file:line:column`. */
  place: string | null;
}
/** One attempt of a row, or, with `by`, what a person did to it. */
export interface Attempt {
  outboxId: string;
  attempt: number;
  begunAt: string | null;
  endedAt: string | null;
  outcome: string;
  reason: string | null;
  error: string | null;
  place: string | null;
  instance: string | null;
  host: string | null;
  build: string | null;
  by: string | null;
  why: string | null;
}
export interface EventRow extends Row {
  result: string | null;
  payloadBytes: number | null;
}
export interface Effect extends Row {
  source: string | null;
  tenant: string | null;
  eventId: string | null;
  claimId: string | null;
}
export interface Content {
  bytes: number;
  encoding: 'utf8' | 'base64';
  text: string;
  cut: boolean;
}
export interface EventDetail {
  id: string;
  source: string;
  tenant: string;
  eventId: string;
  type: string;
  receivedAt: string;
  occurredAt: string | null;
  origin: string;
  state: EventState;
  outcome: string | null;
  processedAt: string | null;
  owed: number;
  duplicates: number;
  lastDuplicateAt: string | null;
  verifiedBy: string;
  scheme: string | null;
  headers: Record<string, string>;
  bytes: number | null;
  sha256: string | null;
  erasedAt: string | null;
  rows: EventRow[];
  attempts: Attempt[];
  pauses: { action: 'pause' | 'resume'; target: string; at: string; by: string; why: string }[];
  conflicts: Conflict[];
  matches: string[];
  body?: Content;
}
export interface Conflict {
  kind: string;
  sha256: string;
  deliveries: number;
  firstAt: string;
  lastAt: string;
  headers: Record<string, string> | null;
  kept: boolean;
  otherId: string | null;
}
export interface DeadGroup {
  fingerprint: string;
  kind: string;
  name: string;
  reason: string | null;
  error: string | null;
  count: number;
  firstAt: string;
  lastAt: string;
  place: string | null;
  /** How many died in each of the last 24 hours, the oldest first. */
  hours: number[];
  /** Of the newest rows; with one group only. */
  types?: string[];
  instances?: string[];
  sources: string[];
  tenants: string[];
  state: 'open' | 'acknowledged' | 'resolved';
  reopened: boolean;
  actor: string | null;
  note: string | null;
}
export interface DeadRow {
  id: string;
  kind: string;
  name: string;
  attempt: number;
  reason: string | null;
  error: string | null;
  failedAt: string;
  source: string | null;
  tenant: string | null;
  eventId: string | null;
  claimId: string | null;
}
export interface Rejection {
  id: string;
  at: string;
  source: string;
  reason: string;
  detail: string;
  diagnosis: string;
  explanation: string;
  bytes: number;
  contentType: string;
  headerNames: string[];
  method: string;
  kept: boolean;
  takenAt: string | null;
  takenAs: string | null;
}
export interface Source {
  name: string;
  provider: string;
  scheme: string;
  retries: 'own' | 'provider';
  retentionMs: number;
  retryWindowMs: number;
  toleranceMs: number | null;
  maxBytes: number;
  handlers: { name: string; types: string[] }[];
  lastAt: string | null;
  lastType: string | null;
  hasList: boolean;
  secrets: {
    fingerprint: string;
    position: number | null;
    hint: string | null;
    configured: boolean | null;
    deliveries: number;
    lastAt: string | null;
    verdict: string;
  }[];
  rates: {
    hour: number;
    day: number;
    duplicatesDay: number;
    rejectedDay: number;
    handledDay: number;
    deadDay: number;
  };
}
export interface Instance {
  id: string;
  host: string;
  pid: number;
  node: string;
  relays: boolean;
  listens: boolean;
  running: number;
  startedAt: string;
  seenAt: string;
  silentMs: number;
  alive: boolean;
}
export interface Relays {
  instances: Instance[];
  leases: { name: string; owner: string; until: string }[];
  overdue: { name: string; ageMs: number }[];
}
export type NewEffects = 'refuse' | 'allow';
export interface ReplayPlan {
  event: { source: string; tenant: string; eventId: string };
  id?: string;
  refused?: string;
  run: {
    handler: string;
    rowId?: string;
    newEffects?: NewEffects;
    refused?: { name: string; key: string }[];
  }[];
  staysDone: { id: string; name: string; key: string }[];
  refired: { id: string; name: string; key: string }[];
}
export interface ReplayReport {
  replayed: number;
  skipped: number;
  refused: ReplayPlan[];
}
export interface ForwardReport {
  forwarded: number;
  skipped: number;
  failed: { event: { eventId: string }; why: string }[];
  refused: { event: { eventId: string }; why: string }[];
  gaveUp: boolean;
}
export interface ErasureReport {
  outcome: 'erased' | 'already' | 'unknown';
  cancelled: { name: string }[];
  possiblySent: { name: string }[];
  sent: { name: string }[];
}
export interface Destination {
  name: string;
  state: 'closed' | 'open';
  openedAt: string | null;
  failures: number;
  failedAt: string | null;
  error: string | null;
  notBefore: string | null;
}
export interface Pause {
  kind: 'source' | 'handler' | 'effect';
  name: string;
  pausedAt: string;
  pausedBy: string;
  reason: string;
}
export interface Audit {
  id: string;
  at: string;
  actor: string;
  action: string;
  target: string;
  reason: string;
  detail: Record<string, unknown>;
  outcome: Record<string, unknown> | null;
}
export interface Alert {
  id: string;
  at: string;
  kind: string;
  subject: string;
  facts: Record<string, unknown>;
}
export interface SecondLook {
  looked: number;
  taken: number;
  duplicates: number;
  stillWrong: number;
  notClaimed: number;
  next?: string;
}
export interface Counts {
  dead: number;
  parked: number;
}
export interface DeadPage {
  group?: DeadGroup;
  rows: DeadRow[];
  next?: string;
}
export interface SourcePage {
  sources: Source[];
  former: string[];
  total: number;
  next?: string;
}
/** What a revival would do, by name of handler or effect. */
export interface RevivePreview {
  run: Record<string, number>;
  staysDone: Record<string, number>;
  notDead: number;
}
/** How many of some rows are in each state. */
export interface RowStates {
  total: number;
  states: Record<string, number>;
  /** Fingerprints of the errors of those that are dead. */
  fingerprints: string[];
  /** The newest of these errors. */
  error: string | null;
}
