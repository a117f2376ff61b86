// CPU profiles of the programs under a round, and where their time went.
import { mkdirSync, writeFileSync } from 'node:fs';
import { Session, type Profiler } from 'node:inspector/promises';
import { join } from 'node:path';

/** In the program: records until it is told to stop. */
export class Recorder {
  private readonly session = new Session();

  async begin(): Promise<void> {
    this.session.connect();
    await this.session.post('Profiler.enable');
    await this.session.post('Profiler.setSamplingInterval', { interval: 200 });
    await this.session.post('Profiler.start');
  }

  async end(): Promise<Profiler.Profile> {
    const { profile } = await this.session.post('Profiler.stop');
    this.session.disconnect();
    return profile;
  }
}

/** Keeps a profile for a viewer of flame graphs (a browser's, speedscope), and says where the time went. */
export function keepProfile(folder: string, name: string, profile: Profiler.Profile, count: number): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${name.replaceAll(/\W+/g, '-')}.cpuprofile`), JSON.stringify(profile));
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const micros = new Map<number, number>();
  for (const [index, id] of profile.samples!.entries()) {
    micros.set(id, (micros.get(id) ?? 0) + profile.timeDeltas![index]!);
  }
  const byPart = new Map<string, number>();
  const byFunction = new Map<string, number>();
  const whole = new Map<string, number>();
  const add = (to: Map<string, number>, key: string, value: number) =>
    to.set(key, (to.get(key) ?? 0) + value);
  const walk = (id: number, above: ReadonlySet<string>): number => {
    const node = nodes.get(id)!;
    const { functionName, url, lineNumber } = node.callFrame;
    const own = micros.get(id) ?? 0;
    const part = partOf(url, functionName);
    const label = `${functionName || '(anonymous)'} ${part}:${lineNumber + 1}`;
    add(byPart, part.startsWith('src/') ? part.split('/').slice(0, 2).join('/') : part, own);
    add(byFunction, label, own);
    const inside = new Set(above).add(label);
    const all = own + (node.children ?? []).reduce((sum, child) => sum + walk(child, inside), 0);
    // A function that calls itself is counted once.
    if (!above.has(label)) add(whole, label, all);
    return all;
  };
  walk(profile.nodes[0]!.id, new Set());
  const table = (title: string, from: Map<string, number>, most: number) => [
    `  ${title}`,
    ...[...from]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(([key, value]) => `${(value / count).toFixed(2).padStart(10)} ${key}`),
  ];
  return [
    `${name}: microseconds for each of ${count}`,
    ...table('by part', byPart, 25),
    ...table('by function, its own', byFunction, 45),
    ...table('by function, with what it calls', whole, 70),
  ].join('\n');
}

function partOf(url: string, functionName: string): string {
  const module = /node_modules\/((?:@[^/]+\/)?[^/]+)(?!.*node_modules)/.exec(url)?.[1];
  if (module !== undefined) return module;
  const own = /\/(src\/.*)$/.exec(url)?.[1] ?? /\/(bench\/.*)$/.exec(url)?.[1];
  return own ?? (url === '' ? (functionName.startsWith('(') ? functionName : 'native') : url);
}
