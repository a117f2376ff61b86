import { Injectable } from '@nestjs/common';

/** Tells the relays that something was committed: this process's at once, others by the notifier. A hint: polling is the truth. */
@Injectable()
export class WakeUp {
  private listener: (() => void) | undefined;
  private teller: (() => void) | undefined;

  onWake(listener: (() => void) | undefined): void {
    this.listener = listener;
  }

  /** `teller` passes wakes of this process on to other processes. */
  onCommit(teller: (() => void) | undefined): void {
    this.teller = teller;
  }

  /** Call it after a commit. */
  wake(): void {
    this.wakeOwn();
    this.teller?.();
  }

  /** Another process has committed. */
  wakeOwn(): void {
    this.listener?.();
  }
}
