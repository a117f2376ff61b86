import { readdirSync } from 'node:fs';
import { jest } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ConfigurationError } from '../../src/core/errors.js';
import { resolveSource } from '../../src/core/resolve-source.js';
import type { SourceDefinition } from '../../src/core/source.js';
import { ADAPTERS, createApplication, listen } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { send } from '../support/http.js';
import { vectorSource } from '../support/vectors/vector-source.js';
import { expectedVerdict, readVectors, type Vector } from '../support/vectors/vector.js';
import { requestOf, toleranceMs } from '../support/vectors/verdict.js';

const FOLDER = 'test/vectors';
const ALWAYS_MS = 100 * 365 * 86_400_000;

interface Served {
  readonly vector: Vector;
  readonly definition: SourceDefinition;
}

/** They sign the URL of the request, and the vectors sign another one than that of a route here. */
const SIGN_THE_URL = new Set(['contentful', 'hubspot', 'twilio']);

/** HTTP has no space around a header's value: it is not part of it, and Node takes it away. */
function hasSpaceAround({ headers }: Vector): boolean {
  return Object.values(headers)
    .flat()
    .some((value) => value !== value.trim());
}

/**
 * Vectors that can be sent to a route of this test's application; a source that no application would start with has none. The unit
 * run judges the others too.
 */
function served(): Served[] {
  return readdirSync(FOLDER)
    .flatMap((file) => readVectors(`${FOLDER}/${file}`))
    .filter(
      (vector) =>
        vector.variant !== 'challenge' && !SIGN_THE_URL.has(vector.provider) && !hasSpaceAround(vector),
    )
    .flatMap((vector) => {
      try {
        const definition = vectorSource(vector);
        const tolerance = toleranceMs(vector, definition) ?? ALWAYS_MS;
        const own = { ...definition, tolerance, staleDuplicates: 'reject' as const };
        resolveSource('vector', own);
        return [{ vector, definition: own }];
      } catch (error) {
        if (error instanceof ConfigurationError) return [];
        throw error;
      }
    });
}

describe.each(ADAPTERS)('the verdict over HTTP on %s', (adapter) => {
  const vectors = served();
  let database: TestDatabase;
  let app: INestApplication;
  let origin: string;

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      adapter,
      databaseUrl: database.url,
      webhooks: {
        sources: Object.fromEntries(vectors.map(({ definition }, index) => [`v${index}`, definition])),
        relay: false,
        reconcile: false,
        retention: false,
      },
    });
    origin = await listen(app);
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  it('R08 is that of the unit run for every vector', async () => {
    const wrong: string[] = [];
    const clock = jest.spyOn(Date, 'now');
    for (const [index, { vector }] of vectors.entries()) {
      if (vector.now === undefined) clock.mockRestore();
      else jest.spyOn(Date, 'now').mockReturnValue(vector.now * 1000);
      const { method, rawBody } = requestOf(vector);
      const headers = Object.entries(vector.headers).flatMap(([name, values]) =>
        [values].flat().map((value): [string, string] => [name, value]),
      );
      const { status } = await send(origin, { path: `/webhooks/v${index}`, method, headers, body: rawBody });
      // Verified, whatever is thought of the event in it.
      const verdict = status === 200 || status === 400 ? 'valid' : 'invalid';
      if (verdict !== expectedVerdict(vector))
        wrong.push(`${vector.id} ${vector.name}: ${verdict}, answered ${status}`);
    }
    jest.restoreAllMocks();
    expect(vectors.length).toBeGreaterThan(600);
    expect(wrong).toEqual([]);
  }, 120_000);
});
