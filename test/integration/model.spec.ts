import * as fc from 'fast-check';
import type { Command } from './model/commands.js';
import { InboxModel } from './model/inbox.model.js';
import { RARE, rest, sequences } from './model/sequences.js';
import { World } from './model/world.js';

/** `MODEL_RUNS` makes it as long as one likes, with a seed of its own each time; `MODEL_SEED` repeats one. */
const { MODEL_RUNS, MODEL_SEED } = process.env;
const RUNS = Number(MODEL_RUNS ?? 30);
const SEED = MODEL_SEED ?? (MODEL_RUNS === undefined ? '20261128' : undefined);
const COMMANDS = 80;
/** A busy machine gets through fewer; of a failure it shows what is shrunk by then. */
const LIMIT_MS = MODEL_RUNS === undefined ? 60_000 : RUNS * 5_000 + 60_000;

const WAYS = {
  handle: [
    'done',
    'permanent-error',
    'attempts-exhausted',
    'last-attempt-lost',
    'to be retried',
    'refused by the fence',
  ],
  mail: ['done', 'attempts-exhausted', 'key-expired', 'once more', 'erased'],
  charge: ['done', 'in-doubt', 'to be retried', 'ended late'],
} as const;

const seen = new Set<string>();
let world: World;
beforeAll(async () => {
  world = await World.start();
}, 60_000);
afterAll(() => world?.stop());

/** Plays the commands on empty tables, and then until nothing is owed. */
async function play(sequence: Iterable<Command>): Promise<void> {
  const model = new InboxModel((what) => seen.add(what));
  await world.reset();
  try {
    await fc.asyncModelRun(() => ({ model, real: world }), sequence);
    for (const command of rest(model)) await command.run(model, world);
  } finally {
    await world.reset();
  }
}

describe('two instances on one database do what the model says', () => {
  it.each(Object.entries(RARE))('%s', async (_, sequence) => {
    await play(sequence);
  });

  it('which by then has seen every way in which a row can end', () => {
    const ways = Object.entries(WAYS).flatMap(([unit, ends]) => ends.map((one) => `${unit} ${one}`));
    ways.push('revived by a redelivery', 'pruned');
    expect(ways.filter((one) => !seen.has(one))).toEqual([]);
  });

  it(
    'whatever comes in whatever order',
    async () => {
      await fc.assert(fc.asyncProperty(sequences(COMMANDS), play), {
        numRuns: RUNS,
        seed: SEED === undefined ? undefined : Number(SEED),
        // Long sequences are where rows get old.
        unbiased: true,
        plugins: [fc.interruptAfterTimeLimit(LIMIT_MS)],
      });
    },
    LIMIT_MS + 60_000,
  );
});
