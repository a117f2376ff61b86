import type { INestApplication } from '@nestjs/common';
import { OutboxRelay, Rejections, type TickReport } from '../../src/index.js';
import { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { createApplication, IDLE_LOOP, listen, type ApplicationSetup } from './application.js';
import { createDatabase, type TestDatabase } from './database.js';
import { send, type RawReply, type RawRequest } from './http.js';
import type { SignedRequest } from './signing.js';
import type { OutboxRow } from './tables.js';

export interface ReceiverSetup extends Omit<ApplicationSetup, 'databaseUrl'> {
  /** One that several applications share; the caller drops it. @default one of its own */
  readonly database?: TestDatabase;
  /** Let the relay run by itself. @default false: it runs when a test calls `drain` or `tick` */
  readonly relayRuns?: boolean;
}

/** What a test sees of an event. */
export interface EventRow {
  readonly source: string;
  readonly tenant: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly state: string;
  readonly outcome: string | null;
  readonly processed_at: Date | null;
  readonly owed: number;
}

/** A row of webhook_outbox, with the milliseconds until it is due. */
export type DueRow = OutboxRow & { readonly due_in_ms: number };

/** An application with the module, over HTTP, on a database of its own. */
export class Receiver {
  private constructor(
    readonly app: INestApplication,
    readonly origin: string,
    readonly database: TestDatabase,
    private readonly ownsDatabase: boolean,
  ) {}

  static async start({ database, relayRuns = false, ...setup }: ReceiverSetup): Promise<Receiver> {
    const own = database ?? (await createDatabase());
    try {
      const app = await createApplication({
        databaseUrl: own.url,
        override: (builder) =>
          relayRuns ? builder : builder.overrideProvider(RelayLoop).useValue(IDLE_LOOP),
        ...setup,
      });
      return new Receiver(app, await listen(app), own, database === undefined);
    } catch (error) {
      if (database === undefined) await own.drop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.app.close();
    if (this.ownsDatabase) await this.database.drop();
  }

  send(request: RawRequest): Promise<RawReply> {
    return send(this.origin, request);
  }

  /** Delivers to the module's own route, and gives status and body as one text: `200 {"status":"ok"}`. */
  async deliver(source: string, request: SignedRequest): Promise<string> {
    return this.deliverTo(`/webhooks/${source}`, request);
  }

  async deliverTo(path: string, request: SignedRequest): Promise<string> {
    return answered(await this.send({ path, ...request }));
  }

  get relay(): OutboxRelay {
    return this.app.get(OutboxRelay);
  }

  /** Runs everything that is due, and what becomes due meanwhile. */
  async drain(): Promise<TickReport> {
    return this.relay.drain({ maxMs: 10_000 });
  }

  rejections(): string[] {
    return this.app
      .get(Rejections)
      .counts()
      .map(({ source, reason }) => `${source} ${reason}`);
  }

  query<T = Record<string, unknown>>(sql: string, parameters?: unknown[]): Promise<T[]> {
    return this.database.query<T>(sql, parameters);
  }

  /** Claims of one event id, or of all. */
  async claims(eventId?: string): Promise<number> {
    const [row] = await this.query<{ count: number }>(
      `SELECT count(*)::int AS count FROM webhook_claim WHERE $1::text IS NULL OR event_id = $1`,
      [eventId ?? null],
    );
    return row!.count;
  }

  async event(eventId: string): Promise<EventRow | undefined> {
    const [row] = await this.query<EventRow>(`SELECT * FROM webhook_event WHERE event_id = $1`, [eventId]);
    return row;
  }

  /** The work owed for an event, handlers first. */
  rows(eventId: string): Promise<DueRow[]> {
    return this.query<DueRow>(
      `SELECT *, extract(epoch FROM due_at - now()) * 1000 AS due_in_ms FROM webhook_outbox
        WHERE event_id = $1 ORDER BY kind DESC, name, key`,
      [eventId],
    );
  }

  /** How often a handler's writes for an event were committed. */
  async applied(eventId: string): Promise<number> {
    const [row] = await this.query<{ count: number }>(
      `SELECT coalesce(sum(applied_count), 0)::int AS count FROM received_event WHERE event_id = $1`,
      [eventId],
    );
    return row!.count;
  }
}

export const answered = ({ status, text }: RawReply) => `${status} ${text}`;

export const OK = '200 {"status":"ok"}';
export const DUPLICATE = '200 {"status":"duplicate"}';
export const INVALID = '400 {"status":"invalid"}';
export const UNAUTHORIZED = '401 {"status":"unauthorized"}';
export const UNKNOWN_SOURCE = '404 {"status":"not found"}';
export const WRONG_METHOD = '405 {"status":"method not allowed"}';
export const TOO_LARGE = '413 {"status":"too large"}';
export const UNSUPPORTED_ENCODING = '415 {"status":"unsupported encoding"}';
export const FAILED = '500 {"status":"failed"}';
export const UNAVAILABLE = '503 {"status":"unavailable"}';
