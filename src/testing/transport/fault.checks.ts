import type { EffectMessage } from '../../transports/effect-transport.js';
import { withTimeLimit } from '../../core/time/waits.js';
import {
  ACK,
  expectEqual,
  expectSo,
  idsOf,
  PATIENCE_MS,
  reportOf,
  until,
  type Check,
  type Scene,
} from './scene.js';

export const FAULTS: Record<string, Check> = {
  'publish() ends when the engine is down, and works when it is back': async (scene, { engine }) => {
    const transport = scene.transport();
    await scene.publish(transport, scene.message());
    await engine!.kill();
    const [one, two] = scene.messages(2) as [EffectMessage, EffectMessage];
    try {
      const told = await withTimeLimit(
        transport.publish([one, two]).catch((error: Error) => [error, error]),
        PATIENCE_MS,
        'publish()',
      );
      expectEqual(
        told.map((error) => error instanceof Error),
        [true, true],
        'an error for each message',
      );
      const unknown = await withTimeLimit(
        transport.report(reportOf()).catch(String),
        PATIENCE_MS,
        'report()',
      );
      expectSo(unknown !== undefined, 'that report() rejects');
    } finally {
      await engine!.start();
    }
    await scene.publishAtLast(transport, one, two);
    const { arrivals } = await scene.consume(transport);
    await until('all come', () => new Set(idsOf(arrivals)).size === 3);
  },

  'consume() and onReports() go on when the engine is back': async (scene, { engine }) => {
    const transport = scene.transport();
    const before = await scene.consume(transport);
    const reports: string[] = [];
    await scene.onReports(transport, async ({ id }) => void reports.push(id));
    await scene.publish(transport, scene.message());
    await until('the first message comes', () => before.arrivals.length > 0);
    await engine!.kill();
    // One that begins meanwhile gets messages, too.
    const effects = [`${scene.effect}.late`];
    let late: Awaited<ReturnType<Scene['consume']>>;
    try {
      late = await scene.consume(scene.transport(), undefined, { effects });
    } finally {
      await engine!.start();
    }
    const messages = [scene.message(), scene.message({ effect: effects[0]! })] as const;
    await scene.publishAtLast(transport, ...messages);
    await until('a message comes after the restart', () => idsOf(before.arrivals).includes(messages[0].id));
    await until('and to the one that began meanwhile', () => idsOf(late.arrivals).includes(messages[1].id));
    const report = reportOf();
    await until('report() confirms', () =>
      transport.report(report).then(
        () => true,
        () => false,
      ),
    );
    await until('the report comes', () => reports.includes(report.id));
  },

  'a run that was on while the engine went down is acknowledged, or comes again': async (
    scene,
    { engine },
  ) => {
    const transport = scene.transport();
    let release = () => undefined as void;
    const released = new Promise<void>((resolve) => (release = resolve));
    const { arrivals } = await scene.consume(transport, () => released.then(() => ACK));
    await scene.publish(transport, scene.message());
    await until('it runs', () => arrivals.length > 0);
    await engine!.kill();
    release();
    await engine!.start();
    const last = scene.message();
    await scene.publishAtLast(transport, last);
    await until('the last message comes', () => idsOf(arrivals).includes(last.id));
  },

  'what is confirmed comes, although the engine is killed while messages are published': async (
    scene,
    { engine },
  ) => {
    const transport = scene.transport();
    const confirmed: string[] = [];
    let isDown = false;
    const publishing = async () => {
      while (!isDown) {
        const batch = scene.messages(20);
        const told = await transport.publish(batch).catch(() => batch.map(() => new Error('nothing known')));
        confirmed.push(...batch.filter((_, n) => told[n] === undefined).map(({ id }) => id));
      }
    };
    const publishers = Promise.all([publishing(), publishing(), publishing()]);
    await until('some are confirmed', () => confirmed.length >= 200);
    await engine!.kill();
    isDown = true;
    await publishers;
    await engine!.start();
    const { arrivals } = await scene.consume(transport);
    const missing = () => {
      const came = new Set(idsOf(arrivals));
      return confirmed.filter((id) => !came.has(id));
    };
    await until('all that was confirmed comes', () => missing().length === 0);
  },
};
