import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Seconds of CPU, by who used them. */
export interface CpuUse {
  readonly node: number;
  readonly postgres: number;
  readonly load: number;
}

const TICKS = 100;

/** Seconds of CPU that a process has used, its ended children included. 0 where /proc is not to be had. */
function secondsOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0) / TICKS;
  } catch {
    return 0;
  }
}

/** The parent of a process. */
export function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
}

function serverSeconds(postmaster: number): number {
  try {
    const children = readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && parentOf(pid) === postmaster);
    return [postmaster, ...children].reduce((sum, pid) => sum + secondsOf(pid), 0);
  } catch {
    return 0;
  }
}

/** Seconds of CPU of a process group, by the id of its leader: RabbitMQ is started by a script. */
export function secondsOfGroup(leader: number): number {
  const isOfGroup = (pid: number) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]) === leader;
    } catch {
      return false;
    }
  };
  const pids = readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0);
  return pids.filter(isOfGroup).reduce((sum, pid) => sum + secondsOf(pid), 0);
}

export interface Processes {
  readonly node: readonly number[];
  readonly postmaster: number;
  readonly load?: number;
}

/** Starts to count; what is returned says how much was used since. */
export function countCpu({ node, postmaster, load }: Processes): () => CpuUse {
  const read = () => ({
    node: node.reduce((sum, pid) => sum + secondsOf(pid), 0),
    postgres: serverSeconds(postmaster),
    load: load === undefined ? 0 : secondsOf(load),
  });
  const before = read();
  return () => {
    const after = read();
    return {
      node: after.node - before.node,
      postgres: after.postgres - before.postgres,
      load: after.load - before.load,
    };
  };
}

/** What bound a run: the cores each used, and who was at his end. */
export function boundBy(use: CpuUse, seconds: number): string {
  const cores = { node: use.node / seconds, postgres: use.postgres / seconds, load: use.load / seconds };
  const all = cores.node + cores.postgres + cores.load;
  const shares = `node ${cores.node.toFixed(2)}, postgres ${cores.postgres.toFixed(2)}, load ${cores.load.toFixed(2)} cores`;
  if (cores.node > 0.85) return `Node's thread (${shares})`;
  if (all > 0.85 * availableParallelism()) return `all cores (${shares})`;
  return `waiting (${shares})`;
}
