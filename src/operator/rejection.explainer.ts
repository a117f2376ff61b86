import { Inject, Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable } from '../core/event.js';
import { uuidV7 } from '../core/outbox-id.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { Rejections, type RejectionSample } from '../inbox/rejections.js';
import { RejectionStore } from '../storage/rejection.store.js';
import { diagnose } from './diagnosis.js';

/** Headers that are never kept, not even with `rejections: { keep }`: they are other people's secrets. */
const NEVER_KEPT = new Set(['authorization', 'cookie', 'proxy-authorization', 'set-cookie']);
/** Rows that stay; the oldest go first. */
const MAX_ROWS = 5_000;
/** Of bodies that are kept; the oldest go first. 5,000 of the largest would be 1.3 GB. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
const MAX_NAMES = 40;

/** Explains samples of rejected requests, off the way of any request, and writes them down. */
@Injectable()
export class RejectionExplainer {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly rejections: Rejections,
    private readonly store: RejectionStore,
  ) {
    // To take a secret's correction in, every request is worth keeping for which there is room.
    if (options.keepRejectionsMs > 0) rejections.sampleEvery(0);
  }

  /** Explains the samples since the last call. Returns how many. */
  async explain(manager: EntityManager): Promise<number> {
    const samples = this.rejections.takeSamples();
    for (const sample of samples) await this.explainOne(manager, sample);
    return samples.length;
  }

  async prune(manager: EntityManager): Promise<void> {
    await this.store.prune(manager, this.options.keepRejectionsMs, MAX_ROWS, MAX_KEPT_BYTES);
  }

  private async explainOne(manager: EntityManager, sample: RejectionSample): Promise<void> {
    const source = this.options.sources.get(sample.source);
    if (source === undefined) return;
    const { code, explanation } = await diagnose(sample, source, this.options.sources.values());
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
        contentType: storable(request.headers.first('content-type') ?? '', 100),
        headerNames: [...new Set(entries.map(([name]) => storable(name, 100)))].slice(0, MAX_NAMES),
        method: request.method,
      },
      this.options.keepRejectionsMs > 0
        ? {
            url: storable(request.url, 2_000),
            headers: headers.map(([name, value]): [string, string] => [name, storable(value, 8_000)]),
            body: request.rawBody,
          }
        : undefined,
    );
  }
}
