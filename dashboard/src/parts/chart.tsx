import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock } from '../format.ts';

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
  }, [props.lines.map((line) => line.label).join()]);
  useEffect(() => plot.current?.setData(data), [data]);

  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{props.title}</span>
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
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
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
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [tooltip(lines, format)] },
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
