import { Injectable } from '@nestjs/common';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { HAND_OVER_MS } from '../engine/engine-link.js';
import { HandOver } from '../engine/hand-over.js';
import { BatchRunner, type Outcomes } from '../runs/batch.runner.js';
import { EffectRunner } from '../runs/effect.runner.js';
import { HandlerRunner } from '../runs/handler.runner.js';
import type { Job } from './job.js';

/** Runs the rows of a job, by the kind of their work. */
@Injectable()
export class RowRunner {
  constructor(
    private readonly registry: HandlerRegistry,
    private readonly handlers: HandlerRunner,
    private readonly batches: BatchRunner,
    private readonly effects: EffectRunner,
    private readonly handOver: HandOver,
  ) {}

  /** How long the run of a row may take, in milliseconds. */
  limitOf(row: LeasedRow): number {
    if (row.kind === 'handler') return this.registry.handler(row.name)!.timeoutMs;
    return this.handOver.takes(row) ? HAND_OVER_MS : this.registry.effect(row.name)!.timeoutMs;
  }

  /** @throws when an end could not be recorded */
  async run({ rows, deadline }: Job): Promise<Outcomes> {
    const row = rows[0]!;
    // Lost, or given back at a shutdown, before it could begin.
    if (deadline.signal.aborted) return new Map();
    const handler = this.registry.handler(row.name);
    if (row.kind === 'effect') {
      const runner = this.handOver.takes(row) ? this.handOver : this.effects;
      return new Map([[row.id, await runner.run(row, deadline.signal)]]);
    }
    if (handler!.batch !== undefined) return this.batches.run(handler!, rows, deadline.signal);
    return new Map([[row.id, await this.handlers.run(row, deadline.signal, handler!.timeoutMs)]]);
  }
}
