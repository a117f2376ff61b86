import type { INestApplication } from '@nestjs/common';
import { Inbox, Inspector, Operator, type Alert } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources } from '../support/desk.js';
import { awardee, type SignedRequest } from '../support/signing.js';

const ann = { by: 'ann', reason: 'test' };

describe('alerts', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const alerts: Alert[] = [];

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: deskSources,
        alerts: { backlogAge: '1h' },
        onAlert: (alert) => void alerts.push(alert),
      },
      providers: [DeskHandlers],
    });
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  const told = (kind: Alert['kind']) => alerts.filter((alert) => alert.kind === kind);
  const shown = async (kind: string) =>
    (await app.get(Inspector).alerts()).filter((alert) => alert.kind === kind);
  const send = (source: string, { headers, body }: SignedRequest) =>
    app.get(Inbox).receive(source, { headers, rawBody: body });
  const round = () => app.get(DeskKeeper).round();
  const state = async (id: string) => (await app.get(Inspector).events(`id:${id}`)).events[0]!.state;

  it('R22 R33 tell of a backlog once, and again only after it was worked off', async () => {
    const operator = app.get(Operator);
    for (const [index, id] of ['late-1', 'late-2'].entries()) {
      await operator.pause('source', 'awardee', ann);
      await send('awardee', awardee(id, 'grant.made', { id }));
      await database.query(
        `UPDATE webhook_outbox SET due_at = now() - interval '2 hours' WHERE event_id = '${id}'`,
      );
      await round();
      await round();
      expect(told('backlog')).toHaveLength(index + 1);
      await operator.resume('source', 'awardee', ann);
      await until(async () => (await state(id)) === 'processed');
      await round();
    }
    expect(told('backlog')[0]).toMatchObject({ name: 'awardee/DeskHandlers.grant', thresholdMs: 3_600_000 });
    await round();
    expect(await shown('backlog')).toHaveLength(2);
  });

  it('R22 R33 tell of known bytes under a new id, and the page lists it with its event', async () => {
    await send('awardee', awardee('first', 'grant.made', { amount: 12 }));
    await send('awardee', awardee('twin', 'grant.made', { amount: 12 }));
    expect(told('conflict')).toEqual([expect.objectContaining({ conflict: 'suspected-replay' })]);
    await round();
    expect(await shown('conflict')).toEqual([expect.objectContaining({ subject: 'awardee twin' })]);
  });
});
