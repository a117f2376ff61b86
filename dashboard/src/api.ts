import type {
  Alert,
  Audit,
  Content,
  DeadGroup,
  DeadRow,
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
  SecondLook,
  Source,
} from './types.ts';

/** An answer that is not 200, with the server's own words. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The page's own address without a slash at its end: the API lies under it. */
const root = location.pathname.replace(/\/$/, '');

async function ask(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`${root}/api/${path}`, { credentials: 'same-origin', ...init });
  } catch {
    throw new ApiError(0, 'The server cannot be reached.');
  }
  if (response.ok) return response;
  const told: { error?: string; message?: string } = await response.json().catch(() => ({}));
  throw new ApiError(
    response.status,
    told.error ?? told.message ?? `The server answered ${response.status}.`,
  );
}

async function get<T>(path: string, query: Record<string, string | undefined> = {}): Promise<T> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  return (await ask(text === '' ? path : `${path}?${text}`)).json() as Promise<T>;
}

function post(action: string, body: unknown): Promise<Response> {
  return ask(`actions/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
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
  meta: () => get<Meta>('meta'),
  overview: (range: 'hour' | 'day') => get<Overview>('overview', { range }),
  events: (q: string, after?: string) => get<EventPage>('events', { q, after }),
  event: (id: string) => get<EventDetail>(`events/${id}`),
  effects: (filter: { name?: string; state?: string; before?: string }) =>
    get<{ effects: Effect[] }>('effects', filter),
  dead: () => get<{ groups: DeadGroup[] }>('dead'),
  deadRows: (fingerprint: string) => get<{ rows: DeadRow[] }>(`dead/${fingerprint}`),
  rejections: (filter: { source?: string; before?: string }) =>
    get<{ rejections: Rejection[] }>('rejections', filter),
  sources: () => get<{ sources: Source[]; former: string[] }>('sources'),
  paused: () => get<{ paused: Pause[] }>('paused'),
  relays: () => get<Relays>('relays'),
  audit: (before?: string) => get<{ audit: Audit[] }>('audit', { before }),
  alerts: () => get<{ alerts: Alert[] }>('alerts'),

  revive: (ids: string[], reason: string) =>
    act<{ revived: string[]; others?: NotRevived[] }>('revive', { ids, reason }),
  giveUp: (ids: string[], reason: string) => act<{ givenUp: string[] }>('give-up', { ids, reason }),
  issue: (fingerprint: string, state: DeadGroup['state'], reason: string) =>
    act<object>('issue', { fingerprint, state, reason }),
  verifyAgain: (source: string, after: string | undefined, reason: string) =>
    act<SecondLook>('verify-again', { source, ...(after ? { after } : {}), reason }),
  reveal: (what: { event: string } | { effect: string }) => act<Content>('reveal', what),
  download: async (what: { event: string } | { effect: string }) => (await post('download', what)).blob(),
  previewReplay: (events: EventKey[], refire: string[], newEffects: NewEffects) =>
    act<{ plans: ReplayPlan[] }>('replay-preview', { events, refire, newEffects }),
  replay: (events: EventKey[], refire: string[], newEffects: NewEffects, reason: string) =>
    act<ReplayReport>('replay', { events, refire, newEffects, reason }),
  forward: (events: EventKey[], url: string, reason: string) =>
    act<ForwardReport>('forward', { events, url, reason }),
  decide: (id: string, decision: 'retry' | 'done' | 'dead', reason: string) =>
    act<{ decided: boolean }>('decide', { id, decision, reason }),
  erase: (event: EventKey, reason: string) => act<ErasureReport>('erase', { event, reason }),
  pause: (kind: Pause['kind'], name: string, paused: boolean, reason: string) =>
    act<{ changed: boolean }>('pause', { kind, name, paused, reason }),
};

/** Keys of the newest events that a filter finds, `max` at most; the oldest first, so that what is done to them is done as they came. */
export async function collectEvents(filter: string, max: number): Promise<EventKey[]> {
  const events: EventKey[] = [];
  let after: string | undefined;
  do {
    const page = await api.events(filter, after);
    events.push(...page.events.map(({ source, tenant, eventId }) => ({ source, tenant, eventId })));
    after = page.next;
  } while (after !== undefined && events.length < max);
  return events.slice(0, max).toReversed();
}
