import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable } from '../../core/event.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { printableType, type WebhookRequest } from '../../core/request.js';
import { uuidV7 } from '../../core/ids.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { DeliveryVerifier } from '../../inbox/delivery.verifier.js';
import { Rejections, type RejectionSample } from '../../inbox/rejections.js';
import { RejectionStore } from '../../storage/desk/rejection.store.js';
import { storeErrorText } from '../../storage/postgres/store-error.js';
import { diagnose } from './diagnosis.js';
import { TrialBudget } from './trial-budget.js';

/** Headers that are never kept, not even with `rejections: { keep }`: they are other people's secrets. */
const NEVER_KEPT = new Set(['authorization', 'cookie', 'proxy-authorization', 'set-cookie']);
/** Rows that stay; the oldest go first. */
const MAX_ROWS = 5_000;
/** Of bodies that are kept; the oldest go first. 5,000 of the largest would be 1.3 GB. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
/** A process that has kept so many since the last pruning prunes by itself. */
const PRUNE_BYTES = MAX_KEPT_BYTES / 4;
const MAX_NAMES = 40;

/** Explains samples of rejected requests, off the way of any request, and writes them down. */
@Injectable()
export class RejectionExplainer {
  private readonly logger = new InboxLogger();
  private keptBytes = 0;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly rejections: Rejections,
    private readonly verifier: DeliveryVerifier,
    private readonly store: RejectionStore,
  ) {
    // To take a secret's correction in, every request is worth keeping for which there is room.
    if (options.keepRejectionsMs > 0) rejections.sampleEvery(0);
  }

  /** Explains the samples since the last call, within a budget for all of them. Returns how many. */
  async explain(manager: EntityManager): Promise<number> {
    const budget = new TrialBudget();
    // Large samples use the budget that small ones have left.
    const samples = this.rejections.takeSamples().sort(bySize);
    for (const [index, sample] of samples.entries()) {
      budget.shareWith(samples.length - 1 - index);
      await this.explainAlone(manager, sample, budget);
    }
    // Between two prunings a flood of the largest would keep ten times as much.
    if (this.keptBytes > PRUNE_BYTES) await this.prune(manager);
    return samples.length;
  }

  async prune(manager: EntityManager): Promise<void> {
    this.keptBytes = 0;
    await this.store.prune(manager, this.options.keepRejectionsMs, MAX_ROWS, MAX_KEPT_BYTES);
  }

  /** One that cannot be stored costs the others nothing. */
  private async explainAlone(
    manager: EntityManager,
    sample: RejectionSample,
    budget: TrialBudget,
  ): Promise<void> {
    const { source, reason, request } = sample;
    try {
      await this.explainOne(manager, sample, budget);
      if (this.options.keepRejectionsMs > 0) this.keptBytes += request.rawBody.length;
    } catch (error) {
      this.logger.warn(
        logLine(`an explained rejection could not be stored: ${storeErrorText(error)}`, { source, reason }),
      );
    }
  }

  /** One with a token could be verified again only by the token, which is not stored. */
  private keeps({ secretHeaders }: Source, { headers }: WebhookRequest): boolean {
    const isToken = secretHeaders.some((name) => headers.first(name) !== undefined);
    return this.options.keepRejectionsMs > 0 && !isToken;
  }

  private async explainOne(
    manager: EntityManager,
    sample: RejectionSample,
    budget: TrialBudget,
  ): Promise<void> {
    const { sources } = this.options;
    const source = sources.get(sample.source);
    if (source === undefined) return;
    const { code, explanation } = await diagnose(sample, source, {
      sources: sources.values(),
      secretsFor: (one, request) => this.verifier.secretsFor(one, request),
      budget,
    });
    const { request } = sample;
    const entries = request.headers.entries();
    const headers = entries.filter(([name]) => !NEVER_KEPT.has(name));
    await this.store.add(
      manager,
      {
        id: uuidV7(sample.at.getTime()),
        at: sample.at,
        source: sample.source,
        reason: sample.reason,
        detail: storable(sample.detail, 500),
        diagnosis: code,
        explanation: storable(explanation, 1_000),
        bytes: request.rawBody.length,
        contentType: printableType(request.headers.first('content-type')),
        headerNames: [...new Set(entries.map(([name]) => storable(name, 100)))].slice(0, MAX_NAMES),
        method: request.method,
      },
      this.keeps(source, request)
        ? {
            url: storable(request.url, 2_000),
            headers: headers.map(([name, value]): [string, string] => [name, storable(value, 8_000)]),
            body: request.rawBody,
          }
        : undefined,
    );
  }
}

function bySize(a: RejectionSample, b: RejectionSample): number {
  return a.request.rawBody.length - b.request.rawBody.length;
}
