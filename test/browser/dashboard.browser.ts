import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { INestApplication } from '@nestjs/common';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { Inbox } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { createApplication, listen, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DeskHandlers, deskSources, world } from '../support/desk.js';
import { awardee, stripeEvent, type SignedRequest } from '../support/signing.js';

/** `npm run docs:dashboard` has the pictures of docs/dashboard.md made anew; otherwise they are made, and left out of the way. */
const SHOTS = new URL(`../../${process.env.SCREENSHOTS ?? 'dist/screenshots'}/`, import.meta.url).pathname;
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

describe('the page in a browser', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  let url: string;
  let faults: string[] = [];
  let outside: string[] = [];

  const send = (source: string, { headers, body }: SignedRequest) =>
    app.get(Inbox).receive(source, { headers, rawBody: body });
  const open = async (path: string) => {
    await page.goto(`${url}#/${path}`);
    await page.locator('h1').waitFor();
  };
  const shot = (name: string) => page.screenshot({ path: `${SHOTS}${name}.png` });
  const newPage = async (options: Parameters<Browser['newContext']>[0] = {}) => {
    await context?.close();
    context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    page = await context.newPage();
    page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('request', (request) => {
      if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith('blob:'))
        outside.push(request.url());
    });
  };
  const axe = async () => {
    // Evaluated by the debugger, past the page's policy, which would refuse the script.
    const source = (await import('node:fs')).readFileSync(AXE, 'utf8');
    await page.evaluate(source);
    const found = await page.evaluate(async () => {
      const { axe: checker } = globalThis as never as {
        axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> };
      };
      return (await checker.run()).violations.map(({ id, impact, nodes }) => ({
        id,
        impact,
        at: nodes[0]?.html,
      }));
    });
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
        WebhooksDashboardModule.forRoot({ allowUnauthenticated: true, actor: () => 'ann@example.com' }),
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
    await newPage();
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
    world.grantsFail = true;
    for (const id of ['closed-1', 'closed-22', 'closed-333'])
      await send('awardee', awardee(id, 'grant.made', { grant: { id, amount: 12_500, currency: 'EUR' } }));
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'dead'`)).length === 3,
    );
    world.grantsFail = false;
    const forged = awardee('forged', 'grant.made', {});
    await send('awardee', { ...forged, body: Buffer.from('{"amount":1}') });
    await send('stripe', awardee('elsewhere', 'grant.made', {}));
    await app.get(DeskKeeper).round();
    // An hour that has passed, for the charts.
    await database.query(`
      INSERT INTO webhook_stat SELECT date_trunc('minute', now()) - m * interval '1 minute', s.source, s.metric,
             greatest(0, (s.base * (1 + 0.5 * sin(m / 7.0)) + (m * 7919 % 11) * s.base / 20))::bigint
        FROM generate_series(1, 59) m,
             (VALUES ('stripe', 'deliveries', 140), ('stripe', 'handled', 120), ('stripe', 'duplicates', 14),
                     ('stripe', 'ack:5', 120), ('stripe', 'ack:20', 18), ('stripe', 'ack:50', 2),
                     ('awardee', 'rejected:wrong-signature', 3), ('awardee', 'retried', 5),
                     ('', 'max:backlog-ms', 400)) AS s(source, metric, base)
          ON CONFLICT DO NOTHING`);
  }

  it('R23 takes a new user from the overview to a dead letter, to its cause, and to done', async () => {
    await open('overview');
    await page.getByText('Backlog age').first().waitFor();
    await page.waitForTimeout(400);
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

  it('shows each screen without a serious fault of accessibility, light and dark', async () => {
    for (const scheme of ['light', 'dark'] as const) {
      await newPage({ colorScheme: scheme });
      for (const path of [
        'overview',
        'events',
        'effects',
        'dead',
        'rejections',
        'sources',
        'relays',
        'audit',
      ]) {
        await open(path);
        await page.waitForTimeout(250);
        if (path === 'rejections') await page.locator('summary').first().click();
        expect({ path, scheme, faults: await axe() }).toEqual({ path, scheme, faults: [] });
        if (scheme === 'dark' ? path === 'overview' : !['overview', 'dead', 'audit'].includes(path))
          await shot(scheme === 'dark' ? `${path}-dark` : path);
      }
      await open('events');
      await page.locator('a.row-link').first().click();
      await page.getByText('Timeline').waitFor();
      expect(await axe()).toEqual([]);
    }
  });

  it('filters with suggestions, keeps the filter in the address, and says what is wrong with it', async () => {
    await open('events');
    await page.keyboard.press('/');
    await page.keyboard.type('st');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.keyboard.type('de');
    await page.getByRole('option', { name: 'state:dead' }).waitFor();
    await shot('filter');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await until(() => page.url().includes('state%3Adead'));
    await page.locator('a.row-link').first().waitFor();
    expect(await page.locator('tbody .state').allTextContents()).toEqual(expect.arrayContaining(['dead']));
    await open('events?q=stat:dead');
    await page
      .getByRole('alert')
      .getByText(/did you mean/)
      .waitFor();
    // The browser notes the 400 on its console.
    expect(faults.splice(0)).toEqual([expect.stringContaining('400')]);
  });

  it('can be used with the keyboard alone', async () => {
    await open('overview');
    await page.keyboard.press('g');
    await page.keyboard.press('e');
    await page.locator('a.row-link').first().waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByText('Timeline').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor({ state: 'detached' });
  });

  it('fits a narrow screen', async () => {
    await newPage({ viewport: { width: 390, height: 844 } });
    for (const path of ['overview', 'events', 'dead', 'rejections', 'sources', 'relays', 'audit']) {
      await open(path);
      await page.waitForTimeout(250);
      const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      expect({ path, wide }).toEqual({ path, wide: 0 });
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
  });
});
