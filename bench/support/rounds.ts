import { boundBy, countCpu, type CpuUse } from './cpu.js';
import type { Program } from './program.js';
import type { Server } from './server.js';
import { figure, type Figure } from './statistics.js';

/** One of those that are compared. */
export interface Contender {
  readonly name: string;
  readonly program: Program;
  /** One round: its values by their names, and how long it took. */
  round(nth: number): Promise<Round>;
}

export interface Round {
  readonly seconds: number;
  readonly values: Readonly<Record<string, number>>;
}

export interface Measured {
  readonly name: string;
  readonly figures: Readonly<Record<string, Figure>>;
  /** What bound the median round. */
  readonly bound: string;
}

/** Each in turn, round after round (A B A B): what disturbs the machine disturbs all. */
export async function inTurn(
  server: Server,
  contenders: readonly Contender[],
  rounds: number,
  load?: Program,
): Promise<Measured[]> {
  const taken = new Map<string, { round: Round; use: CpuUse }[]>(contenders.map(({ name }) => [name, []]));
  for (let nth = 1; nth <= rounds; nth += 1) {
    for (const contender of contenders) {
      await server.quiet();
      const used = countCpu({
        node: [contender.program.pid],
        postmaster: server.postmaster,
        load: load?.pid,
      });
      const round = await contender.round(nth);
      const values = Object.entries(round.values).map(([one, value]) => `${one} ${value.toFixed(1)}`);
      console.log(`${nth}/${rounds} ${contender.name}: ${values.join(', ')}`);
      taken.get(contender.name)!.push({ round, use: used() });
    }
  }
  return contenders.map(({ name }) => {
    const all = taken.get(name)!;
    const names = Object.keys(all[0]!.round.values);
    const middle = all[Math.floor(all.length / 2)]!;
    return {
      name,
      figures: Object.fromEntries(names.map((one) => [one, figure(all.map(({ round }) => round.values[one]!))])),
      bound: boundBy(middle.use, middle.round.seconds),
    };
  });
}
