import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { EventKey } from '../../src/index.js';
import { Settings } from './settings.js';

/** Lets the first attempt of some events fail after it has written, to show that nothing of it stays. Not for production. */
@Injectable()
export class FirstAttempts {
  constructor(private readonly settings: Settings) {}

  /** The event decides, not chance: whoever runs the attempt, it is the same events that fail. */
  failSome({ source, eventId }: EventKey, attempt: number): void {
    if (attempt > 1) return;
    const hash = createHash('sha256').update(`${source}/${eventId}`).digest();
    if (hash.readUInt32BE(0) % 100 < this.settings.failFirstPercent)
      throw new Error('failed on purpose (FAIL_FIRST_PERCENT)');
  }
}
