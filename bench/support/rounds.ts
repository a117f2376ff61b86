import { boundBy, countCpu, type CpuUse } from './cpu.js';
import { keepProfile } from './profile.js';
import type { Program } from './program.js';
import type { Server } from './server.js';
import type { Settings } from './settings.js';
import { figure, type Figure } from './statistics.js';

/** One of those that are compared. */
export interface Contender {
  readonly name: string;
  /** Whose CPU is its own. */
  readonly programs: readonly Program[];
  /** Before the first round. */
  warm?(): Promise<void>;
  /** Before each round, unmeasured: V8 forgets compiled code while the others have their rounds. */
  rewarm?(): Promise<void>;
  /** One round: what it did, how often, and how long it took. */
  round(nth: number): Promise<Round>;
}

export interface Round {
  readonly seconds: number;
  readonly count: number;
  readonly values: Readonly<Record<string, number>>;
}

export interface Measured {
  readonly name: string;
  /** `nodeMicros` and `postgresMicros` are CPU for one request or job: what other work on the machine disturbs least. */
  readonly figures: Readonly<Record<string, Figure>>;
  /** What bound the last round. */
  readonly bound: string;
}

/** Each in turn, round after round (A B A B): what disturbs the machine disturbs all. */
export async function inTurn(
  server: Server,
  all: readonly Contender[],
  { rounds, only, profile }: Settings,
  load?: Program,
): Promise<Measured[]> {
  const asked = ({ name }: Contender) => only.length === 0 || only.some((text) => name.includes(text));
  const contenders = all.filter(asked);
  const taken = new Map<string, { round: Round; use: CpuUse }[]>(contenders.map(({ name }) => [name, []]));
  for (const contender of contenders) await contender.warm?.();
  for (let nth = 1; nth <= rounds; nth += 1) {
    for (const contender of contenders) {
      await contender.rewarm?.();
      await server.quiet();
      const used = countCpu({
        node: contender.programs.map(({ pid }) => pid),
        postmaster: server.postmaster,
        load: load?.pid,
      });
      const recorded =
        profile === undefined || nth < rounds
          ? []
          : await Promise.all(contender.programs.map((program) => program.profile()));
      const round = await contender.round(nth);
      taken.get(contender.name)!.push({ round, use: used() });
      for (const [at, end] of recorded.entries()) {
        const name =
          contender.programs.length === 1 ? contender.name : `${contender.name}, process ${at + 1}`;
        console.log(keepProfile(profile!, name, await end(), round.count));
      }
      const values = Object.entries(round.values).map(([one, value]) => `${one} ${value.toFixed(1)}`);
      console.log(`${nth}/${rounds} ${contender.name}: ${values.join(', ')}`);
    }
  }
  return contenders.map(({ name }) => measured(name, taken.get(name)!));
}

function measured(name: string, all: readonly { round: Round; use: CpuUse }[]): Measured {
  const figures: Record<string, Figure> = {};
  for (const one of Object.keys(all[0]!.round.values)) {
    figures[one] = figure(all.map(({ round }) => round.values[one]!));
  }
  const micros = (seconds: number, { count }: Round) => (seconds / count) * 1e6;
  figures.nodeMicros = figure(all.map(({ round, use }) => micros(use.node, round)));
  figures.postgresMicros = figure(all.map(({ round, use }) => micros(use.postgres, round)));
  const last = all.at(-1)!;
  return { name, figures, bound: boundBy(last.use, last.round.seconds) };
}
