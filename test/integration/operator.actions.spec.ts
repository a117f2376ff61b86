import { randomUUID } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import {
  Backfills,
  CallBacks,
  Erasure,
  Inbox,
  InputRefused,
  Inspector,
  Operator,
  Parked,
  Pauses,
  Replays,
  Retention,
  Revivals,
  StartupReconciler,
  type Decider,
} from '../../src/index.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { ReplayStore } from '../../src/storage/desk/replay.store.js';
import { FakeSink } from '../support/fake-sink.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { awardee } from '../support/signing.js';

const ann = { by: 'ann@example.com', reason: 'asked for by support' };

describe('what a person does', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let inspector: Inspector;
  let operator: Operator;

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources },
      providers: [DeskHandlers],
    });
    inspector = app.get(Inspector);
    operator = app.get(Operator);
  });
  beforeEach(() => {
    world.sent = [];
  });
  afterAll(async () => {
    world.chargesHang = false;
    await app?.close();
    await database?.drop();
  });

  const key = (eventId: string) => ({ source: 'awardee', tenant: '', eventId });
  const receive = async (id: string, type: string) => {
    const { headers, body } = awardee(id, type, { amount: 7 });
    expect(await app.get(Inbox).receive('awardee', { headers, rawBody: body })).toMatchObject({
      status: 200,
    });
  };
  const found = async (id: string) => (await inspector.events(`id:${id}`)).events[0]!;
  const ended = async (id: string) => {
    await until(async () => {
      const event = await found(id);
      return event.state === 'processed' && event.effectsPending === 0;
    });
    return (await inspector.event((await found(id)).id))!;
  };
  const lastAudit = async () => (await inspector.audit()).audit[0]!;
  const applied = async (id: string) => {
    const [row] = await database.query<{ applied_count: number }>(
      `SELECT applied_count FROM received_event WHERE event_id = '${id}'`,
    );
    return row?.applied_count;
  };

  it('R25 R23 previews a replay, and runs what the preview said: handlers again, done effects not', async () => {
    await receive('again', 'grant.made');
    await ended('again');
    expect(await operator.previewReplay([key('again')])).toEqual([
      expect.objectContaining({
        run: [expect.objectContaining({ handler: 'awardee/DeskHandlers.grant' })],
        staysDone: [expect.objectContaining({ name: 'mail' })],
        refired: [],
      }),
    ]);
    expect(await applied('again')).toBe(1);
    expect(await operator.replay([key('again'), key('nobody')], [], ann)).toMatchObject({
      replayed: 1,
      refused: [{ event: key('nobody'), refused: 'no such event' }],
    });
    await until(async () => (await applied('again')) === 2);
    await ended('again');
    expect(world.sent).toHaveLength(1);
    expect(await lastAudit()).toMatchObject({
      actor: ann.by,
      reason: ann.reason,
      action: 'replay',
      target: '2 events, awardee again first',
      outcome: { replayed: 1, refused: 1 },
    });
  });

  it('R25 does an effect once more only when a person names it', async () => {
    await receive('refire', 'grant.made');
    await ended('refire');
    const [plan] = await operator.previewReplay([key('refire')], ['mail']);
    expect(plan).toMatchObject({ staysDone: [], refired: [{ name: 'mail' }] });
    const unknown = operator.previewReplay([key('refire')], ['mial']);
    await expect(unknown).rejects.toMatchObject({ code: 'UNKNOWN_EFFECT' });
    await operator.replay([key('refire')], ['mail'], ann);
    await until(async () => world.sent.length === 2);
    expect(await lastAudit()).toMatchObject({ detail: { refire: ['mail'] } });
  });

  it('R25 notes under which id a replay that failed half-way goes on, and what is done is not done once more', async () => {
    for (const id of ['half-1', 'half-2']) {
      await receive(id, 'grant.made');
      await ended(id);
    }
    world.sent = [];
    const store = app.get(ReplayStore);
    const take = store.take.bind(store);
    let taken = 0;
    store.take = async (...args) => {
      taken += 1;
      if (taken === 2) throw new Error('no database');
      return take(...args);
    };
    const events = [key('half-1'), key('half-2')];
    await expect(operator.replay(events, ['mail'], ann)).rejects.toThrow('no database');
    store.take = take;
    await until(() => world.sent.length === 1);
    await ended('half-1');
    const { id } = (await lastAudit()).detail as { id: string };
    expect(await app.get(Replays).run({ events }, { ...ann, refire: ['mail'], id })).toMatchObject({
      replayed: 1,
      skipped: 1,
    });
    await until(() => world.sent.length === 2);
    await ended('half-1');
    await ended('half-2');
    expect(world.sent).toHaveLength(2);
  });

  it.each([
    ['done', 0],
    ['retry', 1],
    ['dead', 0],
  ] as const)('decides about an effect in doubt: %s', async (decision, calls) => {
    world.chargesHang = true;
    await receive(`doubt-${decision}`, 'charge.made');
    await until(async () => (await found(`doubt-${decision}`)).effectsParked === 1);
    expect((await inspector.events('state:parked')).events.map((event) => event.eventId)).toContain(
      `doubt-${decision}`,
    );
    world.chargesHang = false;
    const { rows } = (await inspector.event((await found(`doubt-${decision}`)).id))!;
    const charge = rows.find((row) => row.name === 'charge')!;
    expect(charge).toMatchObject({ state: 'parked', reason: 'in-doubt', error: expect.any(String) });
    expect(await operator.decide(charge.id, decision, ann)).toBe(true);
    await until(async () => (await found(`doubt-${decision}`)).effectsPending === 0);
    const after = (await inspector.event((await found(`doubt-${decision}`)).id))!;
    expect(after.rows.find((row) => row.name === 'charge')!.state).toBe(
      decision === 'dead' ? 'dead' : 'done',
    );
    expect(world.sent).toHaveLength(calls);
    const told = after.attempts.filter(({ outboxId }) => outboxId === charge.id);
    expect(told.map(({ outcome, reason, by }) => [outcome, reason, by])).toEqual([
      ['parked', 'in-doubt', null],
      ['decided', decision, ann.by],
      ...(decision === 'retry' ? [['done', null, null]] : []),
    ]);
    expect(await operator.decide(charge.id, decision, { ...ann, by: 'bob@example.com' })).toBe(false);
    expect(await operator.whyUnchanged(charge.id)).toMatch(
      new RegExp(`^it is ${decision === 'dead' ? 'dead' : 'done'}: .* \\(${ann.by}: parked ${decision}, `),
    );
    expect(await lastAudit()).toMatchObject({ action: `parked ${decision}`, outcome: { decided: false } });
  });

  it.each([
    ['handler', 'awardee/DeskHandlers.grant', 'grant.made'],
    ['effect', 'mail', 'grant.made'],
  ] as const)('parks a pending %s until a person decides', async (kind, name, type) => {
    const id = `held-${kind}`;
    await operator.pause(kind, name, ann);
    await receive(id, type);
    const held = async () =>
      (await inspector.event((await found(id)).id))!.rows.find((row) => row.kind === kind);
    await until(async () => (await held()) !== undefined);
    const row = (await held())!;
    expect(await operator.park([row.id], ann)).toEqual([row.id]);
    expect(await operator.park([row.id], ann)).toEqual([]);
    await operator.resume(kind, name, ann);
    await receive(`${id}-next`, type);
    await ended(`${id}-next`);
    expect(await held()).toMatchObject({ state: 'parked', reason: 'by-person', attempt: 0 });
    expect(await found(id)).toMatchObject({
      state: kind === 'handler' ? 'pending' : 'processed',
      effectsParked: 1,
    });
    expect(await operator.decide(row.id, 'retry', ann)).toBe(true);
    const { attempts } = await ended(id);
    expect(attempts.filter(({ outboxId }) => outboxId === row.id).map((one) => one.outcome)).toEqual([
      'held',
      'decided',
      'done',
    ]);
  });

  it('calls an effect back that has not begun, and says why another cannot be', async () => {
    await operator.pause('effect', 'mail', ann);
    await receive('call-back', 'grant.made');
    const mail = async () =>
      (await inspector.event((await found('call-back')).id))!.rows.find(({ kind }) => kind === 'effect');
    await until(async () => (await mail()) !== undefined);
    const { id } = (await mail())!;
    expect(await operator.cancel(id, ann)).toBe(true);
    expect(await lastAudit()).toMatchObject({ action: 'cancel', target: id, outcome: { cancelled: true } });
    await operator.resume('effect', 'mail', ann);
    expect(await mail()).toMatchObject({ state: 'cancelled', attempt: 0 });
    const { attempts } = (await inspector.event((await found('call-back')).id))!;
    expect(attempts.filter(({ outboxId }) => outboxId === id)).toMatchObject([
      { outcome: 'cancelled', by: ann.by, why: ann.reason },
    ]);
    const bob = { by: 'bob@example.com', reason: 'a second later' };
    expect(await operator.cancel(id, bob)).toBe(false);
    expect(await operator.whyNotDead([id])).toMatchObject([{ why: expect.stringContaining('cancelled') }]);
    expect(await operator.whyUnchanged(id)).toContain(`(${ann.by}: cancel, `);
    expect(world.sent).toEqual([]);
  });

  it('erases an event: nothing of it is shown afterwards, and a redelivery is a duplicate', async () => {
    await receive('forget-me', 'grant.made');
    const { id } = await ended('forget-me');
    expect(await operator.erase(key('forget-me'), ann)).toMatchObject({
      outcome: 'erased',
      sent: [{ name: 'mail' }],
    });
    expect(await inspector.event(id)).toMatchObject({
      state: 'erased',
      bytes: null,
      sha256: null,
      headers: {},
    });
    expect((await inspector.body(id))!.body).toBeNull();
    expect(await lastAudit()).toMatchObject({
      action: 'erase',
      target: 'awardee forget-me',
      outcome: { outcome: 'erased', sent: 1 },
    });
    await receive('forget-me', 'grant.made');
    expect((await found('forget-me')).state).toBe('erased');
  });

  it('pauses a source: events are taken in and wait, and run once it is resumed', async () => {
    expect(await operator.pause('source', 'awardee', ann)).toBe(true);
    expect(await operator.pause('source', 'awardee', ann)).toBe(false);
    expect(await operator.paused()).toEqual([expect.objectContaining({ kind: 'source', name: 'awardee' })]);
    await receive('paused', 'grant.made');
    expect((await found('paused')).state).toBe('pending');
    expect(await operator.resume('source', 'awardee', ann)).toBe(true);
    await ended('paused');
    expect(
      (await inspector.audit()).audit.slice(0, 3).map(({ action, outcome }) => [action, outcome]),
    ).toEqual([
      ['resume', { changed: true }],
      ['pause', { changed: false }],
      ['pause', { changed: true }],
    ]);
  });

  it('shows in an event’s history the pauses that it has waited for, and no other', async () => {
    await receive('never-waited', 'grant.made');
    await ended('never-waited');
    const [eve, kim] = ['eve', 'kim'].map((by) => ({ by, reason: `${by} has a reason` })) as [
      Decider,
      Decider,
    ];
    await operator.pause('effect', 'charge', ann);
    await operator.pause('effect', 'mail', eve);
    await receive('waited', 'grant.made');
    await until(async () => (await found('waited')).effectsPending === 1);
    await operator.pause('effect', 'mail', kim);
    await operator.resume('effect', 'mail', kim);
    await ended('waited');
    await operator.resume('effect', 'charge', ann);
    await operator.pause('effect', 'mail', ann);
    await operator.resume('effect', 'mail', ann);
    const { pauses } = (await inspector.event((await found('waited')).id))!;
    expect(pauses.map(({ action, target, by, why }) => [action, target, by, why])).toEqual([
      ['pause', 'effect mail', 'eve', 'eve has a reason'],
      ['resume', 'effect mail', 'kim', 'kim has a reason'],
    ]);
    expect((await inspector.event((await found('never-waited')).id))!.pauses).toEqual([]);
  });

  it('R25 forwards stored bytes to where the application opens the way, and notes where to', async () => {
    const sink = await FakeSink.start();
    try {
      await receive('onward', 'grant.made');
      const url = `${sink.origin}/services/canary?token=canary`;
      await expect(operator.forward([key('onward')], url, {}, ann)).rejects.toThrow(/https/);
      const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };
      expect(await operator.forward([key('onward'), key('nobody')], url, allow, ann)).toMatchObject({
        forwarded: 1,
        refused: [{ event: key('nobody') }],
      });
      expect(sink.requests.map(({ body }) => body)).toEqual(['{"amount":7}']);
      const [done, refused] = (await inspector.audit()).audit;
      expect(done).toMatchObject({
        action: 'forward',
        detail: { to: sink.origin },
        outcome: { forwarded: 1, refused: 1 },
      });
      expect(refused).toMatchObject({ action: 'forward', outcome: { failed: expect.any(String) } });
      const { id } = done!.detail as { id: string };
      expect(
        await app.get(Replays).forward({ events: [key('onward')] }, url, { ...ann, allow, id }),
      ).toMatchObject({ forwarded: 0, skipped: 1 });
      expect(sink.requests).toHaveLength(1);
    } finally {
      await sink.stop();
    }
  });

  it('notes a deed before it is done, and that it failed', async () => {
    await expect(operator.replay([key('again')], ['no-such-effect'], ann)).rejects.toThrow(/no-such-effect/);
    expect(await lastAudit()).toMatchObject({
      action: 'replay',
      outcome: { failed: expect.stringContaining('no-such-effect') },
    });
    await database.query(`ALTER TABLE webhook_audit RENAME TO webhook_audit_away`);
    try {
      await expect(operator.erase(key('again'), ann)).rejects.toThrow(/webhook_audit/);
    } finally {
      await database.query(`ALTER TABLE webhook_audit_away RENAME TO webhook_audit`);
    }
    expect((await found('again')).state).toBe('processed');
  });

  describe('one audit, whoever acts and however', () => {
    const asked = { by: 'bob', reason: 'from a script' };
    const id = '01234567-89ab-7def-8123-456789abcdef';
    const deeds: Record<string, () => Promise<unknown>> = {
      revive: () => app.get(Revivals).revive([id], asked),
      'give up': () => app.get(Revivals).giveUp([id], asked),
      park: () => app.get(Parked).park([id], asked),
      cancel: () => app.get(CallBacks).cancel(id, asked),
      'parked done': () => app.get(Parked).decide(id, 'done', asked),
      replay: () => app.get(Replays).run({ events: [] }, asked),
      forward: () =>
        app.get(Replays).forward({ events: [] }, 'https://user@example.com/?key=1', asked).catch(String),
      erase: () => app.get(Erasure).erase(key('nobody'), asked),
      pause: () => app.get(Pauses).pause('effect', 'mail', asked),
      resume: () => app.get(Pauses).resume('effect', 'mail', asked),
      prune: () => app.get(Retention).prune(asked),
      reconcile: () => app.get(StartupReconciler).reconcile(asked),
      backfill: () =>
        app
          .get(Backfills)
          .run('awardee', { since: new Date(), ...asked })
          .catch(String),
    };
    const audits = () =>
      database.query(`SELECT actor, action, reason, outcome FROM webhook_audit ORDER BY id`);

    it.each(Object.keys(deeds))('%s of an injected service leaves one row', async (action) => {
      const before = (await audits()).length;
      await deeds[action]!();
      expect((await audits()).slice(before)).toEqual([
        { actor: 'bob', action, reason: 'from a script', outcome: expect.anything() },
      ]);
    });

    it('the desk leaves one row too, not two', async () => {
      const before = (await audits()).length;
      await operator.pause('effect', 'mail', ann);
      await operator.resume('effect', 'mail', ann);
      expect((await audits()).length).toBe(before + 2);
    });

    it('nothing is done that could not be noted', async () => {
      await database.query(`ALTER TABLE webhook_audit RENAME TO webhook_audit_away`);
      try {
        for (const deed of [deeds['pause']!, deeds['erase']!, deeds['replay']!])
          await expect(deed()).rejects.toThrow(/webhook_audit/);
      } finally {
        await database.query(`ALTER TABLE webhook_audit_away RENAME TO webhook_audit`);
      }
      expect(await app.get(Pauses).list()).toEqual([]);
    });

    it('what the application does by itself leaves none', async () => {
      const before = (await audits()).length;
      await app.get(Retention).prune();
      await app.get(StartupReconciler).reconcile();
      expect(await audits()).toHaveLength(before);
    });
  });

  it('what cannot be revived says why', async () => {
    const none = '01234567-89ab-7def-8123-456789abcdef';
    const [{ id } = { id: '' }] = (await inspector.event((await found('again')).id))!.rows;
    expect(await operator.revive([id, none], ann)).toEqual([]);
    const others = [
      { outboxId: id, why: expect.stringContaining('it is done: replay its event') },
      { outboxId: none, why: expect.stringContaining('there is no such row') },
    ];
    expect(await lastAudit()).toMatchObject({ outcome: { revived: 0, others } });
    expect(await operator.whyNotDead([id, none])).toEqual(others);
  });

  it('a dead row needs no reason', async () => {
    const [dead] = await database.query<{ id: string }>(
      `INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason)
       VALUES (gen_random_uuid(), 'effect', 'gone', 'dead', now(), 'permanent-error') RETURNING id`,
    );
    expect(await operator.whyNotDead([dead!.id])).toEqual([]);
    await database.query(`DELETE FROM webhook_outbox WHERE id = $1`, [dead!.id]);
  });

  it('refuses more at once than a person can oversee', async () => {
    const many = Array.from({ length: 501 }, (_, i) => key(`e${i}`));
    await expect(operator.replay(many, [], ann)).rejects.toThrow(InputRefused);
    await expect(operator.revive([], ann)).rejects.toThrow(/expected 1 to 500/);
  });

  it.each<[string, string, () => Promise<unknown>]>([
    ['a state', 'state', () => operator.setIssue('none', 'nope' as never, ann)],
    ['a decision', 'decision', () => operator.decide(randomUUID(), 'nope' as never, ann)],
    ['a kind to pause', 'kind', () => operator.pause('nope' as never, 'mail', ann)],
    ['a kind to resume', 'kind', () => operator.resume('nope' as never, 'mail', ann)],
    ['a kind to ask about', 'kind', () => operator.checkPausable('nope' as never, 'mail')],
  ])('refuses %s that does not exist, and records no deed', async (_, where, act) => {
    const deeds = () => database.query('SELECT count(*)::int FROM webhook_audit');
    const before = await deeds();
    await expect(act()).rejects.toEqual(
      expect.objectContaining({ code: 'INPUT_REFUSED', message: expect.stringContaining(`${where}: `) }),
    );
    expect(await deeds()).toEqual(before);
  });

  describe('a caller who does not say who asks and why', () => {
    const id = '01234567-89ab-7def-8123-456789abcdef';
    const deeds: Record<string, (decider: Decider) => Promise<unknown>> = {
      'Operator.revive': (decider) => operator.revive([id], decider),
      'Operator.pause': (decider) => operator.pause('effect', 'mail', decider),
      'Operator.setIssue': (decider) => operator.setIssue('none', 'acknowledged', decider),
      'Revivals.revive': (decider) => app.get(Revivals).revive([id], decider),
      'Revivals.giveUp': (decider) => app.get(Revivals).giveUp([id], decider),
      'Parked.park': (decider) => app.get(Parked).park([id], decider),
      'CallBacks.cancel': (decider) => app.get(CallBacks).cancel(id, decider),
      'Parked.decide': (decider) => app.get(Parked).decide(id, 'retry', decider),
      'Replays.run': (decider) => app.get(Replays).run({ events: [] }, decider),
      'Replays.forward': (decider) =>
        app.get(Replays).forward({ events: [] }, 'https://example.com', decider),
      'Erasure.erase': (decider) => app.get(Erasure).erase(key('nobody'), decider),
      'Pauses.pause': (decider) => app.get(Pauses).pause('effect', 'mail', decider),
      'Pauses.resume': (decider) => app.get(Pauses).resume('effect', 'mail', decider),
    };
    const refusal = (message: string) => expect.objectContaining({ code: 'INPUT_REFUSED', message });

    it.each(Object.keys(deeds))('is told what %s expects', async (name) => {
      const deed = deeds[name]!;
      await expect(deed(undefined as never)).rejects.toEqual(
        refusal('decider: expected { by, reason }: a name, and the reason, received undefined'),
      );
      await expect(deed({ by: 'ann' } as never)).rejects.toEqual(
        refusal('decider.reason: expected text: why, received undefined'),
      );
      expect(await app.get(Pauses).list()).toEqual([]);
    });

    it.each([
      ['by', { by: ' ', reason: 'why' }],
      ['reason', { by: 'ann', reason: '' }],
    ])('may not leave `%s` blank, whatever is asked', async (name, decider) => {
      for (const deed of Object.values(deeds))
        await expect(deed(decider)).rejects.toEqual(
          expect.objectContaining({
            code: 'INPUT_REFUSED',
            message: expect.stringContaining(`decider.${name}: expected text that is not blank`),
          }),
        );
      expect(await app.get(Pauses).list()).toEqual([]);
    });
  });

  it('R14 gives dead rows up: they stay dead, no redelivery starts them, and a person still may', async () => {
    world.grantsFail = true;
    await receive('hopeless', 'grant.made');
    await until(async () => (await found('hopeless')).state === 'dead');
    world.grantsFail = false;
    const [{ id } = { id: '' }] = (await inspector.event((await found('hopeless')).id))!.rows;
    expect(await operator.giveUp([id], ann)).toEqual([id]);
    expect(await operator.giveUp([id], ann)).toEqual([]);
    expect(await lastAudit()).toMatchObject({ action: 'give up', target: id, outcome: { givenUp: 0 } });
    await expect(operator.giveUp(['x'], ann)).rejects.toThrow(InputRefused);
    await receive('hopeless', 'grant.made');
    expect((await inspector.event((await found('hopeless')).id))!.rows).toMatchObject([
      { state: 'dead', reason: 'given-up', error: expect.stringContaining('is closed') },
    ]);
    // A person has said what there is to say of it.
    expect((await inspector.deadGroups()).groups.find((group) => group.reason === 'given-up')).toMatchObject({
      state: 'resolved',
      reopened: false,
    });
    expect(await operator.revive([id], ann)).toEqual([id]);
    await ended('hopeless');
  });

  it('takes what a person typed, whatever characters it has', async () => {
    const odd = { by: 'ann\u0000', reason: 'NUL \u0000 and half of an emoji \ud83d' };
    expect(await operator.pause('effect', 'mail', odd)).toBe(true);
    expect(await operator.paused()).toMatchObject([
      { pausedBy: 'ann␀', reason: 'NUL ␀ and half of an emoji \ufffd' },
    ]);
    expect(await operator.resume('effect', 'mail', odd)).toBe(true);
    await operator.setIssue('0'.repeat(32), 'acknowledged', odd);
    await operator.setIssue('0'.repeat(32), 'open', odd);
    await receive('odd', 'grant.made');
    await ended('odd');
    expect(await operator.replay([key('odd')], [], odd)).toMatchObject({ replayed: 1 });
    await ended('odd');
    await expect(operator.replay([key('odd')], ['\u0000'], odd)).rejects.toThrow(/No method has @OnEffect/);
    expect(await lastAudit()).toMatchObject({
      actor: 'ann␀',
      detail: { refire: ['␀'] },
      outcome: { failed: expect.stringContaining('No method') },
    });
  });
});
