import { Controller, Post, type Type } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Event, TxManager, UseWebhook, type WebhookEvent } from '../../src/index.js';
import { faults } from '../integration/support/faults.js';
import { record, scripted, type Script } from '../integration/support/inbox.js';
import { ADAPTERS, until } from '../support/application.js';
import { FAILED, OK, Receiver } from '../support/receiver.js';
import { awardee } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';

const FAULTS = Object.entries(faults({ pauseMs: 900, queryMs: 900 }));
/** Ways in which an answer waits for a handler. */
const WAYS = ['waits', 'inline', 'route'];
const script: Partial<Script> = {};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A route of the application's own for a source, at the source's name. */
function routeOf(source: string): Type {
  @Controller(source)
  class Route {
    @Post()
    @UseWebhook(source)
    handle(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
      return script.handle?.(event, { manager } as never);
    }
  }
  return Route;
}

describe.each(ADAPTERS)('R35 R13 a handler that goes wrong while its answer waits, on %s', (adapter) => {
  let receiver: Receiver;
  // Where a run is to time out there is little time; elsewhere it would do so on a busy machine only.
  const patient = {
    retries: 'provider',
    maxAttempts: 1_000,
    ackTimeout: '20s',
    classify: () => 'transient' as const,
  } as const;
  const sources = Object.fromEntries(
    WAYS.flatMap((way) => [
      [way, awardeeSource(patient)],
      [`${way}-hasty`, awardeeSource({ ...patient, ackTimeout: '400ms' })],
    ]),
  );

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      providers: [
        scripted(script, { sources: ['waits', 'waits-hasty'] }),
        scripted(script, { sources: ['inline', 'inline-hasty'], handler: { inline: true }, effect: false }),
      ],
      controllers: [routeOf('route'), routeOf('route-hasty')],
      webhooks: { sources, reconcile: false, retention: false },
    });
  });
  afterAll(() => receiver?.stop());

  describe.each(WAYS)('%s', (way) => {
    it.each(FAULTS)(
      'one that %s is never answered as done, leaves no row, and is ok when mended',
      async (name, code) => {
        const source = name.startsWith('times out') ? `${way}-hasty` : way;
        const id = `${way}: ${name}`;
        const deliver = () =>
          receiver.deliverTo(
            way === 'route' ? `/${source}` : `/webhooks/${source}`,
            awardee(id, 'grant.made', {}),
          );
        const written = () =>
          receiver.query(`SELECT source, applied_count FROM received_event WHERE event_id = $1`, [id]);

        const ends: Promise<unknown>[] = [];
        script.handle = (event, context) => {
          const run = Promise.resolve(code(event, context));
          ends.push(run.catch(() => undefined));
          return run;
        };
        expect(await deliver()).toBe(FAILED);
        // What was started and not awaited gets the time to land.
        await Promise.race([Promise.all(ends), pause(700)]);
        await pause(20);
        expect(await written()).toEqual([]);
        expect(await receiver.event(id)).toMatchObject({ state: 'pending' });

        script.handle = (event, { manager }) => record(event, { manager });
        await until(async () => (await deliver()) === OK);
        expect(await written()).toEqual([{ source, applied_count: 1 }]);
      },
    );
  });
});
