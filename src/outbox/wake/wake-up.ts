import { Injectable } from '@nestjs/common';

/** Names of the rows that were committed; undefined when it is not known which. */
export type WokenNames = readonly string[] | undefined;
type OnWake = (names: WokenNames) => void;

/** Tells the relays that something was committed: this process's at once, others by the notifier. A hint: polling is the truth. */
@Injectable()
export class WakeUp {
  private listener: OnWake | undefined;
  private teller: OnWake | undefined;

  onWake(listener: OnWake | undefined): void {
    this.listener = listener;
  }

  /** `teller` passes wakes of this process on to other processes. */
  onCommit(teller: OnWake | undefined): void {
    this.teller = teller;
  }

  /**
   * Call it after a commit.
   * @param names of the rows that may be due by it: the relays look for these alone; none: nothing may be
   * @param othersAreTold other processes are being told already
   */
  wake(names?: WokenNames, othersAreTold = false): void {
    if (names?.length === 0) return;
    this.wakeOwn(names);
    if (!othersAreTold) this.teller?.(names);
  }

  /** Another process has committed. */
  wakeOwn(names?: WokenNames): void {
    this.listener?.(names);
  }
}
