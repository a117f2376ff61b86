import { neutral } from '../../core/neutral.js';

/**
 * Pauses between the beginnings of two fetches of one resource, in milliseconds: after its first, and after each later one of a
 * burst. The events that arrive within a pause share the fetch after it, so that 50 within a second cost three.
 */
const PAUSES_MS = [200, 1_500] as const;

/** Asks for the current state of a resource. `signal` fires when no run waits for the answer any more. */
export type Ask = (signal: AbortSignal) => Promise<unknown>;

interface Fetch {
  /** On the process's monotonic clock; undefined until it has begun. */
  startedAt: number | undefined;
  /** The newest event's. */
  ask: Ask;
  readonly begin: () => void;
  readonly answer: Promise<unknown>;
  /** Fires when none of those who share it waits any more: one whose lease was lost takes nothing from the others. */
  readonly controller: AbortController;
  waiting: number;
}

interface Resource {
  /** How many fetches of it have begun since it was quiet. */
  begun: number;
  /** The last fetch that has begun. It may have ended. */
  last: Fetch | undefined;
  /** The one that begins after the pause. */
  next: Fetch | undefined;
}

/**
 * Fetches that runs share. A run gets an answer that was asked for after its event had arrived. It never gets an older answer than a run
 * that began before it. An answer is kept for as long as a pause, for runs that wait for a slot meanwhile.
 */
export class SharedFetches {
  private readonly resources = new Map<string, Resource>();

  /**
   * @param arrivedAt when the event had arrived, on this process's monotonic clock. Undefined for a run whose caller waits: it asks for
   * itself and at once
   * @param maxPauseMs the longest that the run may wait for others
   */
  async get(
    key: string,
    arrivedAt: number | undefined,
    maxPauseMs: number,
    signal: AbortSignal,
    ask: Ask,
  ): Promise<unknown> {
    const resource = this.resources.get(key) ?? { begun: 0, last: undefined, next: undefined };
    this.resources.set(key, resource);
    return join(this.fetch(key, resource, arrivedAt, maxPauseMs, ask), signal);
  }

  private fetch(
    key: string,
    resource: Resource,
    arrivedAt: number | undefined,
    maxPauseMs: number,
    ask: Ask,
  ): Fetch {
    const { last, next } = resource;
    if (arrivedAt !== undefined && last?.startedAt !== undefined && last.startedAt >= arrivedAt) return last;
    const leftMs = last === undefined || arrivedAt === undefined ? 0 : pauseLeftMs(resource, maxPauseMs);
    if (leftMs <= 0) return this.begin(key, resource, next ?? newFetch(ask));
    if (next !== undefined) {
      next.ask = ask;
      return next;
    }
    return this.beginLater(leftMs, key, resource, newFetch(ask));
  }

  /** If it is aborted during the pause, no run waits for it any more, and it never begins. */
  private beginLater(ms: number, key: string, resource: Resource, fetch: Fetch): Fetch {
    resource.next = fetch;
    const timer = neutral(() => setTimeout(() => this.begin(key, resource, fetch), ms));
    fetch.controller.signal.addEventListener('abort', () => {
      clearTimeout(timer);
      if (resource.next === fetch) resource.next = undefined;
    });
    return fetch;
  }

  private begin(key: string, resource: Resource, fetch: Fetch): Fetch {
    if (fetch.startedAt !== undefined) return fetch;
    if (resource.next === fetch) resource.next = undefined;
    resource.begun += 1;
    resource.last = fetch;
    fetch.startedAt = performance.now();
    fetch.begin();
    const forget = () => {
      if (resource.last === fetch) resource.last = undefined;
    };
    fetch.controller.signal.addEventListener('abort', forget);
    // A failed answer is not shared with a later run.
    void fetch.answer.catch(forget).then(() => {
      setTimeout(() => this.drop(key, resource, fetch), PAUSES_MS[1]).unref();
    });
    return fetch;
  }

  private drop(key: string, resource: Resource, fetch: Fetch): void {
    const isBusy = resource.next !== undefined || (resource.last !== undefined && resource.last !== fetch);
    if (!isBusy && this.resources.get(key) === resource) this.resources.delete(key);
  }
}

function newFetch(ask: Ask): Fetch {
  const controller = new AbortController();
  let begin!: () => void;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  // Several runs share it, in contexts of their own.
  const answer: Promise<unknown> = begun.then(() => neutral(() => fetch.ask(controller.signal)));
  const fetch: Fetch = { startedAt: undefined, ask, begin, answer, controller, waiting: 0 };
  return fetch;
}

function pauseLeftMs({ begun, last }: Resource, maxPauseMs: number): number {
  const pauseMs = begun <= 1 ? PAUSES_MS[0] : PAUSES_MS[1];
  return last!.startedAt! + Math.min(pauseMs, maxPauseMs) - performance.now();
}

async function join(fetch: Fetch, signal: AbortSignal): Promise<unknown> {
  const leave = () => {
    fetch.waiting -= 1;
    if (fetch.waiting === 0) fetch.controller.abort(signal.reason);
  };
  fetch.waiting += 1;
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await fetch.answer;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
