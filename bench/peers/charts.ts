// Draws results as SVG: one bar for each contender, with a line from its lowest to its highest round.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse, View } from 'vega';
import { compile, type TopLevelSpec } from 'vega-lite';
import { serve } from '../support/program.js';
import type { Measured } from '../support/rounds.js';

const TITLES: Record<string, string> = { rate: 'a second', p50: 'p50 in ms' };

async function draw(bench: string): Promise<void> {
  const file = (end: string) => fileURLToPath(new URL(`../results/${bench}.${end}`, import.meta.url));
  const { measured } = JSON.parse(readFileSync(file('json'), 'utf8')) as { measured: readonly Measured[] };
  const shown = measured.some(({ figures }) => 'rate' in figures) ? 'rate' : 'p50';
  const values = measured.map(({ name, figures }) => ({ name, ...figures[shown] }));
  const y = { field: 'name', type: 'nominal', sort: null, title: null, axis: { labelLimit: 320 } } as const;
  const spec: TopLevelSpec = {
    title: `${bench}: ${TITLES[shown]}`,
    width: 520,
    data: { values },
    layer: [
      {
        mark: 'bar',
        encoding: {
          y,
          x: { field: 'median', type: 'quantitative', title: TITLES[shown]! },
          color: {
            condition: {
              test: "indexof(datum.name, 'ours') >= 0 || indexof(datum.name, 'ingest') >= 0",
              value: '#2b6cb0',
            },
            value: '#a0aec0',
          },
        },
      },
      {
        mark: 'rule',
        encoding: { y, x: { field: 'lowest', type: 'quantitative' }, x2: { field: 'highest' } },
      },
    ],
  };
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  writeFileSync(file('svg'), await view.toSVG());
}

await serve(async () => ({
  ready: {},
  run: (order) => draw((order as { readonly bench: string }).bench),
  stop: async () => undefined,
}));
