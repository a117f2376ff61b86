import { z } from 'zod';
import { ConfigurationError, type WebhooksOptions } from '../../src/index.js';
import { defaultSources } from './sources.js';
import { sourcesFromFile } from './sources.file.js';

/** What the environment says about this process. A class, so that Nest can inject it. */
export class Settings {
  constructor(
    readonly port: number,
    readonly host: string,
    readonly adapter: 'express' | 'fastify',
    readonly sources: WebhooksOptions['sources'],
    /** Where effects go; without it they are done at once. */
    readonly effectUrl: string | undefined,
    /** How many of a hundred events have their first attempt fail on purpose. */
    readonly failFirstPercent: number,
    /** What the dashboard asks for; without it, it is there for this machine only. */
    readonly dashboardPassword: string | undefined,
    /** With it there are handlers that fail on purpose, as the first or the second release of an application has them. */
    readonly demoRelease: '1' | '2' | undefined,
  ) {}
}

const PORT = 'expected a port between 0 and 65535';
const PASSWORD = 'expected at least 12 characters';
const PERCENT = 'expected a whole number between 0 and 100';

const environmentSchema = z.object({
  PORT: z.coerce.number(PORT).int(PORT).min(0, PORT).max(65_535, PORT).default(3000),
  // The secrets of the default sources are in this repository: only this machine should reach them.
  HOST: z.string().default('127.0.0.1'),
  HTTP_ADAPTER: z.enum(['express', 'fastify'], 'expected express or fastify').default('express'),
  WEBHOOK_SOURCES_FILE: z.string().optional(),
  EFFECT_URL: z.url({ protocol: /^https?$/, error: 'expected an http or https URL' }).optional(),
  DASHBOARD_PASSWORD: z.string().min(12, PASSWORD).optional(),
  DEMO_RELEASE: z.enum(['1', '2'], 'expected 1 or 2').optional(),
  FAIL_FIRST_PERCENT: z.coerce.number(PERCENT).int(PERCENT).min(0, PERCENT).max(100, PERCENT).default(0),
});

/** @throws ConfigurationError with a line for each variable that is wrong */
export function readSettings(environment: Readonly<Record<string, string | undefined>>): Settings {
  // An empty variable is one that is not set, as a blank line of a .env file means it.
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value?.trim()));
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) {
    const lines = parsed.error.issues.map(({ path, message }) => {
      const name = String(path[0]);
      return `${name}: ${message}, received '${given[name]}'`;
    });
    throw new ConfigurationError(lines.join('\n'));
  }
  const {
    PORT: port,
    HOST,
    HTTP_ADAPTER,
    WEBHOOK_SOURCES_FILE,
    EFFECT_URL,
    FAIL_FIRST_PERCENT,
    DASHBOARD_PASSWORD,
    DEMO_RELEASE,
  } = parsed.data;
  const sources = WEBHOOK_SOURCES_FILE ? sourcesFromFile(WEBHOOK_SOURCES_FILE) : defaultSources();
  return new Settings(
    port,
    HOST,
    HTTP_ADAPTER,
    sources,
    EFFECT_URL,
    FAIL_FIRST_PERCENT,
    DASHBOARD_PASSWORD,
    DEMO_RELEASE,
  );
}
