import { Option } from 'commander';
import { sleep } from '../../core/time/waits.js';
import type { ListedEvent } from '../../storage/desk/event.sql.js';
import { count, duration, type Definition } from '../command.js';
import { shown } from '../terminal/table.js';

/** Events that are followed: the newest. */
const PAGE = 100;
const MAX_PAGES = 20;

export const tail: Definition<{ readonly lines: number; readonly every: number }> = {
  usage: 'tail [filter...]',
  about: 'Follows events as they come and as their state changes, until Ctrl-C.',
  needs: 'tables',
  options: [
    new Option('--lines <n>', 'events to begin with').argParser(count).default(10),
    new Option('--every <time>', 'how often the tables are asked').argParser(duration).default(1_000, '1s'),
  ],
  run: async ({ session, out, signal }, { lines, every }, ...args) => {
    const [words = []] = args as unknown[] as [string[]?];
    const filter = words.join(' ');
    const inspector = session.inspector;
    const followed = new Followed();
    let page = await inspector.events(filter, undefined, lines);
    let found: readonly ListedEvent[] = page.events;
    while (!signal.aborted) {
      for (const event of followed.news(found)) out.item(event, lineOf(event));
      await sleep(every, signal);
      if (signal.aborted) break;
      // Behind a burst: on to the first page that brings nothing new.
      const pages: ListedEvent[] = [];
      let after: string | undefined;
      for (let at = 0; at < MAX_PAGES; at += 1) {
        page = await inspector.events(filter, after, PAGE);
        pages.push(...page.events);
        after = page.next;
        if (
          after === undefined ||
          page.events.some((event) => followed.has(event)) ||
          page.events.length < PAGE
        )
          break;
      }
      found = pages;
    }
    return undefined;
  },
};

/** Which events were printed, and in which state. */
class Followed {
  private readonly states = new Map<string, string>();
  private oldest = -Infinity;

  has({ id }: ListedEvent): boolean {
    return this.states.has(id);
  }

  /** Those that are new or have changed, oldest first. Events from before the first line are left out. */
  news(events: readonly ListedEvent[]): ListedEvent[] {
    if (this.oldest === -Infinity) this.oldest = events.at(-1)?.receivedAt.getTime() ?? Date.now() - 60_000;
    const changed = events.filter(
      (event) => event.receivedAt.getTime() >= this.oldest && this.states.get(event.id) !== stateOf(event),
    );
    for (const event of events) this.states.set(event.id, stateOf(event));
    this.forget();
    return changed.toReversed();
  }

  private forget(): void {
    const most = PAGE * MAX_PAGES * 2;
    for (const id of this.states.keys()) {
      if (this.states.size <= most) return;
      this.states.delete(id);
    }
  }
}

function stateOf(event: ListedEvent): string {
  return `${event.state} ${event.effectsPending} ${event.effectsDone} ${event.effectsDead} ${event.effectsParked}`;
}

function lineOf(event: ListedEvent): string {
  const { effectsPending, effectsDone, effectsDead, effectsParked } = event;
  const effects = Object.entries({
    pending: effectsPending,
    done: effectsDone,
    dead: effectsDead,
    parked: effectsParked,
  })
    .filter(([, rows]) => rows > 0)
    .map(([state, rows]) => `${rows} ${state}`)
    .join(', ');
  const facts = [event.receivedAt, event.source, event.type, event.eventId, event.state].map((one) =>
    shown(one),
  );
  return [...facts, ...(effects === '' ? [] : [`effects: ${effects}`])].join('  ');
}
