// npm run walk: the source files that one delivery runs through up to its answer, and one leased row up to its settle.
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

const SRC = new URL('../src/', import.meta.url).href;

await startServer();
await createTemplate();
const receiver = await Receiver.start({
  providers: [Handlers],
  webhooks: { sources: { awardee: awardeeSource() } },
});
const session = new Session();
session.connect();
try {
  // What is loaded and compiled at the first event is no part of the way.
  await receiver.deliver('awardee', awardee('first', 'grant.made', {}));
  await receiver.drain();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await report('answer', () => receiver.deliver('awardee', awardee('second', 'grant.made', {})));
  await report('settle of the handler', () => receiver.relay.tick());
  await report('settle of the effect', () => receiver.relay.tick());
} finally {
  session.disconnect();
  await receiver.stop();
  await tearDown();
}

async function report(end: string, walk: () => Promise<unknown>): Promise<void> {
  await session.post('Profiler.takePreciseCoverage');
  await walk();
  const { result } = await session.post('Profiler.takePreciseCoverage');
  const met = result.filter(({ url, functions }) => {
    const called = functions.filter(
      ({ functionName, ranges }) => functionName !== '' && ranges[0]!.count > 0,
    );
    return url.startsWith(SRC) && called.length > 0;
  });
  const files = met.map(({ url }) => url.slice(SRC.length)).sort();
  console.log(`\n${files.length} files to the ${end}\n  ${files.join('\n  ')}`);
}
