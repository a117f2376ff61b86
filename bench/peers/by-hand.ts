// What a team could write by hand for one source: node:http, the signature, JSON.parse, and one shared commit in flight. No framework.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import pg from 'pg';
import { serve } from '../support/program.js';
import { SECRET } from '../support/signed.js';

const TABLES = `
  CREATE TABLE IF NOT EXISTS hand_claim (event_id text PRIMARY KEY, kind text NOT NULL, body text NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE IF NOT EXISTS hand_owed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id text NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(), done_at timestamptz);
  CREATE INDEX IF NOT EXISTS hand_owed_due ON hand_owed (due_at) WHERE done_at IS NULL`;

/** Prepared once; one statement commits by itself. Sorted by the caller, so that two processes do not deadlock. */
const CLAIM = {
  name: 'claim',
  text: `
    WITH claimed AS (
      INSERT INTO hand_claim (event_id, kind, body) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
          ON CONFLICT DO NOTHING RETURNING event_id
    ), owed AS (INSERT INTO hand_owed (event_id) SELECT event_id FROM claimed)
    SELECT event_id FROM claimed`,
};

interface Waiting {
  readonly id: string;
  readonly type: string;
  readonly body: string;
  readonly response: ServerResponse;
}

function eventOf(request: IncomingMessage, raw: Buffer): { id: string; type: string } | undefined {
  const sent = Buffer.from(String(request.headers['x-signature']), 'hex');
  const made = createHmac('sha256', SECRET).update(raw).digest();
  if (sent.length !== made.length || !timingSafeEqual(sent, made)) return undefined;
  return JSON.parse(raw.toString()) as { id: string; type: string };
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length });
  response.end(body);
}

await serve(async ({ databaseUrl }: { databaseUrl: string }) => {
  const client = new pg.Client({ connectionString: databaseUrl });
  client.on('error', () => undefined);
  await client.connect();
  await client.query(TABLES);
  let waiting: Waiting[] = [];
  let committing = false;

  async function commit(): Promise<void> {
    committing = true;
    while (waiting.length > 0) {
      const batch = waiting.toSorted((a, b) => (a.id < b.id ? -1 : 1));
      waiting = [];
      const values = [
        batch.map(({ id }) => id),
        batch.map(({ type }) => type),
        batch.map(({ body }) => body),
      ];
      try {
        const { rows } = await client.query<{ event_id: string }>({ ...CLAIM, values });
        const won = new Set(rows.map(({ event_id }) => event_id));
        for (const { id, response } of batch)
          answer(response, 200, won.has(id) ? '{"status":"ok"}' : '{"status":"duplicate"}');
      } catch {
        for (const { response } of batch) answer(response, 503, '{"status":"unavailable"}');
      }
    }
    committing = false;
  }

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const raw = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      const event = eventOf(request, raw);
      if (event === undefined) return answer(response, 401, '{"status":"refused"}');
      waiting.push({ id: event.id, type: event.type, body: raw.toString(), response });
      if (!committing) void commit();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    ready: { port },
    run: async () => undefined,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await client.end();
    },
  };
});
