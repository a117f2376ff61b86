import { Client } from 'pg';

const KEY = 46;
/** Each claim waits behind its insert for as long as the lock is held. */
const WAITS = `
  CREATE FUNCTION chaos_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock_shared(${KEY}); RETURN NULL; END $$;
  CREATE TRIGGER chaos_wait AFTER INSERT ON webhook_claim FOR EACH STATEMENT EXECUTE FUNCTION chaos_wait()`;

/** Holds the claims that receivers make where they stand: inserted, and not committed. */
export class ClaimHold {
  private constructor(private readonly client: Client) {}

  static async open(databaseUrl: string): Promise<ClaimHold> {
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    await client.query(WAITS);
    return new ClaimHold(client);
  }

  async hold(): Promise<void> {
    await this.client.query(`SELECT pg_advisory_lock(${KEY})`);
  }

  async letGo(): Promise<void> {
    await this.client.query('SELECT pg_advisory_unlock_all()');
  }

  async close(): Promise<void> {
    await this.client.end();
  }
}
