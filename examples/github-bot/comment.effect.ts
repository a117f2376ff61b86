import { Injectable } from '@nestjs/common';
import { OnEffect, type EffectContext, type ProbeAnswer, type ProbeContext } from '../../src/index.js';
import { GithubApi } from './github.api.js';

export const COMMENT = 'comment';

export interface Comment {
  readonly repository: string;
  readonly issue: number;
  readonly text: string;
}

/** GitHub shows no HTML comment, and keeps it: the key is found in it. */
const marked = (text: string, key: string) => `${text}\n<!-- ${key} -->`;

/** GitHub does not look at idempotency keys. After a crash the probe looks for the comment, so it is not written twice. */
@Injectable()
export class CommentEffect {
  constructor(private readonly github: GithubApi) {}

  @OnEffect<Comment>(COMMENT, { probe })
  async write({ repository, issue, text }: Comment, { key, signal }: EffectContext) {
    await this.github.comment(repository, issue, marked(text, key), signal);
  }

  async isThere({ repository, issue }: Comment, { key, signal }: ProbeContext): Promise<ProbeAnswer> {
    const comments = await this.github.comments(repository, issue, signal);
    return comments.some(({ body }) => body.includes(key)) ? 'done' : 'not-done';
  }
}

/** `this` is the instance of the effect. */
function probe(this: CommentEffect, payload: Comment, context: ProbeContext): Promise<ProbeAnswer> {
  return this.isThere(payload, context);
}
