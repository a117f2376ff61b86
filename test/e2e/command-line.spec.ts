import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { commands } from '../../src/cli/commands/index.js';
import { Inbox, Inspector, Pauses } from '../../src/index.js';
import { CHECKS } from '../../src/cli/doctor/examine.js';
import type { Check, Finding, Patient } from '../../src/cli/doctor/finding.js';
import { EXIT } from '../../src/cli/terminal/exit.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../src/core/tokens.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { DoctorStore } from '../../src/storage/desk/doctor.store.js';
import { BoundedRead } from '../../src/storage/postgres/bounded-read.js';
import { createApplication, listen, until } from '../support/application.js';
import { CommandLine, type Ran } from '../support/command-line/command-line.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { awardee, stripeEvent } from '../support/signing.js';
import { TransactionPooler } from '../support/transaction-pooler.js';

const ANN = ['--by', 'ann@example.com', '--reason', 'asked for by support'];
/** Nothing listens there. */
const NOWHERE = 'postgres://nobody@127.0.0.1:1/nothing';
const NO_ROW = '0199a1b2-0000-7000-8000-000000000000';

/** Arguments with which each command is right, and changes nothing. A command that is not here fails the tests of all. */
const RIGHT: Readonly<Record<string, readonly string[]>> = {
  status: [],
  events: [],
  show: ['for-all'],
  tail: ['--lines', '1'],
  sources: [],
  dead: [],
  revive: [NO_ROW, '--dry-run'],
  'give-up': [NO_ROW, '--dry-run'],
  park: [],
  decide: [NO_ROW, 'done', '--dry-run'],
  cancel: [NO_ROW, '--dry-run'],
  replay: ['for-all', '--dry-run'],
  pause: ['source', 'awardee', '--dry-run'],
  resume: ['source', 'awardee', '--dry-run'],
  erase: ['for-all', '--dry-run'],
  backfill: ['stripe', '--since', '1h', '--dry-run'],
  reconcile: ['--dry-run'],
  prune: ['--dry-run'],
  doctor: [],
  send: ['stripe', '--url', 'http://127.0.0.1:1'],
  'migrate-sql': [],
};
/** The parser's own list. */
const COMMANDS = commands.map((one) => ({
  name: one.usage.split(' ')[0]!,
  needs: typeof one.needs === 'string' ? one.needs : 'application',
  writes: one.needs !== 'nothing' && one.writes === true,
}));

function rightArgs(name: string): readonly string[] {
  const args = RIGHT[name];
  if (args === undefined)
    throw new Error(`the command '${name}' has no arguments in RIGHT: it is not tested`);
  return args;
}

/** Two at a time: a process of the command line takes a second of a processor. */
async function ofEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}

/** Processes of a busy machine. */
jest.setTimeout(180_000);

