import type { Readable } from 'node:stream';

/** A body takes turns from here on. One of a provider's usual size is read as it comes. */
export const LARGE_BYTES = 64 * 1024;
/** How many large bodies are read in one turn of the event loop. Each brings a chunk or two. */
const IN_A_TURN = 2;

/** Bodies that wait, the first first. */
const waiting: Readable[] = [];
let next: NodeJS.Immediate | undefined;

/**
 * Lets a large body wait for its next turn. Node would read megabytes of each before it serves any other connection, so a small delivery
 * beside them would wait for all of them.
 */
export function waitForTurn(body: Readable): void {
  body.pause();
  waiting.push(body);
  next ??= setImmediate(readOn);
}

function readOn(): void {
  for (const body of waiting.splice(0, IN_A_TURN)) body.resume();
  next = waiting.length > 0 ? setImmediate(readOn) : undefined;
}
