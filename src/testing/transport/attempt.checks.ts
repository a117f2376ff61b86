import type { EffectMessage, EffectReport } from '../../transports/effect-transport.js';
import { withTimeLimit } from '../../core/time/waits.js';
import { ACK, expectEqual, expectSo, idsOf, PATIENCE_MS, reportOf, until, type Check } from './scene.js';

/** By how much an engine's clock and timers may be coarser than ours. */
const COARSE_MS = 25;

export const ATTEMPTS: Record<string, Check> = {
  'again: the message comes after its delay, not before, as the next attempt': async (scene) => {
    const transport = scene.transport();
    const { arrivals } = await scene.consume(transport, (_, nth) =>
      nth < 3 ? { kind: 'again', delayMs: nth * 1_200 } : ACK,
    );
    await scene.publish(transport, scene.message());
    await until('the message comes three times', () => arrivals.length === 3);
    const [first, second, third] = arrivals.map(({ at }) => at) as [number, number, number];
    expectSo(second - first >= 1_200 - COARSE_MS, `1200 ms between attempts, received ${second - first} ms`);
    expectSo(third - second >= 2_400 - COARSE_MS, `2400 ms between attempts, received ${third - second} ms`);
    expectEqual(
      arrivals.map(({ delivery }) => delivery.attempt),
      [1, 2, 3],
      'the attempts',
    );
    expectEqual(arrivals[2]!.message, arrivals[0]!.message, 'the same message');
  },

  'again: a short delay does not wait for a longer one': async (scene) => {
    const transport = scene.transport();
    const [long, short] = scene.messages(2) as [EffectMessage, EffectMessage];
    const { arrivals } = await scene.consume(transport, ({ message, delivery }) =>
      delivery.attempt > 1 ? ACK : { kind: 'again', delayMs: message.id === long.id ? 4_000 : 100 },
    );
    await scene.publish(transport, long, short);
    await until('both come again', () => arrivals.length >= 4);
    const again = arrivals.filter(({ delivery }) => delivery.attempt > 1);
    expectEqual(idsOf(again), [short.id, long.id], 'the short delay first');
  },

  'a message comes again when its handler rejects': async (scene) => {
    const transport = scene.transport();
    const { arrivals } = await scene.consume(transport, async (_, nth) => {
      if (nth === 1) throw new Error('the handler rejects');
      return ACK;
    });
    await scene.publish(transport, scene.message());
    await until('the message comes again', () => arrivals.length === 2);
    expectEqual(
      arrivals.map(({ delivery }) => delivery.attempt),
      [1, 2],
      'the attempts',
    );
  },

  'close: a run that ends within the grace is acknowledged, and no other one begins': async (scene) => {
    const transport = scene.transport();
    let release = () => undefined as void;
    const released = new Promise<void>((resolve) => (release = resolve));
    const first = await scene.consume(transport, () => released.then(() => ACK), { concurrency: 1 });
    const [begun, waiting] = scene.messages(2) as [EffectMessage, EffectMessage];
    await scene.publish(transport, begun, waiting);
    await until('one runs', () => first.arrivals.length > 0);
    const closed = first.close(PATIENCE_MS);
    release();
    await withTimeLimit(closed, PATIENCE_MS, 'close()');
    expectEqual(first.arrivals.length, 1, 'one run');
    const running = first.arrivals[0]!.message.id;
    const next = await scene.consume(scene.transport());
    await until('the other message comes to the next consumer', () => next.arrivals.length > 0);
    expectEqual(
      new Set(idsOf(next.arrivals)),
      new Set([running === begun.id ? waiting.id : begun.id]),
      'only it',
    );
  },

  'close: a run that outlasts the grace has its signal, and its message comes to another consumer': async (
    scene,
  ) => {
    const transport = scene.transport();
    const first = await scene.consume(transport, () => new Promise(() => undefined));
    const message = scene.message();
    await scene.publish(transport, message);
    await until('it runs', () => first.arrivals.length > 0);
    await withTimeLimit(first.close(100), PATIENCE_MS, 'close()');
    expectSo(first.arrivals[0]!.delivery.signal.aborted, 'that the signal has fired');
    const next = await scene.consume(scene.transport());
    await until('the message comes to the next consumer', () => next.arrivals.length > 0);
    expectEqual(next.arrivals[0]!.message.id, message.id, 'the message');
    await first.close(0);
  },
};

export const REPORTS: Record<string, Check> = {
  'a report comes as it was, and again when its handler rejects': async (scene) => {
    const transport = scene.transport();
    const reports = [
      reportOf({ result: '{"text":"漢字"}' }),
      reportOf({ outcome: 'dead', error: 'HttpFailure: 422 🦆', place: 'charge.ts:12', life: 4 }),
    ];
    await Promise.all(reports.map((report) => transport.report(report)));
    const came = new Map<string, EffectReport[]>();
    await scene.onReports(transport, async (report) => {
      const before = came.get(report.id) ?? [];
      came.set(report.id, [...before, { ...report }]);
      if (before.length === 0) throw new Error('the handler rejects');
    });
    for (const report of reports) {
      await until('the report comes twice', () => (came.get(report.id) ?? []).length >= 2);
      expectEqual(came.get(report.id)![1], report, 'the report');
    }
  },

  'a report waits for a reader': async (scene) => {
    const report = reportOf();
    await scene.transport().report(report);
    const came: string[] = [];
    const reader = await scene.onReports(scene.transport(), async ({ id }) => void came.push(id));
    await until('the report comes', () => came.includes(report.id));
    await withTimeLimit(reader.close(PATIENCE_MS), PATIENCE_MS, 'close()');
  },
};
