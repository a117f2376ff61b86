import { Injectable } from '@nestjs/common';
// In your application: 'nestjs-webhook-inbox'.
import { OnWebhook, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { COMMENT } from './comment.effect.js';
import { Greeted } from './greeted.entity.js';

interface IssuesEvent {
  readonly action: string;
  readonly repository: { readonly full_name: string };
  readonly issue: { readonly number: number; readonly user: { readonly login: string } };
}

@Injectable()
export class BotHandlers {
  /** Greets each person once for each repository, at the first issue. */
  @OnWebhook<IssuesEvent>('github', 'issues')
  async opened({ payload }: WebhookEvent<IssuesEvent>, { manager, enqueue }: HandlerContext) {
    // GitHub names the kind of event in a header, and what happened in the body.
    if (payload.action !== 'opened') return `nothing to do for ${payload.action}`;
    const repository = payload.repository.full_name;
    const { number: issue, user } = payload.issue;
    const greeting = { repository, login: user.login, issue };
    const insert = manager.createQueryBuilder().insert().into(Greeted).values(greeting);
    const { raw } = (await insert.orIgnore().returning('login').execute()) as { raw: unknown[] };
    if (raw.length === 0) return 'was greeted before';
    await enqueue(COMMENT, { repository, issue, text: `Thank you for your first issue, @${user.login}!` });
    return 'greeted';
  }
}
