import type { EffectMessage } from '../../transports/effect-transport.js';
import { ACK, expectEqual, expectSo, idsOf, PATIENCE_MS, until, type Check } from './scene.js';

/** JSON texts that an encoding may change. */
const PAYLOADS = [
  '',
  'null',
  '{"text":"żółć 漢字 🦆 \\u0000 \u2028 \\" \\\\ ","n":12345678901234567890}',
  JSON.stringify('"'.repeat(250_000)),
  JSON.stringify('é'.repeat(250_000)),
];

export const DELIVERY: Record<string, Check> = {
  'a message comes to a consumer as it was published': async (scene) => {
    const transport = scene.transport();
    const { arrivals } = await scene.consume(transport);
    const message = scene.message({
      life: 3,
      orderKey: transport.keepsOrder ? 'customer é/1' : undefined,
      event: { source: 'stripe', tenant: 'żółć', eventId: 'evt:1/漢字 .*> 🦆' },
      trace: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    });
    await scene.publish(transport, message);
    await until('the message comes', () => arrivals.length > 0);
    const defined = Object.fromEntries(Object.entries(message).filter(([, value]) => value !== undefined));
    expectEqual({ ...arrivals[0]!.message }, defined, 'the message');
    expectEqual(arrivals[0]!.delivery.attempt, 1, 'the attempt');
  },

  'payloads of 0.5 MB, in Unicode and without content come as they were': async (scene) => {
    const transport = scene.transport();
    const { arrivals } = await scene.consume(transport);
    const messages = PAYLOADS.map((payload) => scene.message({ payload }));
    await scene.publish(transport, ...messages);
    await until('all come', () => new Set(idsOf(arrivals)).size === messages.length);
    for (const { id, payload } of messages) {
      const came = arrivals.find(({ message }) => message.id === id)!.message.payload;
      expectSo(came === payload, `the payload ${payload.slice(0, 40)}, received ${came.slice(0, 40)}`);
    }
  },

  'each message of a batch is confirmed, and comes': async (scene) => {
    const transport = scene.transport();
    const messages = scene.messages(200);
    await scene.publish(transport, ...messages);
    const { arrivals } = await scene.consume(transport);
    await until('all come', () => new Set(idsOf(arrivals)).size === messages.length);
    expectEqual(await transport.publish([]), [], 'no answer for no message');
  },

  'a consumer gets the messages of its effects only': async (scene) => {
    const transport = scene.transport();
    const effects = [scene.effect, `${scene.effect}.b_-`];
    const { arrivals } = await scene.consume(transport, undefined, { effects });
    const theirs = effects.map((effect) => scene.message({ effect }));
    await scene.publish(transport, scene.message({ effect: `${scene.effect}.c` }), ...theirs);
    await until('those of both effects come', () => new Set(idsOf(arrivals)).size === 2);
    expectEqual(new Set(idsOf(arrivals)), new Set(theirs.map(({ id }) => id)), 'no other message');
  },

  'a message published twice has its id, and a revived one comes again': async (scene) => {
    const transport = scene.transport();
    const { arrivals } = await scene.consume(transport);
    const message = scene.message();
    await scene.publish(transport, message, message);
    await scene.publish(transport, message);
    const revived = { ...message, messageId: `${message.id}-1`, life: 1 };
    await scene.publish(transport, revived);
    await until('the revived message comes', () => arrivals.some(({ message: { life } }) => life === 1));
    expectEqual(new Set(idsOf(arrivals)), new Set([message.id]), 'one id');
  },

  'what is acknowledged does not come to the next consumer': async (scene) => {
    const transport = scene.transport();
    const messages = scene.messages(5);
    await scene.publish(transport, ...messages);
    const first = await scene.consume(transport);
    await until('all come', () => first.arrivals.length >= messages.length);
    await first.close(PATIENCE_MS);
    const next = await scene.consume(scene.transport());
    const last = scene.message();
    await scene.publish(transport, last);
    await until('the last one comes', () => next.arrivals.length > 0);
    expectEqual(idsOf(next.arrivals), [last.id], 'the last message alone');
  },

  'at most so many run at once as the consumer says, over all its effects': async (scene) => {
    const transport = scene.transport();
    const effects = [scene.effect, `${scene.effect}.b`];
    let [running, most] = [0, 0];
    let release = () => undefined as void;
    const released = new Promise<void>((resolve) => (release = resolve));
    const answer = async () => {
      most = Math.max(most, (running += 1));
      await released;
      running -= 1;
      return ACK;
    };
    const { arrivals } = await scene.consume(transport, answer, { effects, concurrency: 3 });
    const messages = effects.flatMap((effect) => Array.from({ length: 6 }, () => scene.message({ effect })));
    await scene.publish(transport, ...messages);
    await until('three run', () => running === 3);
    release();
    await until('all come', () => new Set(idsOf(arrivals)).size === messages.length);
    expectEqual(most, 3, 'the most that ran at once');
  },

  'messages of one order key run one after the other, also when one comes again': async (scene) => {
    const transport = scene.transport();
    if (!transport.keepsOrder) return;
    const done: string[] = [];
    let overlaps = 0;
    const running = new Set<string>();
    const { arrivals } = await scene.consume(transport, async ({ message: { id, orderKey }, delivery }) => {
      if (running.has(orderKey!)) overlaps += 1;
      running.add(orderKey!);
      await new Promise((resolve) => setTimeout(resolve, 10));
      running.delete(orderKey!);
      if (id === messages[0]!.id && delivery.attempt === 1) return { kind: 'again', delayMs: 1_000 };
      done.push(id);
      return ACK;
    });
    const messages = Array.from({ length: 20 }, (_, n) => scene.message({ orderKey: `key ${n % 2}` }));
    await scene.publish(transport, ...messages);
    await until('all have run', () => new Set(done).size === messages.length);
    expectEqual(overlaps, 0, 'that no two messages of one key run at once');
    for (const key of ['key 0', 'key 1']) {
      const theirs = messages.filter(({ orderKey }) => orderKey === key).map(({ id }) => id);
      expectEqual(
        [...new Set(done)].filter((id) => theirs.includes(id)),
        theirs,
        `the order of ${key}`,
      );
    }
    expectSo(arrivals.length > messages.length, 'that one came again');
  },
};

export const REFUSAL: Record<string, Check> = {
  'a message that the engine refuses is an error in its place, and the others are confirmed': async (
    scene,
    bench,
  ) => {
    const transport = scene.transport();
    const [first, last] = scene.messages(2) as [EffectMessage, EffectMessage];
    const told = await transport.publish([first, await bench.refused!(`${scene.effect}.refused`), last]);
    expectEqual(
      told.map((error) => error instanceof Error),
      [false, true, false],
      'one error',
    );
    const { arrivals } = await scene.consume(transport);
    await until('the others come', () => new Set(idsOf(arrivals)).size === 2);
  },
};
