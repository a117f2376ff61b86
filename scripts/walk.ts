// npm run walk [-- --functions]: the source files that one delivery runs through up to its answer, and one leased row up to its settle.
import { Session } from 'node:inspector/promises';
import { Injectable } from '@nestjs/common';
import { OnEffect, OnWebhook, type HandlerContext, type WebhookEvent } from '../src/index.js';
import { Receiver } from '../test/support/receiver.js';
import { createTemplate, startServer, tearDown } from '../test/support/postgres.js';
import { awardeeSource } from '../test/support/sources.js';
import { awardee } from '../test/support/signing.js';

@Injectable()
class Handlers {
  @OnWebhook('awardee', 'grant.made')
  async grant(_event: WebhookEvent, { enqueue }: HandlerContext): Promise<void> {
    await enqueue('mail', {});
  }

  @OnEffect('mail')
  mail(): void {}
}

const WALKS = 5;
const SHOWS_FUNCTIONS = process.argv.includes('--functions');
const SRC = new URL('../src/', import.meta.url).href;

await startServer();
await createTemplate();
const receiver = await Receiver.start({
  providers: [Handlers],
  webhooks: { sources: { awardee: awardeeSource() } },
});
const session = new Session();
session.connect();
/** By the end of a way: what each of its walks has met. */
const ways = new Map<string, ReadonlyMap<string, string>[]>();
try {
  // What is loaded and compiled at the first event is no part of the way.
  await receiver.deliver('awardee', awardee('first', 'grant.made', { walk: 0 }));
  await receiver.drain();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  for (let walk = 1; walk <= WALKS; walk += 1) {
    const event = awardee(`walk ${walk}`, 'grant.made', { walk });
    await follow('answer', () => receiver.deliver('awardee', event));
    await follow('settle of the handler', () => receiver.relay.tick());
    await follow('settle of the effect', () => receiver.relay.tick());
  }
} finally {
  session.disconnect();
  await receiver.stop();
  await tearDown();
}
for (const [end, walks] of ways) report(end, walks);

async function follow(end: string, walk: () => Promise<unknown>): Promise<void> {
  await session.post('Profiler.takePreciseCoverage');
  await walk();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const met = result.flatMap(({ url, functions }) => {
    const called = functions.filter(
      ({ functionName, ranges }) => functionName !== '' && ranges[0]!.count > 0,
    );
    if (!url.startsWith(SRC) || called.length === 0) return [];
    return [[url.slice(SRC.length), called.map(({ functionName }) => functionName).join(', ')] as const];
  });
  ways.set(end, [...(ways.get(end) ?? []), new Map(met)]);
}

/** Prints the files of every walk. Those of one alone are a timer's. */
function report(end: string, [first, ...others]: readonly ReadonlyMap<string, string>[]): void {
  const files = [...first!.keys()].filter((file) => others.every((walk) => walk.has(file))).sort();
  const lines = files.map((file) => (SHOWS_FUNCTIONS ? `${file}: ${first!.get(file)}` : file));
  console.log(`\n${files.length} files to the ${end}\n  ${lines.join('\n  ')}`);
}
