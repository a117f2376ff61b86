import type { INestApplication } from '@nestjs/common';
import { chromium, type Browser, type Page } from 'playwright-core';
import { leaveFaults } from '../../examples/demo/faults.js';
import { TOUR, tour } from '../../examples/demo/tour.js';
import { DASHBOARD_PATH } from '../../examples/receiver/dashboard.js';
import { serve } from '../../examples/receiver/receiver.js';
import { readSettings } from '../../examples/receiver/settings.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

/** The tour that `npm start` prints, of what it leaves. */
describe('the printed tour', () => {
  let database: TestDatabase;
  let app: INestApplication | undefined;
  let browser: Browser;
  let desk: string;

  const release = async (which: '1' | '2') => {
    const settings = readSettings({ PORT: '0', DEMO_RELEASE: which });
    return serve(settings, { url: database.url, stop: async () => undefined });
  };

  beforeAll(async () => {
    database = await createDatabase();
    app = await release('1');
    await leaveFaults(await app.getUrl(), database.url);
    await app.close();
    app = await release('2');
    desk = `${await app.getUrl()}/${DASHBOARD_PATH}`;
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
    });
  });
  afterAll(async () => {
    await browser?.close();
    await app?.close();
    await database?.drop();
  });

  const WIDE = { viewport: { width: 1440, height: 900 } };
  const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

  /** What stands at each stop, in the order of the tour. */
  const SEEN: readonly ((page: Page) => Promise<unknown>)[] = [
    async (page) => {
      await page.locator('a.issue', { hasText: 'revoke-grant' }).first().click();
      await page
        .getByText(/demo\.handlers\.ts:\d+/)
        .first()
        .waitFor();
    },
    (page) => page.locator('tbody', { hasText: 'loyalty-points' }).waitFor(),
    (page) => page.locator('tbody', { hasText: 'pay-out' }).waitFor(),
    (page) => page.locator('tbody', { hasText: 'order.packed' }).waitFor(),
    (page) => page.getByText(/last used .* safe to remove from/).waitFor(),
  ];

  it.each([
    ['by mouse', WIDE],
    ['on a phone', PHONE],
  ])('leads to each thing that it names, %s', async (_how, options) => {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    try {
      const printed = [...tour(desk).matchAll(/^\d\. (\S+)$/gm)].map(([, address]) => address!);
      expect(printed).toEqual(TOUR.map(({ at }) => `${desk}${at}`));
      for (const [nth, address] of printed.entries()) {
        await page.goto('about:blank');
        await page.goto(address);
        await SEEN[nth]!(page);
      }
    } finally {
      await context.close();
    }
  });

  it('has a dead letter that dies again when it is revived, by keyboard, and the outcome says so', async () => {
    const context = await browser.newContext(WIDE);
    const page = await context.newPage();
    const { keyboard } = page;
    const tabTo = async (text: string) => {
      const focused = () =>
        page.evaluate<string>(
          `document.activeElement.matches('a, button') ? document.activeElement.textContent : ''`,
        );
      for (let i = 0; i < 80 && !(await focused()).includes(text); i += 1) await keyboard.press('Tab');
      expect(await focused()).toContain(text);
    };
    try {
      await page.goto(`${desk}${TOUR[0]!.at}`);
      await page.locator('a.issue', { hasText: 'revoke-grant' }).first().waitFor();
      await tabTo('revoke-grant');
      await keyboard.press('Enter');
      await tabTo('Revive');
      await keyboard.press('Enter');
      await page.getByRole('dialog').waitFor();
      await page.getByLabel(/Why/).fill('does it die again?');
      await keyboard.press('Enter');
      await page
        .getByRole('region', { name: 'Outcome' })
        .getByText(/died again/)
        .waitFor();
    } finally {
      await context.close();
    }
  });
});
