import { Client } from 'pg';

/** Holds the claims that receivers make where they stand: at the server, begun and not committed. */
export class ClaimHold {
  private holds = false;

  private constructor(private readonly client: Client) {}

  static async open(databaseUrl: string): Promise<ClaimHold> {
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    return new ClaimHold(client);
  }

  async hold(): Promise<void> {
    this.holds = true;
    await this.client.query('BEGIN');
    await this.client.query('LOCK TABLE webhook_claim IN SHARE MODE');
  }

  async letGo(): Promise<void> {
    if (!this.holds) return;
    this.holds = false;
    await this.client.query('ROLLBACK');
  }

  async close(): Promise<void> {
    await this.client.end();
  }
}
