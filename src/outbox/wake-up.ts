import { Injectable } from '@nestjs/common';

/** Tells the relay of this process that something was committed. A hint: polling is the truth. */
@Injectable()
export class WakeUp {
  private listener: (() => void) | undefined;

  onWake(listener: (() => void) | undefined): void {
    this.listener = listener;
  }

  wake(): void {
    this.listener?.();
  }
}
