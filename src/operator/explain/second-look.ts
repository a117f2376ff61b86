import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { SignatureRejection, WebhookInboxError } from '../../core/errors.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { knownSource } from '../../core/options/known-source.js';
import { errorText, logLine } from '../../core/log/log.js';
import { RequestHeaders } from '../../core/request.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { DeliveryVerifier } from '../../inbox/delivery.verifier.js';
import { EventDispatcher } from '../../inbox/event.dispatcher.js';
import { RejectionStore, type KeptRequest } from '../../storage/desk/rejection.store.js';

/** Counts of kept requests that were verified again. */
export interface SecondLookReport {
  readonly looked: number;
  /** Right after all, and now claimed. */
  readonly taken: number;
  readonly duplicates: number;
  readonly stillWrong: number;
  /**
   * Not claimed this time: the database, a handler, a key's host or the `secrets` function failed, or it is paused. They stay, for
   * another call.
   */
  readonly notClaimed: number;
  /** `after` for the next call. Absent when all requests were verified. */
  readonly next?: string;
}

type Outcome = 'ok' | 'duplicate' | 'wrong' | 'not-claimed';

const BATCH = 50;

/** Verifies kept requests once more, judged as of their arrival. Requests that a corrected secret makes right are claimed. */
@Injectable()
export class SecondLook {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: RejectionStore,
    private readonly verifier: DeliveryVerifier,
    private readonly dispatcher: EventDispatcher,
  ) {}

  /**
   * One batch of a source's kept requests, oldest first.
   * @throws WebhookInboxError UNKNOWN_SOURCE
   */
  async run(sourceName: string, after?: string): Promise<SecondLookReport> {
    const source = knownSource(this.options, sourceName);
    const kept = await this.store.kept(this.dataSource.manager, sourceName, BATCH, after);
    const outcomes: Outcome[] = [];
    for (const request of kept) outcomes.push(await this.verifyOne(source, request));
    const count = (outcome: Outcome) => outcomes.filter((one) => one === outcome).length;
    return {
      looked: kept.length,
      taken: count('ok'),
      duplicates: count('duplicate'),
      stillWrong: count('wrong'),
      notClaimed: count('not-claimed'),
      next: kept.length === BATCH ? kept.at(-1)!.id : undefined,
    };
  }

  private async verifyOne(
    source: Source,
    kept: { readonly id: string; readonly at: Date; readonly method: string } & KeptRequest,
  ): Promise<Outcome> {
    const { method, url, body: rawBody } = kept;
    const request = { method, url, rawBody, headers: RequestHeaders.fromRaw(kept.headers.flat()) };
    try {
      const verified = await this.verifier.verify(source, request, kept.at.getTime());
      if (verified.kind !== 'delivery') return 'wrong';
      const verdict = await this.dispatcher.dispatch(verified.delivery);
      if (verdict.kind !== 'ok' && verdict.kind !== 'duplicate') return 'not-claimed';
      // Claimed first, recorded second. After a crash between the two, the next call finds a duplicate.
      await this.store.taken(this.dataSource.manager, kept.id, verdict.kind);
      return verdict.kind;
    } catch (error) {
      const isUndecided = error instanceof SignatureRejection && error.reason === 'key-unavailable';
      if (error instanceof WebhookInboxError && !isUndecided) return 'wrong';
      // Only this request failed. The others are verified all the same.
      const text = `a kept request could not be verified again: ${errorText(error)}`;
      this.logger.warn(logLine(text, { source: source.name, rejection: kept.id }));
      return 'not-claimed';
    }
  }
}
