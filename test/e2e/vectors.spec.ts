import { readdirSync } from 'node:fs';
import { jest } from '@jest/globals';
import { Controller, Post, type INestApplication, type Type } from '@nestjs/common';
import { RouteConstraints } from '@nestjs/platform-fastify';
import { ConfigurationError } from '../../src/core/errors.js';
import { resolveSource } from '../../src/core/options/resolve-source.js';
import type { SourceDefinition } from '../../src/core/options/source.js';
import { UseWebhook } from '../../src/index.js';
import { ADAPTERS, createApplication, listen } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { send, type RawReply, type RawRequest } from '../support/http.js';
import { vectorSource } from '../support/vectors/vector-source.js';
import { expectedVerdict, readVectors, type Vector } from '../support/vectors/vector.js';
import { isAnswered, requestOf, toleranceMs } from '../support/vectors/verdict.js';

const FOLDER = 'test/vectors';
/** The project's own, and those that `WEBHOOK_VECTORS` names, as in `npm run vectors`. */
const FILES = [
  ...readdirSync(FOLDER).map((file) => `${FOLDER}/${file}`),
  ...(process.env.WEBHOOK_VECTORS ?? '').split(/\s+/).filter((file) => file !== ''),
];
/** One application has room for some thirty hosts on one path (find-my-way, in Fastify). */
const HOSTS = 25;
const ALWAYS_MS = 10_000 * 365 * 86_400_000;

interface Served {
  readonly vector: Vector;
  readonly source: string;
  readonly definition: SourceDefinition;
}

/** They sign the URL of the request, so that each of their vectors has a route of that very path, told apart by its host. */
const SIGN_THE_URL = new Set(['contentful', 'hubspot', 'twilio']);

/** HTTP has no space around a header's value: it is not part of it, and Node takes it away. Nor has it characters beyond Latin 1. */
function canBeSent({ headers }: Vector): boolean {
  return Object.values(headers)
    .flat()
    .every((value) => value === value.trim() && /^[\t\x20-\x7e\x80-\xff]*$/.test(value));
}

/** Vectors that can be sent; a source that no application would start with has none. The unit run judges the others too. */
function served(): Served[] {
  return FILES.flatMap((file) => readVectors(file))
    .filter((vector) => canBeSent(vector))
    .flatMap((vector, index) => {
      try {
        const definition = vectorSource(vector);
        const tolerance = toleranceMs(vector, definition) ?? ALWAYS_MS;
        const own = { ...definition, tolerance, staleDuplicates: 'reject' as const };
        const source = `v${index}`;
        resolveSource(source, own);
        return [{ vector, source, definition: own }];
      } catch (error) {
        if (error instanceof ConfigurationError) return [];
        throw error;
      }
    });
}

/** The application's own route for a vector that signs its URL. */
function ownRoute({ vector, source }: Served): Type {
  @Controller({ host: hostOf(source) })
  class Hook {
    @UseWebhook(source, { name: source })
    // Fastify takes a path twice only when its own constraints tell the routes apart.
    @RouteConstraints({ host: hostOf(source) })
    @Post(new URL(vector.url!).pathname)
    hook() {}
  }
  return Hook;
}

const hostOf = (source: string) => `${source}.hooks.example.com`;
const signsItsUrl = ({ vector }: Served) => SIGN_THE_URL.has(vector.provider);

/** The request of a vector as it is sent to this application. */
function sentTo(one: Served): RawRequest {
  const { method, url, rawBody } = requestOf(one.vector);
  const headers = Object.entries(one.vector.headers).flatMap(([name, values]) =>
    [values].flat().map((value): [string, string] => [name, value]),
  );
  if (signsItsUrl(one)) {
    return { method, path: url, headers: [['host', hostOf(one.source)], ...headers], body: rawBody };
  }
  const query = url.includes('?') ? url.slice(url.indexOf('?')) : '';
  return { method, path: `/webhooks/${one.source}${query}`, headers, body: rawBody };
}

function verdictOf({ vector }: Served, reply: RawReply): 'valid' | 'invalid' {
  if (vector.variant === 'challenge') return isAnswered(vector, reply) ? 'valid' : 'invalid';
  // Verified, whatever is thought of the event in it.
  return reply.status < 300 || reply.status === 400 ? 'valid' : 'invalid';
}

function inParts(all: readonly Served[]): Served[][] {
  return Array.from({ length: Math.ceil(all.length / HOSTS) }, (_, i) =>
    all.slice(i * HOSTS, (i + 1) * HOSTS),
  );
}

const VECTORS = served();
const GROUPS: readonly [string, readonly Served[]][] = [
  ['each on a source of the module’s route', VECTORS.filter((one) => !signsItsUrl(one))],
  ...[...SIGN_THE_URL].flatMap((name) =>
    inParts(VECTORS.filter(({ vector }) => vector.provider === name)).map(
      (part, index): [string, readonly Served[]] => [
        `of ${name}, each on a route of its own (${index + 1})`,
        part,
      ],
    ),
  ),
];

describe.each(ADAPTERS)('the verdict over HTTP on %s', (adapter) => {
  let database: TestDatabase;
  let app: INestApplication | undefined;

  beforeAll(async () => {
    database = await createDatabase();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await app?.close();
  });
  afterAll(async () => {
    await database?.drop();
  });

  it.each(GROUPS)(
    'R08 is that of the unit run for every vector, %s',
    async (_, vectors) => {
      app = await createApplication({
        adapter,
        databaseUrl: database.url,
        webhooks: {
          sources: Object.fromEntries(vectors.map(({ source, definition }) => [source, definition])),
          relay: false,
          reconcile: false,
          retention: false,
          // A claim that a slow machine is late with says nothing of its vector.
          claimTimeout: '30s',
        },
        controllers: vectors.filter(signsItsUrl).map(ownRoute),
      });
      const origin = await listen(app);
      const wrong: string[] = [];
      const clock = jest.spyOn(Date, 'now');
      for (const one of vectors) {
        const { vector } = one;
        if (vector.now === undefined) clock.mockRestore();
        else jest.spyOn(Date, 'now').mockReturnValue(vector.now * 1000);
        const reply = await send(origin, sentTo(one));
        const verdict = verdictOf(one, reply);
        if (verdict !== expectedVerdict(vector))
          wrong.push(`${vector.id} ${vector.name}: ${verdict}, answered ${reply.status} ${reply.text}`);
      }
      expect(wrong).toEqual([]);
    },
    120_000,
  );

  it('leaves no group of vectors out', () => {
    for (const name of SIGN_THE_URL)
      expect(VECTORS.filter(({ vector }) => vector.provider === name).length).toBeGreaterThan(10);
    expect(VECTORS.length).toBeGreaterThan(700);
  });
});
