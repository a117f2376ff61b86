// Loaded before a receiver: the process is wrong about the time. CLOCK_MINUTES says by how much; several, and its clock jumps from
// each to the next while it runs. Timers and performance.now() are right, as they are on a machine whose clock is set.
const STEP_MS = 1_000;
const RealDate = Date;
const offsets = (process.env.CLOCK_MINUTES ?? '0').split(',').map((minutes) => Number(minutes) * 60_000);

function now(): number {
  const step = Math.floor(performance.now() / STEP_MS);
  return RealDate.now() + offsets[step % offsets.length]!;
}

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args: unknown[], newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === 'now' ? now : (Reflect.get(target, name) as unknown)),
});
