import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import { chromium, type Browser, type BrowserContext, type Page, type Request } from 'playwright-core';
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { Inbox, Operator } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { createApplication, listen, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { FakeSink } from '../support/fake-sink.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { Latch } from '../support/latch.js';
import { awardee, stripeEvent, type SignedRequest } from '../support/signing.js';

/** `npm run docs:dashboard` has the pictures of docs/dashboard.md made anew; otherwise they are made, and left out of the way. */
const SHOTS = new URL(`../../${process.env.SCREENSHOTS ?? 'dist/screenshots'}/`, import.meta.url).pathname;
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SCREENS = ['overview', 'events', 'effects', 'dead', 'rejections', 'sources', 'relays', 'audit'];

describe('the page in a browser', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  /** The page at hand is one that any test may go on with. */
  let isPlain = false;
  let url: string;
  let opened = 0;
  let faults: string[] = [];
  let outside: string[] = [];

  const send = (source: string, { headers, body }: SignedRequest) =>
    app.get(Inbox).receive(source, { headers, rawBody: body });
  /** As a page of its own: where only the hash changes, the former screen could be taken for this one. */
  const open = async (path: string) => {
    opened += 1;
    await page.goto(`${url}?${opened}#/${path}`);
    await page.locator('h1').waitFor();
    await page.locator('[aria-busy]').first().waitFor({ state: 'detached' });
  };
  const shot = (name: string) => page.screenshot({ path: `${SHOTS}${name}.png` });
  const newPage = async (options?: Parameters<Browser['newContext']>[0]) => {
    await context?.close();
    isPlain = options === undefined;
    context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    page = await context.newPage();
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('request', (request) => {
      if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith('blob:'))
        outside.push(request.url());
    });
  };
  /** Rules that a browser's person would stumble over. `rules` leaves the others out. */
  const axe = async (rules?: string[]) => {
    // Evaluated by the debugger, past the page's policy, which would refuse the script.
    if (!(await page.evaluate(`'axe' in globalThis`))) await page.evaluate(axeSource);
    const found = await page.evaluate(async (only) => {
      const { axe: checker } = globalThis as never as {
        axe: {
          run(
            options: object,
          ): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
        };
      };
      const { violations } = await checker.run({
        resultTypes: ['violations'],
        ...(only ? { runOnly: only } : {}),
      });
      return violations.map(({ id, impact, nodes }) => ({ id, impact, at: nodes[0]?.html }));
    }, rules);
    return found.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  };

  beforeAll(async () => {
    mkdirSync(SHOTS, { recursive: true });
    database = await createDatabase();
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources, deadLetterThreshold: 3, rejections: { keep: '24h' } },
      providers: [DeskHandlers],
      imports: [
        WebhooksDashboardModule.forRoot({
          allowUnauthenticated: true,
          actor: () => 'ann@example.com',
          forward: { http: true, privateAddresses: ['127.0.0.0/8'] },
          sourceLink: 'https://git.example/shop/{file}#L{line}',
        }),
      ],
    });
    url = `${await listen(app)}/webhooks-desk`;
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    await seed();
  });
  afterAll(async () => {
    await browser?.close();
    await app?.close();
    await database?.drop();
  });
  beforeEach(async () => {
    faults = [];
    outside = [];
    if (!isPlain) await newPage();
  });
  afterEach(() => {
    expect(faults).toEqual([]);
    expect(outside).toEqual([]);
  });

  async function seed(): Promise<void> {
    for (let i = 0; i < 24; i += 1) {
      await send(
        'stripe',
        stripeEvent(`evt_1Pq${i}`, i % 3 === 0 ? 'customer.updated' : 'invoice.paid', { id: `in_${i}` }),
      );
      await send('awardee', awardee(`grant-${i}`, 'grant.made', { amount: i * 10 }));
    }
    for (let i = 0; i < 5; i += 1) await send('awardee', awardee('grant-3', 'grant.made', { amount: 30 }));
    // What came before must not meet the broken world.
    const idle = async () =>
      (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'pending'`)).length === 0;
    await until(idle);
    world.grantsFail = true;
    for (const id of ['closed-1', 'closed-22', 'closed-333'])
      await send('awardee', awardee(id, 'grant.made', { grant: { id, amount: 12_500, currency: 'EUR' } }));
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead'`)).length === 3,
    );
    world.grantsFail = false;
    await until(idle);
    const forged = awardee('forged', 'grant.made', {});
    await send('awardee', { ...forged, body: Buffer.from('{"amount":1}') });
    await send('stripe', awardee('elsewhere', 'grant.made', {}));
    await app.get(DeskKeeper).round();
    // An hour that has passed, for the charts.
    await database.query(`
      INSERT INTO webhook_stat SELECT date_trunc('minute', now()) - m * interval '1 minute', s.source, s.metric,
             greatest(0, (s.base * (1 + 0.5 * sin(m / 7.0)) + (m * 7919 % 11) * s.base / 20))::bigint
        FROM generate_series(1, 59) m,
             (SELECT u.source, v.metric, v.base
                FROM (VALUES ('stripe', 'deliveries', 140), ('stripe', 'handled', 120), ('stripe', 'duplicates', 14),
                             ('stripe', 'ack:5', 120), ('stripe', 'ack:20', 18), ('stripe', 'ack:50', 2),
                             ('awardee', 'rejected:wrong-signature', 3), ('awardee', 'retried', 5),
                             ('', 'max:backlog-ms', 400)) AS v(source, metric, base),
                     LATERAL (SELECT DISTINCT unnest(ARRAY[v.source, ''])) AS u(source)) AS s
          ON CONFLICT DO NOTHING`);
  }

  it('R23 takes a new user from the overview to a dead letter, to its cause, and to done', async () => {
    await open('overview');
    await page.getByText('Backlog age').first().waitFor();
    await shot('overview');
    await page.getByRole('link', { name: /^Dead \d/ }).click();
    await page
      .getByText(/is closed since/)
      .first()
      .waitFor();
    await shot('dead-letters');
    await page
      .getByText(/is closed since/)
      .first()
      .click();
    await page.getByRole('link', { name: 'closed-22' }).click();
    await page.getByText('Timeline').waitFor();
    await page.getByRole('button', { name: 'Show the body' }).click();
    await page.getByText('"currency": "EUR"').waitFor();
    await shot('event');
    await page.getByRole('button', { name: 'Revive…' }).click();
    expect(await axe()).toEqual([]);
    await page.getByLabel(/Why/).fill('the account was opened again');
    await shot('revive');
    await page.getByRole('button', { name: 'Revive', exact: true }).click();
    await page.getByText(/1 row revived/).waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await page.locator('dd .state', { hasText: 'processed' }).waitFor();
    await open('audit');
    await page.getByText('the account was opened again').waitFor();
    await shot('audit');
  });

  it.each(['light', 'dark'] as const)(
    'shows each screen without a serious fault of accessibility: %s',
    async (scheme) => {
      await newPage({ colorScheme: scheme });
      // What the other scheme has checked does not hang on colours.
      const rules = scheme === 'dark' ? ['color-contrast'] : undefined;
      for (const path of SCREENS) {
        await open(path);
        if (path === 'rejections') await page.locator('summary').first().click();
        expect({ path, faults: await axe(rules) }).toEqual({ path, faults: [] });
        if (scheme === 'dark' ? path === 'overview' : !['overview', 'dead', 'audit'].includes(path))
          await shot(scheme === 'dark' ? `${path}-dark` : path);
      }
      await open('events');
      await page.locator('a.row-link').first().click();
      await page.getByText('Timeline').waitFor();
      expect(await axe(rules)).toEqual([]);
    },
  );

  it('R25 previews a replay of what a filter finds, has it run, and shows its progress and end', async () => {
    await open('events?q=source:awardee type:grant.made state:processed');
    await page.getByRole('button', { name: 'Replay these…' }).click();
    const dialog = page.getByRole('dialog');
    const preview = dialog.getByRole('region', { name: 'What would run' });
    await preview.getByText(/awardee\/DeskHandlers.grant × \d+/).waitFor();
    await preview.getByText(/^mail × \d+/).waitFor();
    await dialog.getByLabel(/Why/).fill('totals were wrong');
    await dialog.getByLabel('mail', { exact: true }).check();
    await preview.getByText('Happens once more').waitFor();
    expect(await dialog.getByLabel(/Why/).inputValue()).toBe('totals were wrong');
    await dialog.getByLabel('mail', { exact: true }).uncheck();
    await preview.getByText('Stays done').waitFor();
    expect(await axe()).toEqual([]);
    await shot('replay');
    const sent = world.sent.length;
    await dialog.getByRole('button', { name: 'Replay', exact: true }).click();
    await dialog.getByText(/\d+ events replayed\.$/).waitFor();
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'pending'`)).length === 0,
    );
    expect(world.sent).toHaveLength(sent);
  });

  it('has a person decide about an effect in doubt', async () => {
    world.chargesHang = true;
    await send('awardee', awardee('charge-1', 'charge.made', { amount: 7 }));
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'parked'`)).length === 1,
    );
    world.chargesHang = false;
    await open('effects?q=state:parked');
    await page.getByRole('button', { name: 'Decide…' }).click();
    expect(await axe()).toEqual([]);
    await shot('decide');
    await page.getByLabel(/do it again/).check();
    await page.getByLabel(/Why/).fill('no charge at the bank');
    await page.getByRole('button', { name: 'Decide', exact: true }).click();
    await page.getByText('Decided.').waitFor();
    await until(
      async () =>
        (await database.query(`SELECT 1 FROM webhook_outbox WHERE name = 'charge' AND state = 'done'`))
          .length === 1,
    );
    // Success leaves the evidence: the attempts, and the person who decided between them.
    await open('events?q=id:charge-1');
    await page.locator('a.row-link').click();
    const history = page.locator('section', { has: page.getByRole('heading', { name: 'History' }) });
    await history.getByText('ann@example.com decided: do it again').waitFor();
    const told = await history.getByRole('listitem').allInnerTexts();
    const [, parked, decided, done] = told;
    expect(told).toHaveLength(4);
    expect(parked).toMatch(/attempt 1 parked[^]*took [^]* on [^]*in doubt[^]*socket hang up/);
    expect(decided).toContain('Why: no charge at the bank');
    expect(done).toContain('attempt 2 done');
    expect(await axe()).toEqual([]);
  });

  it('shows where an error was thrown, when its rows died, and what they have in common', async () => {
    await open('dead');
    await page
      .getByRole('img', { name: /in the last 24 hours/ })
      .first()
      .waitFor();
    await page
      .getByText(/is closed since/)
      .first()
      .click();
    const link = page.getByRole('link', { name: /^test\/support\/desk\.ts:\d+:\d+$/ });
    expect(await link.getAttribute('href')).toMatch(
      /^https:\/\/git\.example\/shop\/test\/support\/desk\.ts#L\d+$/,
    );
    await page.getByText('grant.made', { exact: true }).waitFor();
    await page
      .getByText(/^[^ ]+:\d+$/)
      .first()
      .waitFor();
    expect(await axe()).toEqual([]);
  });

  it('parks an effect that has not begun, and calls it back', async () => {
    await app.get(Operator).pause('effect', 'mail', { by: 'ann', reason: 'the mail server is down' });
    await send('awardee', awardee('called-back', 'grant.made', { amount: 7 }));
    const row = async () =>
      (
        await database.query<{ state: string }>(
          `SELECT state FROM webhook_outbox WHERE event_id = 'called-back' AND kind = 'effect'`,
        )
      )[0]?.state;
    await until(async () => (await row()) === 'pending');
    await open('events?q=id:called-back');
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Park…' }).click();
    await page.getByLabel(/Why/).fill('while we look');
    await page.getByRole('button', { name: 'Park', exact: true }).click();
    await page.getByText('1 row parked.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await page.getByRole('button', { name: 'Decide…' }).click();
    await page.getByLabel('Let it run').check();
    await page.getByLabel(/Why/).fill('we looked');
    await page.getByRole('button', { name: 'Decide', exact: true }).click();
    await page.getByText('Decided.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await page.getByRole('button', { name: 'Cancel 1 effect…' }).click();
    expect(await axe()).toEqual([]);
    await page.getByLabel(/Why/).fill('sent by hand');
    await page.getByRole('button', { name: 'Cancel for good' }).click();
    await page.getByText('1 cancelled.').waitFor();
    expect(await row()).toBe('cancelled');
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    const history = page.locator('section', { has: page.getByRole('heading', { name: 'History' }) });
    const entry = history.getByRole('listitem').filter({ hasText: 'effect mail' });
    expect(await entry.innerText()).toMatch(/ann paused it[^]*Why: the mail server is down/);
    await app.get(Operator).resume('effect', 'mail', { by: 'ann', reason: 'it is back' });
  });

  it('pauses and resumes a handler', async () => {
    await open('sources');
    await page.getByRole('button', { name: 'Pause handler awardee/DeskHandlers.grant' }).click();
    expect(await axe()).toEqual([]);
    await page.getByLabel(/Why/).fill('deploy');
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await page.getByText('Paused.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await page.getByRole('button', { name: 'Resume handler awardee/DeskHandlers.grant' }).click();
    await page.getByLabel(/Why/).fill('deployed');
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await page.getByText('Resumed.').waitFor();
  });

  it('shows an effect’s payload at a click, and erases an event only when its id was typed', async () => {
    await open('events?q=id:grant-9');
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Show the payload' }).first().click();
    await page.getByRole('region', { name: 'Payload of mail' }).getByText('"amount": 90').waitFor();
    await page.getByRole('button', { name: 'Erase…' }).click();
    const erase = page.getByRole('button', { name: 'Erase for good' });
    expect(await erase.isDisabled()).toBe(true);
    await page.getByLabel(/Type grant-9/).fill('grant-9');
    await page.getByLabel(/Why/).fill('asked for by its owner');
    expect(await axe()).toEqual([]);
    await shot('erase');
    await erase.click();
    await page.getByText('Sent before, so other services have it: mail.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
    await page.getByText('The body was removed').waitFor();
  });

  it('filters with suggestions, keeps the filter in the address, and says what is wrong with it', async () => {
    await open('events');
    await page.keyboard.press('/');
    await page.keyboard.type('st');
    await page.getByRole('option', { name: 'state:' }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.keyboard.type('de');
    await page.getByRole('option', { name: 'state:dead' }).waitFor();
    await shot('filter');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await until(() => page.url().includes('state%3Adead'));
    // The former rows are shown until the address has been read.
    await until(async () => {
      const states = await page.locator('tbody .state').allTextContents();
      return states.length > 0 && states.every((state) => state === 'dead');
    });
    await open('events?q=stat:dead');
    await page
      .getByRole('alert')
      .getByText(/did you mean/)
      .waitFor();
    // The list asks again every few seconds, and the browser notes each 400 on its console.
    await page.goto('about:blank');
    const noted = faults.splice(0);
    expect(noted).toEqual(noted.map(() => expect.stringContaining('400')));
    expect(noted).not.toEqual([]);
  });

  it('R23 takes a person who has a keyboard only from the overview to done', async () => {
    const { keyboard } = page;
    const focused = () =>
      page.evaluate<string>(
        `document.activeElement.matches('a, button') ? document.activeElement.textContent : ''`,
      );
    const tabTo = async (text: string) => {
      for (let i = 0; i < 80 && !(await focused()).includes(text); i += 1) await keyboard.press('Tab');
      expect(await focused()).toContain(text);
    };
    world.grantsFail = true;
    await send('awardee', awardee('keyboard', 'grant.made', {}));
    await until(
      async () =>
        (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead' AND event_id = 'keyboard'`))
          .length === 1,
    );
    world.grantsFail = false;
    await open('overview');
    await keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await keyboard.press('Escape');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'detached' });
    await keyboard.press('g');
    await keyboard.press('d');
    await page.locator('a.issue').first().waitFor();
    await keyboard.press('j');
    await keyboard.press('Enter');
    await page.getByRole('link', { name: 'keyboard' }).waitFor();
    await tabTo('keyboard');
    await keyboard.press('Enter');
    await page.getByText('Timeline').waitFor();
    await tabTo('Revive…');
    await keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await keyboard.type('by hand');
    await keyboard.press('Enter');
    await page.getByText(/1 row revived/).waitFor();
    await keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.locator('dd .state', { hasText: 'processed' }).waitFor();
    await keyboard.press('g');
    await keyboard.press('a');
    await page.getByText('by hand', { exact: true }).waitFor();
  });

  it('R25 forwards an event to another URL', async () => {
    const sink = await FakeSink.start();
    await open('events?q=id:grant-7');
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Forward…' }).click();
    await page.getByLabel('URL').fill(`${sink.origin}/hook`);
    await page.getByLabel(/Why/).fill('a colleague debugs');
    expect(await axe()).toEqual([]);
    await shot('forward');
    await page.getByRole('button', { name: 'Forward', exact: true }).click();
    await page.getByText('1 event forwarded.').waitFor();
    expect(sink.requests.map(({ body }) => body)).toEqual(['{"amount":70}']);
    await sink.stop();
  });

  it('R14 takes a person’s word on dead rows of one error, also that they are beyond help', async () => {
    world.grantsFail = true;
    await send('awardee', awardee('beyond', 'grant.made', {}));
    await until(
      async () =>
        (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead' AND event_id = 'beyond'`))
          .length === 1,
    );
    world.grantsFail = false;
    await open('dead');
    await page.locator('a.issue').first().click();
    await page.getByRole('link', { name: 'beyond' }).waitFor();
    expect(await axe()).toEqual([]);
    const marked = async (verb: string, state: string) => {
      await page.getByRole('button', { name: `${verb}…` }).click();
      await page.getByLabel(/Why/).fill(`${verb} it`);
      await page.getByRole('button', { name: verb, exact: true }).click();
      await page.getByText(`Marked as ${state}.`).waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().click();
      await page.locator('main .state', { hasText: state }).first().waitFor();
    };
    await marked('Acknowledge', 'acknowledged');
    await marked('Resolve', 'resolved');
    await marked('Reopen', 'open');
    await page.getByRole('button', { name: /^Give up \d+…$/ }).click();
    expect(await axe()).toEqual([]);
    await page.getByLabel(/Why/).fill('closed for good');
    await page.getByRole('button', { name: 'Give up', exact: true }).click();
    await page.getByText(/rows? given up\./).waitFor();
    expect(
      await database.query(`SELECT state, reason FROM webhook_outbox WHERE event_id = 'beyond'`),
    ).toEqual([{ state: 'dead', reason: 'given-up' }]);
  });

  it('stops a bulk where a person says so', async () => {
    await database.query(`
      INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
      SELECT gen_random_uuid(), 'effect', 'gone', 'dead', now(), 'permanent-error', 'no such thing' FROM generate_series(1, 250)`);
    const held = new Latch();
    await page.route('**/api/actions/revive', async (route) => {
      await held.wait();
      await route.continue();
    });
    await open('dead');
    await page.getByText('no such thing').first().click();
    await page.getByRole('button', { name: 'Revive 250…' }).click();
    await page.getByLabel(/Why/).fill('the account was opened again');
    await page.getByRole('button', { name: 'Revive', exact: true }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    held.open();
    await page.getByText('Stopped after 100 of 250.').waitFor();
    await page.unroute('**/api/actions/revive');
    const rows = await database.query(
      `SELECT state, count(*)::int AS rows FROM webhook_outbox WHERE name = 'gone' GROUP BY state ORDER BY state`,
    );
    expect(rows).toEqual([
      { state: 'dead', rows: 150 },
      { state: 'pending', rows: 100 },
    ]);
    await database.query(`DELETE FROM webhook_outbox WHERE name = 'gone'`);
  });

  it('R33 verifies kept rejections again', async () => {
    await open('rejections?q=source:awardee');
    await page.getByRole('button', { name: 'Verify again…' }).click();
    expect(await axe()).toEqual([]);
    await page.getByLabel(/Why/).fill('secret corrected');
    await page.getByRole('button', { name: 'Verify again', exact: true }).click();
    await page.getByText(/requests? verified again, 0 taken in as new events\./).waitFor();
  });

  it('hands a body over as a file and as a command', async () => {
    await newPage({ permissions: ['clipboard-read', 'clipboard-write'] });
    const body = `@/etc/passwd it's`;
    await send('awardee', awardee('handed', 'hostile', body));
    await open('events?q=id:handed');
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Show the body' }).click();
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command = await page.evaluate<string>('navigator.clipboard.readText()');
    expect(command).toMatch(/^curl -X POST "\$URL"/);
    expect(command).toContain(String.raw`--data-raw $'@/etc/passwd it\x27s'`);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download' }).click(),
    ]);
    expect(readFileSync(await download.path(), 'utf8')).toBe(body);
  });

  it('opens on Fastify, under a global prefix, with and without a slash at its end', async () => {
    const express = url;
    const fastify = await createApplication({
      adapter: 'fastify',
      databaseUrl: database.url,
      webhooks: { sources: deskSources, relay: false, reconcile: false, retention: false },
      imports: [WebhooksDashboardModule.forRoot({ allowUnauthenticated: true })],
      configure: (application) => application.setGlobalPrefix('backend'),
    });
    try {
      url = `${await listen(fastify)}/backend/webhooks-desk`;
      await newPage();
      await open('overview');
      await page.getByText('Backlog age').first().waitFor();
      await open('events');
      await page.locator('a.row-link').first().waitFor();
      await page.goto(`${url}/`);
      await page.getByText('Backlog age').first().waitFor();
    } finally {
      url = express;
      await context.close();
      isPlain = false;
      await fastify.close();
    }
  });

  it('R23 takes a person with a phone from the overview to done, by touch', async () => {
    world.grantsFail = true;
    await send('awardee', awardee('phone', 'grant.made', {}));
    await until(
      async () =>
        (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead' AND event_id = 'phone'`))
          .length === 1,
    );
    world.grantsFail = false;
    await newPage({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    await open('overview');
    await page.getByRole('link', { name: /^Dead \d/ }).tap();
    await page.locator('a.issue').first().tap();
    await page.getByRole('link', { name: 'phone' }).tap();
    await page.getByText('Timeline').waitFor();
    await page.getByRole('button', { name: 'Show the body' }).tap();
    await page.getByRole('button', { name: 'Revive…' }).tap();
    await page
      .getByRole('region', { name: 'What would run' })
      .getByText('awardee/DeskHandlers.grant')
      .waitFor();
    await page.getByLabel(/Why/).fill('from the train');
    await shot('phone-revive');
    await page.getByRole('button', { name: 'Revive', exact: true }).tap();
    await page.getByRole('region', { name: 'Outcome' }).getByText('1 row: 1 done').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).last().tap();
    await page.locator('dd .state', { hasText: 'processed' }).waitFor();
    // The menu is a line that scrolls: its active item is on the screen.
    await page.getByRole('link', { name: 'Audit' }).tap();
    await page.getByText('from the train').waitFor();
    const { left, right } = await page.evaluate<{ left: number; right: number }>(
      `document.querySelector('.side [aria-current]').getBoundingClientRect().toJSON()`,
    );
    expect([left >= 0, right <= 390]).toEqual([true, true]);
    for (const path of ['events', 'effects', 'audit', 'relays']) {
      await open(path);
      const labels = await page.evaluate<string[]>(
        `[...document.querySelector('tbody tr').querySelectorAll('td[data-label]:not(.none)')].map((cell) => getComputedStyle(cell, '::before').content)`,
      );
      expect([path, labels.length > 2, labels.every((label) => label.length > 4)]).toEqual([
        path,
        true,
        true,
      ]);
    }
  });

  it('asks each question once, says how old it is, and asks nothing while a dialog is open', async () => {
    await open('sources');
    await page.getByText(/Updated (now|\d+ s ago)/).waitFor();
    const asked = { paused: 0, sources: 0 };
    page.on('request', (request) => {
      if (request.url().includes('/api/paused')) asked.paused += 1;
      if (request.url().includes('/api/sources')) asked.sources += 1;
    });
    const refresh = () =>
      Promise.all([
        page.waitForResponse(/api\/paused/),
        page.waitForResponse(/api\/sources/),
        page.getByRole('button', { name: 'Refresh' }).click(),
      ]);
    // The page's own next question comes an interval after this one.
    await refresh();
    Object.assign(asked, { paused: 0, sources: 0 });
    await refresh();
    expect(asked).toEqual({ paused: 1, sources: 1 });
    await page.route('**/api/**', (route) => route.abort('connectionrefused'));
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('Server cannot be reached.').first().waitFor();
    await page.unroute('**/api/**');
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('Server cannot be reached.').first().waitFor({ state: 'detached' });
    faults = faults.filter((fault) => !fault.includes('ERR_CONNECTION_REFUSED'));
  });

  it('moves no row under the pointer, and says how many are new instead', async () => {
    await open('events');
    const row = page.locator('tbody tr').first();
    const link = row.locator('a.row-link');
    await row.hover();
    const before = await link.innerText();
    for (const id of ['new-1', 'new-2']) await send('awardee', awardee(id, 'grant.made', {}));
    await page.getByRole('button', { name: '2 new' }).waitFor();
    expect(await link.innerText()).toBe(before);
    expect(await axe()).toEqual([]);
    await page.getByRole('button', { name: '2 new' }).click();
    await page.locator('tbody tr', { hasText: 'new-2' }).waitFor();
    await page.getByRole('button', { name: '2 new' }).waitFor({ state: 'detached' });
  });

  it('tells an ended session from a refusal, and keeps what was typed', async () => {
    await open('dead');
    await database.query(`
      INSERT INTO webhook_outbox (id, kind, name, state, settled_at, reason, error)
      SELECT gen_random_uuid(), 'effect', 'gone', 'dead', now(), 'permanent-error', 'no such thing' FROM generate_series(1, 150)`);
    await open('dead?q=effect:gone');
    await page.getByText('no such thing').first().click();
    await page.getByRole('button', { name: 'Revive 150…' }).click();
    await page.getByLabel(/Why/).fill('typed by hand');
    let answered = 0;
    await page.route('**/api/actions/revive', (route) => {
      answered += 1;
      if (answered === 1) return route.continue();
      if (answered === 2) return route.fulfill({ status: 401, json: { message: 'Unauthorized' } });
      if (answered === 3) return route.fulfill({ status: 403, json: { error: `'revive' is not allowed` } });
      if (answered === 4) return route.abort('connectionrefused');
      return route.continue();
    });
    await page.getByRole('button', { name: 'Revive', exact: true }).click();
    for (const text of [
      /100 of 150 done, then: Your session ended/,
      /You may not do this/,
      /cannot be reached/,
    ]) {
      await page.getByRole('alert').getByText(text).waitFor();
      expect(await page.getByLabel(/Why/).inputValue()).toBe('typed by hand');
      await page.getByRole('button', { name: 'Go on' }).click();
    }
    await page.getByText(/150 rows revived/).waitFor();
    await page.unroute('**/api/actions/revive');
    faults = [];
    await database.query(`DELETE FROM webhook_outbox WHERE name = 'gone'`);
  });

  it('does nothing twice where an answer was lost, and says when a click could not be followed', async () => {
    const sink = await FakeSink.start();
    for (const id of ['lost-1', 'lost-2']) await send('awardee', awardee(id, 'hostile', {}));
    await open('events?q=id:lost-*');
    await page.locator('a.row-link').nth(1).waitFor();
    await page.getByRole('button', { name: 'Forward these…' }).click();
    await page.getByLabel('URL').fill(`${sink.origin}/hook`);
    await page.getByLabel(/Why/).fill('to see');
    let isLost = true;
    await page.route('**/api/actions/forward', async (route) => {
      const response = await route.fetch();
      if (!isLost) return route.fulfill({ response });
      isLost = false;
      return route.abort('connectionreset');
    });
    await page.getByRole('button', { name: 'Forward', exact: true }).click();
    await page.getByRole('alert').getByText('The server cannot be reached').waitFor();
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByText('2 events forwarded.').waitFor();
    expect(sink.requests).toHaveLength(2);
    await page.unroute('**/api/actions/forward');
    await sink.stop();
    await open('events?q=id:lost-*');
    await page.getByRole('checkbox', { name: 'Select all rows shown' }).check();
    await page.route('**/api/events?*', (route) => route.abort('connectionrefused'));
    await page.getByRole('button', { name: 'Select all that match' }).click();
    await page.getByRole('alert').getByText('The server cannot be reached').first().waitFor();
    await page.unroute('**/api/events?*');
    await page.goto(`${url}#/event/`);
    await page.getByText('This address is malformed').waitFor();
    faults = [];
  });

  it('shows times in the zone that it names, and filters by it', async () => {
    await newPage({ timezoneId: 'America/New_York' });
    await open('events');
    await page.getByText(/Times in America\/New_York, UTC-0[45]:00/).waitFor();
    const zoned = page.waitForRequest((request) => /zone=UTC/.test(request.url()));
    await page.getByRole('button', { name: 'Show UTC' }).click();
    await zoned;
    await page.getByText('Times in UTC').waitFor();
    const title = await page.locator('tbody time').first().getAttribute('title');
    expect(title).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });

  it('draws a figure that stands alone as a point', async () => {
    let alone: number | null = null;
    await page.route('**/api/overview*', async (route) => {
      const response = await route.fetch();
      const data = (await response.json()) as { steps: object[] };
      const steps = data.steps.map((step, nth) => ({
        ...step,
        ackP50: nth === 30 ? alone : null,
        ackP99: null,
      }));
      await route.fulfill({ response, json: { ...data, steps } });
    });
    const chart = page.locator('.chart', { hasText: 'Time to an answer' });
    // Axes and grid are grey.
    const coloured = async () => {
      await chart.locator('canvas').waitFor();
      return page.evaluate<number>(`(() => {
        const chart = [...document.querySelectorAll('.chart')].find((one) => one.textContent.includes('Time to an answer'));
        const { width, height } = chart.querySelector('canvas');
        const { data } = chart.querySelector('canvas').getContext('2d').getImageData(0, 0, width, height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) {
          const [red, green, blue, opacity] = data.subarray(at, at + 4);
          if (opacity > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) count += 1;
        }
        return count;
      })()`);
    };
    await open('overview');
    expect(await coloured()).toBe(0);
    alone = 12;
    await open('overview');
    await until(async () => (await coloured()) > 0);
    await page.unroute('**/api/overview*');
  });

  it('three operators who only look ask no more than three questions a second each', async () => {
    const OPERATORS = 3;
    const SECONDS = 10;
    await newPage();
    // Not one that any test may go on with: its time is not the machine's.
    isPlain = false;
    await context.clock.install();
    const pages = [
      page,
      ...(await Promise.all(Array.from({ length: OPERATORS - 1 }, () => context.newPage()))),
    ];
    let [asked, pending] = [0, 0];
    const isQuestion = (request: Request) => request.url().includes('/api/');
    context.on('request', (request) => {
      if (!isQuestion(request)) return;
      asked += 1;
      pending += 1;
    });
    const ended = (request: Request) => {
      if (isQuestion(request)) pending -= 1;
    };
    context.on('requestfinished', ended);
    context.on('requestfailed', ended);
    for (const screen of SCREENS) {
      for (const one of pages) {
        await one.goto(`${url}?at-rest#/${screen}`);
        await one.locator('h1').waitFor();
      }
      await until(() => pending === 0);
      asked = 0;
      for (let second = 0; second < SECONDS; second += 1) {
        await Promise.all(pages.map((one) => one.clock.runFor(1_000)));
        await until(() => pending === 0);
      }
      expect([screen, asked > 0, asked <= OPERATORS * SECONDS * 3]).toEqual([screen, true, true]);
    }
  });

  it('marks a stretch of a chart, and shows its events', async () => {
    await open('overview');
    const box = (await page.locator('.u-over').first().boundingBox())!;
    await page.mouse.move(box.x + box.width / 4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2, box.y + 40, { steps: 5 });
    await page.mouse.up();
    await until(() => /events\?q=after%3A.*Z\+before%3A.*Z/.test(page.url()));
  });

  it('counts in the title what waits for a person, and mutes an alert in this browser', async () => {
    world.grantsFail = true;
    await send('awardee', awardee('counted', 'grant.made', {}));
    const dead = () =>
      database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead' AND event_id = 'counted'`);
    await until(async () => (await dead()).length === 1);
    world.grantsFail = false;
    await open('overview');
    await until(async () => /^\([1-9]\d*\) Overview/.test(await page.title()));
    const alerts = page.locator('section', { has: page.getByRole('heading', { name: 'Alerts' }) });
    const first = await alerts.getByRole('link').first().innerText();
    // By its text: an alert that is told meanwhile comes in front of it.
    await alerts
      .getByRole('listitem')
      .filter({ has: page.getByRole('link', { name: first, exact: true }) })
      .getByRole('button', { name: /^Mute 1 h/ })
      .click();
    const isShown = async () => (await alerts.getByRole('link').allInnerTexts()).includes(first);
    await until(async () => !(await isShown()));
    await open('overview');
    await alerts.getByText(/not shown, or muted/).waitFor();
    expect(await isShown()).toBe(false);
  });

  it('finds, chooses, exports, and goes back to where it was', async () => {
    await open('events?q=type:grant.made -state:dead');
    await page.locator('a.row-link').first().waitFor();
    await page.getByRole('checkbox', { name: 'Select all rows shown' }).check();
    await page.getByRole('button', { name: 'Select all that match' }).click();
    const chosen = await page.getByRole('region', { name: 'Selection' }).getByRole('status').textContent();
    expect(Number(/\d+/.exec(chosen!)![0])).toBeGreaterThan(20);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export CSV' }).click(),
    ]);
    expect(readFileSync(await download.path(), 'utf8')).toMatch(/^id,source,tenant,eventId/);
    await page.getByRole('button', { name: 'Clear', exact: true }).click();
    const tenth = page.locator('a.row-link').nth(10);
    await tenth.scrollIntoViewIfNeeded();
    await page.evaluate('scrollTo(0, 200)');
    const to = await tenth.getAttribute('href');
    await page.locator(`a.row-link[href="${to}"]`).click();
    await page.getByText('Timeline').waitFor();
    await until(async () => /grant\.made grant-/.test(await page.title()));
    await page.goBack();
    await until(async () => (await page.evaluate(`document.activeElement.getAttribute('href')`)) === to);
    await until(async () => Number(await page.evaluate('scrollY')) > 100);
    await open('events?q=source:strpe');
    await page.getByText(/did you mean 'stripe'/).waitFor();
    await page.goto(`${url}?bad#/%zz`);
    await page.getByText('This address is malformed').waitFor();
  });

  it('shows a body with a byte that is no text, with marks and as hex', async () => {
    const { headers } = awardee('bytes', 'hostile', '{"a":"x"}');
    const body = Buffer.from([...Buffer.from('{"family":"👨‍👩‍👧 \u200bno'), 0xff, ...Buffer.from('text"}')]);
    const signed = awardee('bytes', 'hostile', body);
    await send('awardee', { headers: { ...headers, ...signed.headers }, body });
    await open('events?q=id:bytes');
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Show the body' }).click();
    const shown = page.getByRole('region', { name: 'Body of the event' });
    await shown.getByText('👨‍👩‍👧 ⟨U+200B⟩no⟨byte FF⟩text').waitFor();
    await page.getByRole('button', { name: 'Hex' }).click();
    await shown.getByText('7b 22 66 61 6d').waitFor();
    // Of a source that does not name the signature's header in keepHeaders.
    const kept = page.locator('section.panel', { hasText: 'Only these are kept.' });
    await kept
      .getByText('A signature is among them where the source names its header in keepHeaders.')
      .waitFor();
    expect(await kept.textContent()).not.toContain(signed.headers['X-Awardee-Signature']);
  });

  it('fits a narrow screen', async () => {
    await newPage({ viewport: { width: 390, height: 844 } });
    for (const path of SCREENS) {
      await open(path);
      const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect({ path, wide }).toEqual({ path, wide: 0 });
      // Times without the name of their zone say nothing.
      await page.locator('.fresh .zone').first().waitFor({ state: 'visible' });
      if (path === 'overview' || path === 'events') await shot(`${path}-narrow`);
    }
  });

  it.each([
    [
      'markup',
      '{"a":"</script><script>window.hit=1</script><svg onload=window.hit=1><img src=x onerror=window.hit=1>"}',
    ],
    [
      'a javascript: link',
      '{"url":"javascript:window.hit=1","html":"<a href=javascript:window.hit=1>x</a>"}',
    ],
    ['bidirectional overrides', '{"a":"\u202egnp.exe\u2066"}'],
    ['a string of 1 MB', `{"a":"${'x'.repeat(1_000_000)}"}`],
    ['45,000 nested arrays', '['.repeat(45_000) + ']'.repeat(45_000)],
    ['no JSON', '<!doctype html><h1>503</h1>'],
  ])('shows %s as text', async (what, body) => {
    const id = `hostile-${what.length}`;
    expect(await send('awardee', awardee(id, 'hostile', body))).toMatchObject({ status: 200 });
    await open(`events?q=id:${id}`);
    await page.locator('a.row-link').click();
    await page.getByRole('button', { name: 'Show the body' }).click();
    const text = await page.getByRole('region', { name: 'Body of the event' }).textContent();
    expect(text!.length).toBeGreaterThan(20);
    expect(text).not.toMatch(/[\u202e\u2066]/);
    expect(await page.evaluate(() => (globalThis as { hit?: number }).hit)).toBeUndefined();
    expect(await page.locator('main svg, main img, main script').count()).toBe(0);
    if (what === 'markup') expect(await axe()).toEqual([]);
  });
});
