import { Injectable } from '@nestjs/common';
import { OnWebhook, Pauses, type WebhookEvent } from '../../src/index.js';
import { until } from '../support/application.js';
import { awardeeSource, startInbox, type TestInbox } from './support/inbox.js';

let inbox: TestInbox;
const began: string[] = [];

@Injectable()
class Handlers {
  @OnWebhook('provider', '*', { name: 'handle' })
  @OnWebhook('inline', '*', { name: 'handle', inline: true })
  @OnWebhook('both', '*', { name: 'handle', inline: true })
  handle({ source }: WebhookEvent) {
    began.push(source);
  }
}

beforeAll(async () => {
  inbox = await startInbox({
    providers: [Handlers],
    webhooks: {
      claimTimeout: '20s',
      sources: {
        provider: awardeeSource({ retries: 'provider' }),
        inline: awardeeSource(),
        both: awardeeSource({ retries: 'provider' }),
      },
    },
  });
  // A delivery that has looked for pauses waits here, inside its claim, until the test lets it go.
  await inbox.query(`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END $$`);
  await inbox.query(
    `CREATE TRIGGER hold BEFORE INSERT ON webhook_claim FOR EACH ROW EXECUTE FUNCTION hold()`,
  );
});
afterAll(() => inbox.stop());

it.each(['provider', 'inline', 'both'])(
  'a delivery that has looked before a pause begins nothing after it: %s',
  async (source) => {
    const holder = inbox.database.dataSource.createQueryRunner();
    await holder.query('SELECT pg_advisory_lock(4711)');
    const delivered = inbox.deliverTo(source, source);
    await until(
      async () =>
        (
          await inbox.query(`SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE locktype = 'advisory' AND NOT granted AND objid = 4711 AND datname = current_database()`)
        ).length > 0,
    );
    const who = { by: 'a test', reason: 'to see' };
    await inbox.app.get(Pauses).pause('source', source, who);
    await holder.query('SELECT pg_advisory_unlock(4711)');
    await holder.release();
    // Claimed, for the relay to run after the pause.
    expect(await delivered).toMatchObject({ status: 200 });
    expect(began).not.toContain(source);
    const waiting = () => inbox.rows(`source = '${source}' AND state = 'pending' AND leased_by IS NULL`);
    await until(async () => (await waiting()).length === 1);
    await inbox.app.get(Pauses).resume('source', source, who);
    await inbox.relay.tick();
    expect(began).toContain(source);
  },
);
