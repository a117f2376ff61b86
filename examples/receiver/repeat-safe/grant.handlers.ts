import { Injectable } from '@nestjs/common';
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../../src/index.js';

interface GrantMade {
  readonly account: string;
  readonly plan: string;
  readonly credits: number;
}

const GRANT = `INSERT INTO account_grant (account, plan) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING plan`;

/** Adding is not repeat-safe by itself, so it hangs on the insert that only the first run makes. */
const ADD_CREDITS = `
  INSERT INTO account (id, credits) VALUES ($1, $2)
      ON CONFLICT (id) DO UPDATE SET credits = account.credits + EXCLUDED.credits`;

/** Grants only what is not granted. The primary key decides, not a look beforehand: two runs at once would both see nothing. */
@Injectable()
export class GrantHandlers {
  @OnWebhook<GrantMade>('awardee', 'grant.made')
  async granted(
    { payload: { account, plan, credits } }: WebhookEvent<GrantMade>,
    { manager }: HandlerContext,
  ) {
    const granted = await manager.query<unknown[]>(GRANT, [account, plan]);
    if (granted.length === 0) return 'was granted before';
    await manager.query(ADD_CREDITS, [account, credits]);
    return 'granted';
  }
}
