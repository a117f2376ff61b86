import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';

/** Bytes of bodies that may be in memory at once; what does not fit is answered 503 rather than endangering the process. */
@Injectable()
export class ByteBudget {
  private used = 0;

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /** False when the budget does not have them. */
  take(bytes: number): boolean {
    if (this.used + bytes > this.options.byteBudget) return false;
    this.used += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.used -= bytes;
  }
}
