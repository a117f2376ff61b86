/** One application: a value of each axis. */
export interface Cell {
  readonly nest: '11' | '12';
  readonly adapter: 'express' | 'fastify';
  readonly typeorm: '0.3' | '1';
  readonly node: '20.19' | '22' | '24';
  readonly postgres: '14' | '15' | '16' | '17' | '18';
}

const AXES: { readonly [K in keyof Cell]: readonly Cell[K][] } = {
  nest: ['11', '12'],
  adapter: ['express', 'fastify'],
  typeorm: ['0.3', '1'],
  node: ['20.19', '22', '24'],
  postgres: ['14', '15', '16', '17', '18'],
};

/** Applications of a full run. */
const TRIED = 20;

/** The two that CI builds. */
export const IN_CI: readonly Cell[] = [
  { nest: '11', adapter: 'express', typeorm: '0.3', node: '20.19', postgres: '18' },
  { nest: '12', adapter: 'fastify', typeorm: '1', node: '22', postgres: '18' },
];

export function axes(): Readonly<Record<keyof Cell, readonly string[]>> {
  return AXES;
}

/** Cells that hold every pair of values of two axes, the two of CI first: greedy, by the number of new pairs. */
export function allPairs(): Cell[] {
  const missing = new Set(everyCell().flatMap(pairsOf));
  const chosen: Cell[] = [];
  const take = (cell: Cell) => {
    chosen.push(cell);
    for (const pair of pairsOf(cell)) missing.delete(pair);
  };
  for (const cell of IN_CI) take(cell);
  const gain = (cell: Cell) => pairsOf(cell).filter((pair) => missing.has(pair)).length;
  while (missing.size > 0) take(everyCell().reduce((best, cell) => (gain(cell) > gain(best) ? cell : best)));
  return fill(chosen);
}

/** Pairs of five axes fit into sixteen cells: the others that are tried hold as many triples as may be that no cell has. */
function fill(chosen: readonly Cell[]): Cell[] {
  const cells = [...chosen];
  const seen = new Set(cells.flatMap(triplesOf));
  const gain = (cell: Cell) => triplesOf(cell).filter((triple) => !seen.has(triple)).length;
  while (cells.length < TRIED) {
    const next = everyCell().reduce((best, cell) => (gain(cell) > gain(best) ? cell : best));
    cells.push(next);
    for (const triple of triplesOf(next)) seen.add(triple);
  }
  return cells;
}

function triplesOf(cell: Cell): string[] {
  const values = Object.entries(cell).map(([axis, value]) => `${axis}=${String(value)}`);
  return values.flatMap((one, at) =>
    values
      .slice(at + 1)
      .flatMap((two, next) => values.slice(at + next + 2).map((three) => `${one} ${two} ${three}`)),
  );
}

export function nameOf(cell: Cell): string {
  return `nest${cell.nest}-${cell.adapter}-typeorm${cell.typeorm}-node${cell.node}-pg${cell.postgres}`;
}

function everyCell(): Cell[] {
  return AXES.nest.flatMap((nest) =>
    AXES.adapter.flatMap((adapter) =>
      AXES.typeorm.flatMap((typeorm) =>
        AXES.node.flatMap((node) =>
          AXES.postgres.map((postgres) => ({ nest, adapter, typeorm, node, postgres })),
        ),
      ),
    ),
  );
}

export function pairsOf(cell: Cell): string[] {
  const values = Object.entries(cell).map(([axis, value]) => `${axis}=${String(value)}`);
  return values.flatMap((one, index) => values.slice(index + 1).map((other) => `${one} ${other}`));
}
