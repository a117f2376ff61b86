import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { ago, clock } from '../format.ts';
import { href } from '../router.ts';
import { useZone } from '../zone.ts';

export interface Line {
  readonly label: string;
  /** Name of a colour in the style sheet. */
  readonly colour: '--accent' | '--bad' | '--warn' | '--good' | '--line-2';
  readonly values: (number | null)[];
  readonly fill?: boolean;
}

/** A live chart; its figures are also in its label, for those who cannot see it. */
export function Chart(props: {
  title: string;
  at: number[];
  lines: Line[];
  format: (value: number) => string;
  summary: string;
}) {
  const zone = useZone();
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data: uPlot.AlignedData = [
    props.at.map((ms) => ms / 1_000),
    ...props.lines.map((line) => line.values),
  ];

  useEffect(() => {
    const element = box.current!;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element, props), data, element);
    };
    draw();
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener('change', draw);
      plot.current?.destroy();
    };
  }, [props.lines.map((line) => line.label).join(), zone]);
  useEffect(() => plot.current?.setData(data), [data]);

  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">
          {props.title} <span class="faint">{ageOf(props.at, props.lines)}</span>
        </span>
        <span class="legend">
          {props.lines.map((line) => (
            <span key={line.label} class={`key ${line.colour.slice(2)}`}>
              {line.label}
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${props.title}: ${props.summary}`} />
    </figure>
  );
}

const HEIGHT = 140;

/** How old the newest figure is, where it is not of the newest step. */
function ageOf(at: number[], lines: Line[]): string {
  const last = at.findLastIndex((_, index) => lines.some((line) => line.values[index] !== null));
  if (last < 0) return 'no figures';
  return last < at.length - 2 ? `last ${ago(new Date(at[last]!).toISOString())}` : '';
}

/** Figures with none beside them: a line alone would not show them. */
export function lonePoints(values: readonly (number | null | undefined)[]): number[] {
  const has = (index: number) => values[index] !== null && values[index] !== undefined;
  return [...values.keys()].filter((index) => has(index) && !has(index - 1) && !has(index + 1));
}

/** Goes to the events of the time that was marked with the pointer. */
function goTo(plot: uPlot): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  const at = (x: number) => new Date(plot.posToVal(x, 'x') * 1_000).toISOString().replace(/\.\d+Z$/, 'Z');
  location.hash = href('events', { q: `after:${at(left)} before:${at(left + width)}` });
}

function optionsOf(
  element: HTMLElement,
  { lines, format }: { lines: Line[]; format: (value: number) => string },
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--faint'),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: colour('--grid'), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false } },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 22,
        space: 60,
        values: (_, ticks) => ticks.map((at) => clock(at * 1_000)),
      },
      { ...axis, size: 54, space: 32, values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 1.5,
        fill: line.fill ? `color-mix(in srgb, ${colour(line.colour)} 12%, transparent)` : undefined,
        points: {
          show: true,
          size: 5,
          filter: (plot: uPlot, index: number) => lonePoints([...(plot.data[index] ?? [])]),
        },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [tooltip(lines, format)], setSelect: [goTo] },
  };
}

/** The values under the pointer, in a box that follows it. */
function tooltip(lines: Line[], format: (value: number) => string) {
  return (plot: uPlot) => {
    const box = tipOf(plot);
    const { idx, left } = plot.cursor;
    if (idx === null || idx === undefined || left === undefined || left < 0) {
      box.hidden = true;
      return;
    }
    const values = lines.map((line, index) => {
      const value = plot.data[index + 1]?.[idx];
      return `${line.label} ${value === null || value === undefined ? '–' : format(value)}`;
    });
    box.textContent = [clock(plot.data[0][idx]! * 1_000), ...values].join(' · ');
    box.hidden = false;
    box.style.left = `${Math.min(left, plot.over.clientWidth - box.offsetWidth)}px`;
  };
}

function tipOf(plot: uPlot): HTMLElement {
  const known = plot.over.querySelector<HTMLElement>('.tip');
  if (known !== null) return known;
  const box = document.createElement('div');
  box.className = 'tip';
  plot.over.append(box);
  return box;
}
