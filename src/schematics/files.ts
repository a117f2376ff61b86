import { InputRefused } from '../core/errors.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import * as factories from '../sources/index.js';

/** A source of the application, as its files name it. */
export interface AddedSource {
  /** The provider, which is the source's name too. */
  readonly name: string;
  /** The function that makes the source. */
  readonly factory: string;
  /** The option that holds the secrets. */
  readonly secrets: string;
  /** The environment variable of the secret. */
  readonly variable: string;
  /** The option that holds the URL which the vendor signs, if it signs one. */
  readonly url: string | undefined;
  readonly className: string;
}

/** Schemes without a vendor, and vendors without an event id: only a person knows their options. */
const BY_HAND = new Set(['hmac', 'convoy', 'custom', 'dropbox', 'plaid']);
/** Options with other names for secrets. */
const SECRETS: Readonly<Record<string, string>> = { sns: 'topicArns', paypal: 'webhookIds' };
/** Options that hold the URL which the vendor signs. Of the first two it is the beginning, before the request's own path. */
const URLS: Readonly<Record<string, string>> = {
  hubspot: 'publicUrl',
  twilio: 'publicUrl',
  square: 'notificationUrl',
  trello: 'callbackUrl',
};

/** @throws InputRefused for a name that no provider has */
export function addedSources(names: string): AddedSource[] {
  const asked = [...new Set(names.split(',').map((name) => name.trim().toLowerCase()))].filter(
    (name) => name !== '',
  );
  if (asked.length === 0)
    throw new InputRefused('sources: expected names of providers, such as stripe,github');
  return asked.map(addedSource);
}

function addedSource(name: string): AddedSource {
  const { providersByName } = factories;
  const made = providersByName.get(name);
  if (BY_HAND.has(name) || made === undefined) {
    const known = [...providersByName.keys()].filter((one) => !BY_HAND.has(one));
    const why = BY_HAND.has(name)
      ? `'${name}' has options that only you know: add it by hand`
      : `no provider '${name}'`;
    throw new InputRefused(`sources: ${why}${BY_HAND.has(name) ? '' : didYouMean(name, known)}`);
  }
  const all: [string, unknown][] = Object.entries(factories);
  const [factory] = all.find(([, value]) => value === made)!;
  const className = `${name.replace(/(?:^|-)(\w)/g, (_, letter: string) => letter.toUpperCase())}Webhooks`;
  const variable = `${name.replaceAll('-', '_').toUpperCase()}_WEBHOOK_SECRET`;
  return { name, factory, secrets: SECRETS[name] ?? 'secrets', variable, url: URLS[name], className };
}

/** Environment variables that a source reads, and their values in a test. */
export function variablesOf({ name, variable, url }: AddedSource): [variable: string, testValue: string][] {
  const secret: [string, string] = [variable, `testKeys('${name}').secret`];
  return url === undefined
    ? [secret]
    : [secret, [urlVariable(variable), `'https://example.com/webhooks/${name}'`]];
}

function urlVariable(secret: string): string {
  return secret.replace(/SECRET$/, 'URL');
}

/** @param end '.js' in an application of ES modules */
export function moduleFile(sources: readonly AddedSource[], end: string): string {
  const imports = sources.map(
    ({ name, className }) => `import { ${className} } from './${name}.webhooks${end}';\n`,
  );
  const lines = sources.map(({ name, factory, secrets, variable, url }) => {
    const options = [`${secrets}: [process.env.${variable}!]`];
    if (url !== undefined) options.push(`${url}: process.env.${urlVariable(variable)}!`);
    return `        ${/^\w+$/.test(name) ? name : `'${name}'`}: ${factory}({ ${options.join(', ')} }),\n`;
  });
  return `import { Module } from '@nestjs/common';
import { ${[...sources.map(({ factory }) => factory), 'WebhooksModule'].join(', ')} } from 'nestjs-webhook-inbox';
${imports.join('')}
@Module({
  imports: [
    WebhooksModule.forRootAsync({
      useFactory: () => ({
        sources: {
${lines.map((line) => `  ${line}`).join('')}        },
      }),
    }),
  ],
  providers: [${sources.map(({ className }) => className).join(', ')}],
})
export class AppWebhooksModule {}
`;
}

export function handlerFile({ name, className }: AddedSource): string {
  return `import { Injectable, Logger } from '@nestjs/common';
import { OnEffect, OnWebhook } from 'nestjs-webhook-inbox';
import type { EffectContext, HandlerContext, WebhookEvent } from 'nestjs-webhook-inbox';

interface Receipt {
  type: string;
  eventId: string;
}

@Injectable()
export class ${className} {
  private readonly logger = new Logger(${className}.name);

  /** Runs in a transaction, once for each event. Write through \`manager\`, so that the write and the run commit together. */
  @OnWebhook('${name}', '*')
  async received({ type, eventId }: WebhookEvent, { enqueue }: HandlerContext) {
    await enqueue('${name}-received', { type, eventId });
    return 'noted';
  }

  /** Calls the outside world, after the commit. Send \`key\` as the idempotency key. */
  @OnEffect('${name}-received')
  async tell({ type, eventId }: Receipt, { key }: EffectContext) {
    this.logger.log(\`\${type} \${eventId}, idempotency key \${key}\`);
  }
}
`;
}

/**
 * @param all the sources of the application: it does not start without the secret of one
 * @param end '.js' in an application of ES modules
 */
export function specFile({ name, className }: AddedSource, all: readonly AddedSource[], end: string): string {
  const set = all
    .flatMap(variablesOf)
    .map(([variable, value]) => `    process.env.${variable} ??= ${value};\n`);
  return `import { randomUUID } from 'node:crypto';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { deliver, runDue, testKeys } from 'nestjs-webhook-inbox/testing';
import { AppModule } from '../app.module${end}';

/** Needs DATABASE_URL, a PostgreSQL database for tests. */
describe('${className}', () => {
  let app: INestApplication;

  beforeAll(async () => {
${set.join('')}    const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
    app = await testing.createNestApplication().init();
  }, 30_000);

  afterAll(() => app?.close());

  it('handles an event once', async () => {
    const event = { id: \`evt_\${randomUUID()}\`, type: 'test', payload: {} };
    expect(await deliver(app, '${name}', event)).toEqual({ kind: 'ok' });
    expect(await deliver(app, '${name}', event)).toEqual({ kind: 'duplicate' });
    expect(await runDue(app)).toMatchObject({ dead: 0 });
  });
});
`;
}