describe('the command line', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let line: CommandLine;
  let folder: string;
  let origin: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'command-line-'));
    [database, line] = await Promise.all([createDatabase(), CommandLine.build()]);
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources },
      providers: [DeskHandlers],
    });
    origin = await listen(app);
    // The instance's sign of life, which names its handlers.
    await app.get(DeskKeeper).round();
  }, 120_000);
  afterEach(() => Object.assign(world, { grantsFail: false, mailFails: false, chargesHang: false }));
  afterAll(async () => {
    await app?.close();
    await database?.drop();
    await line?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  /** With the tables alone. */
  const tables = (...args: string[]) => line.run(args, { DATABASE_URL: database.url });
  /** With the application. */
  const withApp = (...args: string[]) =>
    line.run([...args, '--app', line.app], {
      DATABASE_URL: database.url,
      OWN_WORK: join(folder, 'own-work'),
    });
  const json = <T = Record<string, unknown>>({ code, out, error }: Ran): T => {
    if (out === '') throw new Error(`exit code ${code}: ${error}`);
    return JSON.parse(out) as T;
  };
  const receive = async (id: string, type: string) => {
    const { headers, body } = awardee(id, type, { amount: 7 });
    expect(await app.get(Inbox).receive('awardee', { headers, rawBody: body })).toMatchObject({
      status: 200,
    });
  };
  const event = async (id: string) => (await app.get(Inspector).events(`id:${id}`)).events[0]!;
  const reaches = async (id: string, state: string) => {
    await until(async () => (await event(id))?.state === state && (await event(id)).effectsPending === 0);
    return event(id);
  };
  const deadRow = async (id: string) => {
    world.grantsFail = true;
    await receive(id, 'grant.made');
    await reaches(id, 'dead');
    world.grantsFail = false;
    return (await app.get(Inspector).event((await event(id)).id))!.rows[0]!.id;
  };
  const applied = async (id: string) => {
    const [row] = await database.query<{ applied_count: number }>(
      `SELECT applied_count FROM received_event WHERE event_id = '${id}'`,
    );
    return row?.applied_count ?? 0;
  };
  const audited = async () => (await app.get(Inspector).audit()).audit[0]!;

  describe('wrong arguments', () => {
    it.each<[string, string[], RegExp]>([
      ['a command that is misspelt', ['stauts'], /did you mean status/i],
      ['an option that is unknown', ['status', '--jsno'], /did you mean --json/i],
      ['an argument too few', ['show'], /missing required argument 'event'/],
      ['a number that is none', ['events', '--limit', 'many'], /whole number above 0, received 'many'/],
      ['a choice that is none', ['decide', 'x', 'maybe', ...ANN], /Allowed choices are done, retry, dead/],
      [
        'a time that is none',
        ['backfill', 'stripe', '--since', 'yore'],
        /2026-08-01T09:00Z, received 'yore'/,
      ],
      ['two places at once', ['status', '-d', 'x.js', '--app', 'y.js'], /cannot be used with option '--app/],
      ['no place', ['status'], /expected --app .*, -d .*,? or DATABASE_URL/],
      ['no application', ['replay', '--all', ...ANN], /replay needs the application's handlers.*--app/],
      ['no name for the audit', ['pause', 'source', 'stripe', '--reason', 'x'], /--by: expected your name/],
      [
        'no reason for the audit',
        ['pause', 'source', 'stripe', '--by', 'ann'],
        /--reason: expected a reason/,
      ],
      ['a DataSource file that is not there', ['status', '-d', 'no-such.ts'], /received 'no-such.ts'/],
      [
        'a module file that is not there',
        ['prune', '--dry-run', '--app', 'dist/no.js#M'],
        /Build the application first/,
      ],
    ])('%s ends with 2, and names what was expected', async (_, args, text) => {
      const { code, out, error } = await line.run(args);
      expect({ code, out }).toEqual({ code: 2, out: '' });
      expect(error).toMatch(text);
    });

    it('a class that the module file does not have is named with the nearest', async () => {
      const ran = await line.run(['sources', '--app', line.app.replace('#AppModule', '#AppModul')]);
      expect(ran).toMatchObject({
        code: 2,
        error: expect.stringMatching(/no class 'AppModul'; did you mean 'AppModule'/),
      });
    });

    it('--help lists the commands and the exit codes, and ends with 0', async () => {
      const { code, out } = await line.run(['--help']);
      expect(code).toBe(0);
      for (const { name } of COMMANDS) expect(out).toMatch(new RegExp(`^  ${name}\\b`, 'm'));
      for (const code of Object.values(EXIT)) expect(out).toMatch(new RegExp(`Exit codes[^]*\\b${code} `));
      const page = readFileSync('docs/command-line.md', 'utf8');
      const isNamed = (name: string) => new RegExp('(?:`|webhook-inbox )' + name + '\\b').test(page);
      expect(COMMANDS.filter(({ name }) => !isNamed(name))).toEqual([]);
      const hasRow = (code: number) => new RegExp(`^\\| ${code} +\\|`, 'm').test(page);
      expect(Object.values(EXIT).filter((code) => !hasRow(code))).toEqual([]);
    });
  });

  describe('every command that there is', () => {
    const place = ({ needs }: (typeof COMMANDS)[number]) =>
      needs === 'application' ? ['--app', line.app] : [];

    it('refuses an option that it does not know, and says where its help is', () =>
      ofEach(COMMANDS, async ({ name }) => {
        const { code, out, error } = await line.run([name, ...rightArgs(name), '--no-such-option']);
        expect({ name, code, out }).toEqual({ name, code: 2, out: '' });
        expect(error).toMatch(/unknown option '--no-such-option'[^]*--help/);
      }));

    it('that writes asks for --by, before it opens anything', () =>
      ofEach(
        COMMANDS.filter(({ writes }) => writes),
        async (command) => {
          const args = rightArgs(command.name).filter((arg) => arg !== '--dry-run');
          const ran = await line.run([command.name, ...args, ...place(command)], { DATABASE_URL: NOWHERE });
          expect({ name: command.name, ...ran }).toMatchObject({ name: command.name, code: 2, out: '' });
          expect(ran.error).toContain('--by: expected your name');
        },
      ));

    it('that needs the application says so', () =>
      ofEach(
        COMMANDS.filter(({ needs }) => needs === 'application'),
        async ({ name }) => {
          const ran = await line.run([name, ...rightArgs(name)], { DATABASE_URL: NOWHERE });
          expect({ name, ...ran }).toMatchObject({ name, code: 2, out: '' });
          expect(ran.error).toMatch(new RegExp(`${name} needs .*--app`));
        },
      ));

    it('ends with 4 where the database cannot be reached, or needs none', () =>
      ofEach(COMMANDS, async (command) => {
        const { name, needs } = command;
        const ran = await line.run([name, ...rightArgs(name), ...place(command)], { DATABASE_URL: NOWHERE });
        const ends = needs === 'nothing' ? { code: 0, error: '' } : { code: 4, out: '' };
        expect({ name, ...ran }).toMatchObject({ name, ...ends });
        if (needs !== 'nothing') expect(ran.error).toMatch(/the database cannot be used: .*ECONNREFUSED/);
      }));
  });

  describe('a database that cannot be used', () => {
    it('ends with 4 where it has no tables, and says to migrate', async () => {
      const empty = await createDatabase({ empty: true });
      try {
        const ran = await line.run(['status'], { DATABASE_URL: empty.url });
        expect(ran).toMatchObject({ code: 4, out: '', error: expect.stringContaining('run the migrations') });
      } finally {
        await empty.drop();
      }
    });
  });

  describe('with the tables alone', () => {
    it('status shows what is owed, what runs and what is paused', async () => {
      const status = json<{ owed: object; instances: object[] }>(await tables('status', '--json'));
      expect(status).toMatchObject({
        owed: { pending: 0 },
        instances: [{ relays: true, alive: true }],
        paused: [],
      });
      expect((await tables('status')).out).toMatch(/^PENDING .*\n *0 /);
    });

    it('events and show find an event by filter, by its own id and by ours', async () => {
      await receive('looked-for', 'grant.made');
      const { id } = await reaches('looked-for', 'processed');
      const page = json<{ events: object[] }>(
        await tables('events', 'source:awardee', 'id:looked-*', '--json'),
      );
      expect(page.events).toEqual([
        expect.objectContaining({ id, eventId: 'looked-for', state: 'processed' }),
      ]);
      expect(json(await tables('show', 'looked-for', '--json'))).toMatchObject({
        id,
        rows: [{ kind: 'handler' }, { kind: 'effect' }],
      });
      const shown = await tables('show', id, '--body', ...ANN);
      expect(shown.out).toContain('{"amount":7}');
      expect(await audited()).toMatchObject({ action: 'content shown', actor: 'ann@example.com' });
      expect(await tables('show', 'never-came')).toMatchObject({
        code: 3,
        error: expect.stringContaining('never-came'),
      });
      expect(await tables('events', 'sauce:stripe')).toMatchObject({
        code: 2,
        error: expect.stringContaining('source'),
      });
    });

    it('dead and revive give rows new attempts; a dry run changes nothing', async () => {
      const row = await deadRow('to-revive');
      const { groups } = json<{ groups: { fingerprint: string }[] }>(
        await tables('dead', 'id:to-revive', '--json'),
      );
      expect(groups).toHaveLength(1);
      const listed = json(await tables('dead', groups[0]!.fingerprint, '--json'));
      expect(listed).toMatchObject({ rows: [expect.objectContaining({ id: row })] });
      expect(json(await tables('revive', row, '--dry-run', '--json'))).toMatchObject({
        run: { 'awardee/DeskHandlers.grant': 1 },
      });
      expect((await event('to-revive')).state).toBe('dead');
      expect(json(await tables('revive', '--group', groups[0]!.fingerprint, '--json', ...ANN))).toEqual({
        revived: [row],
        others: [],
        left: 0,
      });
      await reaches('to-revive', 'processed');
      expect(await audited()).toMatchObject({
        action: 'revive',
        actor: 'ann@example.com',
        reason: 'asked for by support',
      });
    });

    it('give-up leaves a dead row dead, for good', async () => {
      const row = await deadRow('to-give-up');
      const dry = json(await tables('give-up', row, NO_ROW, '--dry-run', '--json'));
      expect(dry).toEqual({ dryRun: true, rows: 1, notDead: 1 });
      expect((await app.get(Inspector).audit('action:"give up"')).audit).toEqual([]);
      expect(json(await tables('give-up', row, '--json', ...ANN))).toMatchObject({ givenUp: [row] });
      expect((await app.get(Inspector).event((await event('to-give-up')).id))!.rows[0]).toMatchObject({
        state: 'dead',
        reason: 'given-up',
      });
      expect(await audited()).toMatchObject({ action: 'give up', actor: 'ann@example.com', target: row });
    });

    it('park lists effects in doubt, and decide settles one', async () => {
      world.chargesHang = true;
      await receive('in-doubt', 'charge.made');
      await until(async () => (await event('in-doubt'))?.effectsParked === 1);
      world.chargesHang = false;
      const { effects } = json<{ effects: { id: string }[] }>(await tables('park', '--json'));
      expect(effects).toEqual([expect.objectContaining({ name: 'charge', eventId: 'in-doubt' })]);
      const [{ id }] = effects as [{ id: string }];
      expect(await tables('decide', id, 'done', '--dry-run')).toMatchObject({
        code: 0,
        out: expect.stringContaining('it did happen'),
      });
      expect((await event('in-doubt')).effectsParked).toBe(1);
      expect(json(await tables('decide', id, 'done', '--json', ...ANN))).toMatchObject({ decided: true });
      expect((await event('in-doubt')).effectsDone).toBe(1);
      expect(await audited()).toMatchObject({ action: 'parked done', actor: 'ann@example.com', target: id });
      expect(await tables('decide', id, 'done', ...ANN)).toMatchObject({
        code: 3,
        out: expect.stringContaining('it is done'),
      });
    });

    it('cancel calls an effect back that has not begun, and show tells who did', async () => {
      // In the process of the relay, which obeys at once: another's pause it notices within a second.
      const ann = { by: 'ann@example.com', reason: 'asked for by support' };
      await app.get(Pauses).pause('effect', 'mail', ann);
      await receive('called-back', 'grant.made');
      await until(async () => (await event('called-back'))?.effectsPending === 1);
      const { rows } = json<{ rows: { id: string; kind: string }[] }>(
        await tables('show', 'called-back', '--json'),
      );
      const { id } = rows.find(({ kind }) => kind === 'effect')!;
      expect(await tables('cancel', id, '--dry-run')).toMatchObject({ code: 0 });
      expect(json(await tables('cancel', id, '--json', ...ANN))).toMatchObject({ cancelled: true });
      expect(await audited()).toMatchObject({ action: 'cancel', actor: 'ann@example.com', target: id });
      const shown = (await tables('show', 'called-back')).out;
      expect(shown).toMatch(/cancelled +ann@example\.com/);
      expect(shown).toMatch(/pause +effect mail +ann@example\.com/);
      expect(await tables('cancel', id, ...ANN)).toMatchObject({
        code: 3,
        out: expect.stringContaining('it was cancelled'),
      });
      await app.get(Pauses).resume('effect', 'mail', ann);
    });

    it('pause and resume act on every instance, and an unknown name is refused with the nearest', async () => {
      expect(
        json(await tables('pause', 'handler', 'awardee/DeskHandlers.grant', '--json', ...ANN)),
      ).toMatchObject({ changed: true });
      expect((await tables('status')).out).toContain('asked for by support');
      await until(async () => {
        await receive(`paused-${Date.now()}`, 'grant.made');
        return (await app.get(Inspector).events('id:paused-* state:pending')).events.length > 0;
      });
      expect(await tables('resume', 'handler', 'awardee/DeskHandlers.grant', ...ANN)).toMatchObject({
        code: 0,
      });
      await until(
        async () => (await app.get(Inspector).events('id:paused-* state:pending')).events.length === 0,
      );
      expect(await audited()).toMatchObject({ action: 'resume', actor: 'ann@example.com' });
      expect((await tables('pause', 'source', 'awardee', '--dry-run')).out).toContain('would be paused');
      expect(await app.get(Pauses).list()).toEqual([]);
      for (const deed of [ANN, ['--dry-run']])
        expect(await tables('pause', 'source', 'awardees', ...deed)).toMatchObject({
          code: 1,
          error: expect.stringContaining("did you mean 'awardee'"),
        });
    });

    it('erase removes the content, and a dry run says so first', async () => {
      await receive('personal', 'grant.made');
      await reaches('personal', 'processed');
      expect(await tables('erase', 'personal', '--dry-run')).toMatchObject({
        code: 0,
        out: expect.stringContaining('would be removed'),
      });
      expect((await event('personal')).state).toBe('processed');
      expect(json(await tables('erase', 'personal', '--json', ...ANN))).toMatchObject({
        outcome: 'erased',
        sent: [{ name: 'mail' }],
      });
      expect((await event('personal')).state).toBe('erased');
      expect(await audited()).toMatchObject({ action: 'erase', actor: 'ann@example.com' });
    });

    it('sources lists what each brought', async () => {
      const { sources } = json<{ sources: object[] }>(await tables('sources', '--json'));
      expect(sources).toEqual([
        expect.objectContaining({ name: 'awardee' }),
        expect.objectContaining({ name: 'stripe' }),
      ]);
    });

    it('tail follows events as they come, until Ctrl-C', async () => {
      await receive('before-tail', 'grant.made');
      const tail = line.start(['tail', '--json', '--every', '100ms'], { DATABASE_URL: database.url });
      await until(() => tail.out().includes('\n'), 120_000);
      await receive('followed', 'grant.made');
      await until(() => /"eventId":"followed".*"state":"processed"/.test(tail.out()));
      tail.interrupt();
      const { code, out } = await tail.ended;
      expect(code).toBe(0);
      for (const text of out.trim().split('\n')) expect(JSON.parse(text)).toHaveProperty('state');
    });

    it.each(['js', 'ts'])('-d takes a DataSource file, as the CLI of TypeORM does: .%s', async (ending) => {
      const file = join(process.cwd(), 'dist', `data-source-${process.pid}.${ending}`);
      const typed = ending === 'ts' ? ': string | undefined' : '';
      await writeFile(
        file,
        `import { DataSource } from 'typeorm';
         const url${typed} = process.env.TABLES_URL;
         export default new DataSource({ type: 'postgres', url });`,
      );
      try {
        const ran = await line.run(['status', '--json', '-d', file], { TABLES_URL: database.url });
        expect(json(ran)).toMatchObject({ instances: [{ alive: true }] });
      } finally {
        await rm(file);
      }
    });

    it('a list comes from a replica, with a note of its age; an event that it lacks, from the primary', async () => {
      await receive('on-primary', 'grant.made');
      const replica = await createDatabase();
      const file = join(process.cwd(), 'dist', `replicated-${process.pid}.js`);
      await writeFile(
        file,
        `import { DataSource } from 'typeorm';
         const [master, slave] = [{ url: process.env.TABLES_URL }, { url: process.env.REPLICA_URL }];
         export default new DataSource({ type: 'postgres', replication: { master, slaves: [slave] } });`,
      );
      const run = async (...args: string[]) => {
        // Ahead by some seconds, since a process takes some to start.
        await replica.query(`INSERT INTO webhook_relay (id, host, pid, node, relays, listens, running, names, sources, seen_at)
          VALUES (gen_random_uuid(), 'h', 1, 'v22', true, true, 0, '{}', '{}', now() + interval '10 s')`);
        return line.run([...args, '-d', file], { TABLES_URL: database.url, REPLICA_URL: replica.url });
      };
      try {
        const listed = await run('events', '--json');
        expect(JSON.parse(listed.out)).toMatchObject({ events: [] });
        expect(listed.error).toMatch(/^From a replica, at most \d+ m?s behind\.$/m);
        const shown = await run('show', 'on-primary', '--json');
        expect([JSON.parse(shown.out), shown.error]).toEqual([
          expect.objectContaining({ eventId: 'on-primary' }),
          expect.not.stringContaining('replica'),
        ]);
        expect((await run('give-up', NO_ROW, '--dry-run')).error).not.toContain('replica');
      } finally {
        await rm(file);
        await replica.drop();
      }
    });

    it('migrate-sql prints SQL that makes the tables, and needs no database', async () => {
      const { code, out } = await line.run(['migrate-sql']);
      expect(code).toBe(0);
      const empty = await createDatabase({ empty: true });
      try {
        await empty.query(out);
        await empty.query(out);
        expect(json(await line.run(['status', '--json'], { DATABASE_URL: empty.url }))).toMatchObject({
          owed: { pending: 0 },
        });
        await empty.query((await line.run(['migrate-sql', '--revert'])).out);
        expect(await empty.query(`SELECT relname FROM pg_class WHERE relname LIKE 'webhook%'`)).toEqual([]);
      } finally {
        await empty.drop();
      }
    });
  });

  describe('with the application', () => {
    it('replay runs what its dry run says, and nothing of the application starts by itself', async () => {
      await receive('again', 'grant.made');
      await reaches('again', 'processed');
      const { plans } = json<{ plans: object[] }>(await withApp('replay', 'again', '--dry-run', '--json'));
      expect(plans).toEqual([
        expect.objectContaining({ staysDone: [expect.objectContaining({ name: 'mail' })] }),
      ]);
      expect(await applied('again')).toBe(1);
      const report = json(await withApp('replay', 'again', '--json', ...ANN));
      expect(report).toMatchObject({ replayed: 1, refused: [], interrupted: false });
      await until(async () => (await applied('again')) === 2);
      expect(await audited()).toMatchObject({
        action: 'replay',
        actor: 'ann@example.com',
        outcome: { replayed: 1 },
      });
      await expect(readFile(join(folder, 'own-work'), 'utf8')).rejects.toThrow('ENOENT');
    });

    it('a replay that Ctrl-C stops ends between two events, and goes on by its id', async () => {
      for (const id of ['slow-1', 'slow-2', 'slow-3']) {
        await receive(id, 'grant.made');
        await reaches(id, 'processed');
      }
      const args = ['replay', 'slow-1', 'slow-2', 'slow-3', '--json', '--app', line.app, ...ANN];
      const running = line.start([...args, '--per-second', '1'], { DATABASE_URL: database.url });
      await until(async () => (await applied('slow-1')) === 2, 120_000);
      running.interrupt();
      const { code, out } = await running.ended;
      expect(code).toBe(130);
      const { id, replayed } = JSON.parse(out) as { id: string; replayed: number };
      expect(replayed).toBeLessThan(3);
      const rest = await line.run([...args, '--id', id], { DATABASE_URL: database.url });
      expect(json(rest)).toMatchObject({ replayed: 3 - replayed, skipped: replayed });
      await until(async () => (await applied('slow-3')) === 2);
      expect(await applied('slow-1')).toBe(2);
    });

    it('replay ends with 5 where an event is refused, and with 2 where nothing is chosen', async () => {
      await receive('untaken', 'unheard.of');
      await reaches('untaken', 'skipped');
      expect(await withApp('replay', 'untaken', ...ANN)).toMatchObject({
        code: 5,
        out: expect.stringContaining('no handler'),
      });
      expect(await withApp('replay', ...ANN)).toMatchObject({
        code: 2,
        error: expect.stringContaining('at least one of source'),
      });
    });

    it('backfill claims what the list has, once; a dry run claims nothing', async () => {
      const preview = json(await withApp('backfill', 'stripe', '--since', '1h', '--dry-run', '--json'));
      expect(preview).toMatchObject({ dryRun: true, seen: 2, claimed: 2, known: 0 });
      expect(await event('evt_listed_1')).toBeUndefined();
      expect(json(await withApp('backfill', 'stripe', '--since', '1h', '--json', ...ANN))).toMatchObject({
        claimed: 2,
      });
      await reaches('evt_listed_1', 'processed');
      expect(json(await withApp('backfill', 'stripe', '--since', '1h', '--json', ...ANN))).toMatchObject({
        claimed: 0,
        known: 2,
      });
      expect(await audited()).toMatchObject({ action: 'backfill' });
    });

    it('prune deletes what its dry run has counted', async () => {
      await receive('ancient', 'grant.made');
      await reaches('ancient', 'processed');
      await database.query(
        `UPDATE webhook_claim SET received_at = now() - interval '90 days' WHERE event_id = 'ancient'`,
      );
      expect(json(await withApp('prune', '--dry-run', '--json'))).toMatchObject({ ran: true, claims: 1 });
      expect(await event('ancient')).toBeDefined();
      expect(json(await withApp('prune', '--json', ...ANN))).toMatchObject({ ran: true, claims: 1 });
      expect(await event('ancient')).toBeUndefined();
      expect(await audited()).toMatchObject({ action: 'prune', outcome: { claims: 1 } });
    });

    it('reconcile adds what its dry run has counted, and leaves the run to the relays', async () => {
      await receive('short', 'only.here');
      await reaches('short', 'skipped');
      expect(json(await withApp('reconcile', '--dry-run', '--json'))).toMatchObject({ ran: true, added: 1 });
      expect((await event('short')).state).toBe('skipped');
      expect(json(await withApp('reconcile', '--json', ...ANN))).toMatchObject({ ran: true, added: 1 });
      expect((await event('short')).state).toBe('pending');
      expect(await audited()).toMatchObject({ action: 'reconcile', actor: 'ann@example.com' });
      await expect(readFile(join(folder, 'own-work'), 'utf8')).rejects.toThrow('ENOENT');
    });

    it('sources shows handlers and secrets too', async () => {
      const { sources } = json<{ sources: object[] }>(await withApp('sources', 'stripe', '--json'));
      expect(sources).toMatchObject([
        { name: 'stripe', handlers: [{ name: 'stripe/DeskHandlers.paid' }], secrets: [{ configured: true }] },
      ]);
    });

    it('doctor names what is wrong, each with its remedy, and ends with 5', async () => {
      await receive('misspelt', 'only.hera');
      await reaches('misspelt', 'skipped');
      await receive('moved', 'grant.made');
      await reaches('moved', 'processed');
      await database.query(`UPDATE webhook_claim SET source = 'former' WHERE event_id = 'moved'`);
      await database.query(`ALTER TABLE webhook_alert ALTER COLUMN subject DROP NOT NULL`);
      await database.query(`ALTER INDEX webhook_outbox_dead RENAME TO webhook_outbox_other`);
      const { code, out } = await withApp('doctor', '--json');
      await database.query(`ALTER INDEX webhook_outbox_other RENAME TO webhook_outbox_dead`);
      const { findings } = JSON.parse(out) as {
        findings: { check: string; level: string; text: string; remedy: string }[];
      };
      const found = (check: string, text: string) =>
        findings.filter((one) => one.check === check && one.text.includes(text)).map(({ level }) => level);
      expect(found('migrations', 'index webhook_outbox_dead')).toEqual(['error']);
      expect(found('migrations', 'column webhook_alert.subject')).toEqual(['warning']);
      expect(found('types', "'only.hera' of source 'awardee' came 1 times")).toEqual(['warning']);
      expect(found('types', "a handler takes 'only.here'")).toEqual(['warning']);
      expect(found('leftovers', "source 'former'")).toEqual(['warning']);
      expect(found('ways', 'the global interceptor Timing')).toEqual(['hint']);
      expect(findings.filter(({ text }) => text.includes('could not be checked'))).toEqual([]);
      expect(findings.every(({ remedy }) => remedy !== '')).toBe(true);
      expect(code).toBe(5);
    });

    it('doctor ends with 1 and the text of a boot that is refused: claims that are kept too short', async () => {
      const env = { DATABASE_URL: database.url, RETENTION: '1h' };
      expect(await line.run(['doctor', '--app', line.app], env)).toMatchObject({
        code: 1,
        error: expect.stringMatching(
          /sources\.stripe\.retention: expected at least \d+ days, since stripe may/,
        ),
      });
    });

    it('doctor finds a pooler in transaction mode', async () => {
      const pooler = await TransactionPooler.start(database.url);
      try {
        const ran = await line.run(['doctor', '--json', '--app', line.app], { DATABASE_URL: pooler.url });
        expect(ran.out).toContain('the connection leads through a pooler in transaction mode');
      } finally {
        await pooler.stop();
      }
    });

    it('send signs as the provider does, and says what the answers mean', async () => {
      const ran = await withApp(
        'send',
        'stripe',
        '--type',
        'invoice.paid',
        '--times',
        '2',
        '--url',
        origin,
        '--json',
      );
      const { id, answers } = json<{ id: string; answers: { status: number; body: string }[] }>(ran);
      expect(answers.map(({ body }) => body)).toEqual(['{"status":"ok"}', '{"status":"duplicate"}']);
      expect(ran.code).toBe(0);
      expect(await reaches(id, 'processed')).toMatchObject({ source: 'stripe', type: 'invoice.paid' });
    });

    it('send with a wrong secret is explained by the application; --tamper expects to be refused', async () => {
      // The first of a second is the one that is explained.
      const wrong = await withApp('send', 'stripe', '--secret', 'whsec_another', '--url', origin, '--json');
      expect(json(wrong)).toMatchObject({ asExpected: false, why: expect.any(String) });
      expect(wrong.code).toBe(1);
      const tampered = await withApp('send', 'stripe', '--tamper', '--url', origin);
      expect(tampered).toMatchObject({
        code: 0,
        out: expect.stringMatching(/^401 .*the signature is wrong/),
      });
    });

    it('send --skew signs a time of long ago, which must be refused', async () => {
      const old = await withApp('send', 'stripe', '--skew', '1h', '--url', origin, '--json');
      expect(old.code).toBe(0);
      expect(json(old)).toMatchObject({ asExpected: true, answers: [{ status: 401, expected: 'refused' }] });
    });

    it('send says where nothing answers', async () => {
      const { code, out } = await withApp('send', 'stripe', '--url', 'http://127.0.0.1:1');
      expect({ code, out }).toEqual({ code: 1, out: expect.stringContaining('is the application running') });
    });
  });

  /** Each check by itself, in this process, with one fault and its remedy. */
  describe('a check of doctor', () => {
    type Fault = readonly [found: readonly Finding[], text: RegExp, remedy: RegExp];
    const patient = (): Patient => ({
      app,
      dataSource: app.get(WEBHOOKS_DATA_SOURCE),
      options: app.get(WEBHOOKS_OPTIONS),
      read: (work) => app.get(BoundedRead).run(work),
    });
    afterEach(() => jest.restoreAllMocks());

    const FAULTS: Readonly<Record<string, (check: Check) => Promise<Fault>>> = {
      server: async (check) => {
        // No server of the tests is that old.
        jest.spyOn(app.get(DoctorStore), 'server').mockResolvedValue({ version: 130_011, nowMs: Date.now() });
        return [await check.run(patient()), /the server is PostgreSQL 13/, /use PostgreSQL 14 or later/];
      },
      migrations: async (check) => {
        await database.query(`ALTER INDEX webhook_outbox_dead RENAME TO webhook_outbox_other`);
        const found = await check.run(patient());
        await database.query(`ALTER INDEX webhook_outbox_other RENAME TO webhook_outbox_dead`);
        return [found, /missing in schema 'public': index webhook_outbox_dead/, /migration:run/];
      },
      clocks: async (check) => {
        const { now } = Date;
        jest.spyOn(Date, 'now').mockImplementation(() => now() + 3_600_000);
        return [await check.run(patient()), /clocks of this machine and of the database differ by/, /NTP/];
      },
      pooler: async (check) => {
        const pooler = await TransactionPooler.start(database.url);
        const dataSource = await new DataSource(options(pooler.url)).initialize();
        const found = await check.run({ ...patient(), dataSource });
        await dataSource.destroy();
        await pooler.stop();
        return [found, /LISTEN does not work/, /relay: \{ listen: \{ url/];
      },
      snapshots: async (check) => {
        const runner = database.dataSource.createQueryRunner();
        await runner.startTransaction('REPEATABLE READ');
        await runner.query(`SELECT 1`);
        const store = app.get(DoctorStore);
        const oldest = store.oldestSnapshot.bind(store);
        // Nobody waits here for ten minutes.
        jest.spyOn(store, 'oldestSnapshot').mockImplementation(async (manager) => {
          const real = await oldest(manager);
          return real && { ...real, ageMs: real.ageMs + 11 * 60_000 };
        });
        const found = await check.run(patient());
        await runner.rollbackTransaction();
        await runner.release();
        return [found, /has been open for 11 min/, /pg_terminate_backend\(\d+\)/];
      },
      retention: async (check) => {
        const { options: resolved, ...rest } = patient();
        const found = await check.run({ ...rest, options: { ...resolved, retention: false } });
        return [found, /retention is off/, /webhook-inbox prune/];
      },
      cautions: async (check) => {
        const { options: resolved, ...rest } = patient();
        const quiet = { ...resolved.sources.get('stripe')!, name: 'quiet' };
        const sources = new Map([...resolved.sources, ['quiet', quiet]]);
        const found = await check.run({ ...rest, options: { ...resolved, sources } });
        return [found, /no handler takes the events of source 'quiet'/, /@OnWebhook\('quiet', …\)/];
      },
      secrets: async (check) => {
        const [secret] = await app.get(Inspector).secrets('stripe');
        await database.query(
          `INSERT INTO webhook_secret_use (source, fingerprint, deliveries, first_at, last_at)
           SELECT 'stripe', fingerprint, 9, now() - interval '90 days', last_at
             FROM (VALUES ($1, now() - interval '60 days'), ('ffffff', now())) AS t(fingerprint, last_at)
               ON CONFLICT (source, fingerprint) DO UPDATE SET last_at = EXCLUDED.last_at`,
          [secret!.fingerprint],
        );
        const found = await check.run(patient());
        await database.query(`DELETE FROM webhook_secret_use WHERE source = 'stripe'`);
        return [found, /safe to remove since/, /remove it from the secrets of the source/];
      },
      relay: async (check) => {
        let found: Finding[] = [];
        // This instance gives its sign of life every few seconds, perhaps just in between.
        await until(async () => {
          await database.query(`UPDATE webhook_relay SET seen_at = now() - interval '1 hour'`);
          found = await check.run(patient());
          return found.length > 0;
        });
        await app.get(DeskKeeper).round();
        return [found, /no instance has given a sign of life/, /start an instance without relay: false/];
      },
      types: async (check) => {
        const { headers, body } = stripeEvent('evt_payed', 'invoice.payed');
        await app.get(Inbox).receive('stripe', { headers, rawBody: body });
        const text = /'invoice\.payed' of source 'stripe' came 1 times.*a handler takes 'invoice\.paid'/;
        return [await check.run(patient()), text, /correct the type in @OnWebhook\('stripe'/];
      },
      leftovers: async (check) => {
        await receive('renamed', 'grant.made');
        await reaches('renamed', 'processed');
        await database.query(`UPDATE webhook_claim SET source = 'elder' WHERE event_id = 'renamed'`);
        return [await check.run(patient()), /events of source 'elder' are stored/, /configure it again/];
      },
      ways: async (check) => {
        const dataSource = await new DataSource(options(database.url)).initialize();
        dataSource.subscribers.push({ afterTransactionCommit: () => undefined });
        const found = await check.run({ ...patient(), dataSource });
        await dataSource.destroy();
        return [found, /claims are made in TypeORM's own transactions/, /set claims: 'message'/];
      },
    };

    it.each(CHECKS.map((check) => [check.name, check] as const))(
      '%s: a fault and its remedy',
      async (name, check) => {
        const fault = FAULTS[name];
        if (fault === undefined)
          throw new Error(`the check '${name}' has no fault in this table: it is not tested`);
        const [found, text, remedy] = await fault(check);
        const one = found.find((finding) => text.test(finding.text));
        expect({ found, one }).toMatchObject({ one: { remedy: expect.stringMatching(remedy) } });
        expect(readFileSync('docs/command-line.md', 'utf8')).toContain(`| \`${name}\``);
      },
    );
  });

  // The tests before this one have run them all: what is left here is what a selection of tests has left out, or a new command.
  it('every command has been run against the database', async () => {
    await receive('for-all', 'grant.made');
    const url = database.url;
    const left = COMMANDS.filter(({ name }) => !line.started.has(`${name} ${url}`));
    await ofEach(left, async ({ name, needs }) => {
      const place = needs === 'application' ? ['--app', line.app] : [];
      const running = line.start([name, ...rightArgs(name), ...place], { DATABASE_URL: url });
      if (name === 'tail') {
        await until(() => running.out().includes('for-all'), 120_000);
        running.interrupt();
      }
      const { code, error } = await running.ended;
      expect({ name, code, error }).toMatchObject({ name, code: expect.any(Number) });
      expect([0, 1, 3, 5]).toContain(code);
    });
  }, 600_000);
});
