/** Bodies of a provider's usual size are read as they come. */
const LARGE_BYTES = 64 * 1024;
/** How many large bodies are read in one turn of the event loop. Each brings a chunk or two. */
const IN_A_TURN = 2;

/** Continues the reading of a large body. */
type GoOn = () => void;

/** Those that wait, the first first. */
const waiting: GoOn[] = [];
let next: NodeJS.Immediate | undefined;

/**
 * Large bodies take turns. Node would read megabytes of each before it serves any other connection, so a small delivery beside them would
 * wait for all of them.
 * @param bytes how many have come of the body
 * @param pause stops it
 * @param goOn reads it on
 */
export function takeTurns(bytes: number, pause: () => void, goOn: GoOn): void {
  if (bytes <= LARGE_BYTES) return;
  pause();
  waiting.push(goOn);
  next ??= setImmediate(readOn);
}

function readOn(): void {
  for (const goOn of waiting.splice(0, IN_A_TURN)) goOn();
  next = waiting.length > 0 ? setImmediate(readOn) : undefined;
}
