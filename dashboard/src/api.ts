import type {
  Alert,
  Audit,
  Content,
  DeadGroup,
  Destination,
  Counts,
  DeadPage,
  Effect,
  EventDetail,
  ErasureReport,
  EventPage,
  ForwardReport,
  Meta,
  Overview,
  Pause,
  Rejection,
  Relays,
  NewEffects,
  ReplayPlan,
  ReplayReport,
  RevivePreview,
  RowStates,
  SecondLook,
  SourcePage,
} from './types.ts';
import { zoneName } from './zone.ts';

/**
 * Why there is no answer to use: `unreachable` (no connection), `silent` (no answer in time), `signed-out` (401, or something other
 * than the dashboard answered, such as a login page), `forbidden` (403), `refused` (anything else).
 */
export type Failure = 'unreachable' | 'silent' | 'signed-out' | 'forbidden' | 'refused';

/** A question or an action without an answer to use, with the server's own words where it gave any. */
export class ApiError extends Error {
  readonly kind: Failure;
  readonly status: number;

  constructor(kind: Failure, message: string, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

/** The page's own address without a slash at its end: the API lies under it. */
const root = location.pathname.replace(/\/$/, '');

/** The server ends a question after 2 s for each statement. */
const ANSWER_MS = 10_000;
/** An action may send many requests to others. */
const ACTION_MS = 120_000;
/** For how long after an action lists come from the primary. The server reads no replica that is more than 15 s behind. */
const FRESH_MS = 60_000;
let freshUntil = 0;

async function ask(path: string, timeoutMs: number, init: RequestInit = {}): Promise<Response> {
  const limit = AbortSignal.timeout(timeoutMs);
  const signal = init.signal ? AbortSignal.any([init.signal, limit]) : limit;
  let response: Response;
  try {
    // Followed, a redirect to a login page would be answered 200.
    response = await fetch(`${root}/api/${path}`, {
      credentials: 'same-origin',
      redirect: 'manual',
      ...init,
      signal,
    });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    if (limit.aborted)
      throw new ApiError('silent', `The server does not answer: nothing came within ${timeoutMs / 1_000} s.`);
    throw new ApiError('unreachable', 'The server cannot be reached.');
  }
  return answered(response);
}

async function answered(response: Response): Promise<Response> {
  const { status } = response;
  // A login page may be answered 200, and with the same security headers.
  const isPage = response.headers.get('content-type')?.startsWith('text/html') === true;
  const isOurs = (response.headers.has('x-content-type-options') && !isPage) || status >= 400;
  if (response.type === 'opaqueredirect' || status === 401 || (response.ok && !isOurs))
    throw new ApiError('signed-out', 'Your session ended. Sign in again; your input stays here.', status);
  if (response.ok) return response;
  const told: { error?: string; message?: string } = await response.json().catch(() => ({}));
  const words = told.error ?? told.message ?? `The server answered ${status}.`;
  if (status === 403)
    throw new ApiError(
      'forbidden',
      told.error ? `You may not do this: ${words}.` : `The application refused this: ${words}.`,
      403,
    );
  throw new ApiError('refused', words, status);
}

async function get<T>(
  path: string,
  query: Record<string, string | undefined> = {},
  signal?: AbortSignal,
): Promise<T> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  const headers = Date.now() < freshUntil ? { 'cache-control': 'no-cache' } : undefined;
  const init = { ...(headers && { headers }), ...(signal && { signal }) };
  const response = await ask(text === '' ? path : `${path}?${text}`, ANSWER_MS, init);
  return response.json() as Promise<T>;
}

async function post(action: string, body: unknown): Promise<Response> {
  try {
    return await ask(`actions/${action}`, ACTION_MS, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  } finally {
    freshUntil = Date.now() + FRESH_MS;
  }
}

async function act<T>(action: string, body: unknown): Promise<T> {
  return (await post(action, body)).json() as Promise<T>;
}

export interface EventKey {
  source: string;
  tenant: string;
  eventId: string;
}

/** A row that cannot be revived, with the state that it has. */
export interface NotRevived {
  outboxId: string;
  why: string;
}

export const api = {
  meta: (signal?: AbortSignal) => get<Meta>('meta', {}, signal),
  overview: (range: 'hour' | 'day', signal?: AbortSignal) => get<Overview>('overview', { range }, signal),
  events: (q: string, after?: string, signal?: AbortSignal) =>
    get<EventPage>('events', { q, after, zone: zoneName() }, signal),
  event: (id: string, signal?: AbortSignal) => get<EventDetail>(`events/${id}`, {}, signal),
  effects: (q: string, after?: string, signal?: AbortSignal) =>
    get<{ effects: Effect[]; next?: string }>('effects', { q, after, zone: zoneName() }, signal),
  dead: (q: string, after?: string, signal?: AbortSignal) =>
    get<{ groups: DeadGroup[]; next?: string; rowsLookedAt?: number }>(
      'dead',
      { q, after, zone: zoneName() },
      signal,
    ),
  deadRows: (fingerprint: string, after?: string, signal?: AbortSignal) =>
    get<DeadPage>(`dead/${fingerprint}`, { after }, signal),
  rejections: (q: string, after?: string, signal?: AbortSignal) =>
    get<{ rejections: Rejection[]; next?: string }>('rejections', { q, after, zone: zoneName() }, signal),
  sources: (q: string, after?: string, signal?: AbortSignal) =>
    get<SourcePage>('sources', { q, after }, signal),
  paused: (signal?: AbortSignal) => get<{ paused: Pause[] }>('paused', {}, signal),
  destinations: (signal?: AbortSignal) => get<{ destinations: Destination[] }>('destinations', {}, signal),
  relays: (signal?: AbortSignal) => get<Relays>('relays', {}, signal),
  audit: (q: string, after?: string, signal?: AbortSignal) =>
    get<{ audit: Audit[]; next?: string }>('audit', { q, after, zone: zoneName() }, signal),
  alerts: (signal?: AbortSignal) => get<{ alerts: Alert[] }>('alerts', {}, signal),
  counts: (signal?: AbortSignal) => get<Counts>('counts', {}, signal),

  revive: (ids: string[], reason: string) =>
    act<{ revived: string[]; others?: NotRevived[] }>('revive', { ids, reason }),
  previewRevive: (ids: string[]) => act<RevivePreview>('revive-preview', { ids }),
  states: (ids: readonly string[]) => act<RowStates>('row-states', { ids }),
  giveUp: (ids: string[], reason: string) => act<{ givenUp: string[] }>('give-up', { ids, reason }),
  issue: (fingerprint: string, state: DeadGroup['state'], reason: string) =>
    act<object>('issue', { fingerprint, state, reason }),
  verifyAgain: (source: string, after: string | undefined, reason: string) =>
    act<SecondLook>('verify-again', { source, ...(after ? { after } : {}), reason }),
  reveal: (what: { event: string; conflict?: string } | { effect: string }) => act<Content>('reveal', what),
  download: async (what: { event: string } | { effect: string }) => (await post('download', what)).blob(),
  previewReplay: (events: EventKey[], refire: string[], newEffects: NewEffects) =>
    act<{ plans: ReplayPlan[] }>('replay-preview', { events, refire, newEffects }),
  /** @param id of this act: asked for again after a lost answer, it does nothing twice */
  replay: (events: EventKey[], refire: string[], newEffects: NewEffects, reason: string, id: string) =>
    act<ReplayReport>('replay', { events, refire, newEffects, reason, id }),
  findGaps: (source: string, reason: string) =>
    act<{ seen: number; claimed: number }>('find-gaps', { source, reason }),
  forward: (
    events: EventKey[],
    url: string,
    reason: string,
    more: { id: string; secret?: string | undefined; body?: string | undefined },
  ) => act<ForwardReport>('forward', { events, url, reason, ...more }),
  park: (ids: string[], reason: string) => act<{ parked: string[] }>('park', { ids, reason }),
  decide: (id: string, decision: 'retry' | 'done' | 'dead', reason: string) =>
    act<{ decided: boolean; why?: string }>('decide', { id, decision, reason }),
  cancel: (id: string, reason: string) => act<{ cancelled: boolean; why?: string }>('cancel', { id, reason }),
  erase: (event: EventKey, reason: string) => act<ErasureReport>('erase', { event, reason }),
  pause: (kind: Pause['kind'] | 'destination', name: string, paused: boolean, reason: string) =>
    act<{ changed: boolean }>('pause', { kind, name, paused, reason }),
};

/** A random id. `crypto.randomUUID` is missing where the page is served without TLS. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

/** Keys of the newest events that a filter finds, `max` at most; the oldest first, so that what is done to them is done as they came. */
export async function collectEvents(filter: string, max: number): Promise<EventKey[]> {
  const events = await collect(
    (after) => api.events(filter, after).then(({ events: items, next }) => ({ items, next })),
    max,
  );
  return events.map(({ source, tenant, eventId }) => ({ source, tenant, eventId })).toReversed();
}

/** The first `max` items of a list that comes in pages, by the primary: an action takes them. */
export async function collect<T>(
  page: (after?: string) => Promise<{ items: T[]; next?: string | undefined }>,
  max: number,
): Promise<T[]> {
  freshUntil = Date.now() + FRESH_MS;
  const all: T[] = [];
  let after: string | undefined;
  do {
    const { items, next } = await page(after);
    all.push(...items);
    after = next;
  } while (after !== undefined && all.length < max);
  return all.slice(0, max);
}
