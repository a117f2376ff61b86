import { createHook } from 'node:async_hooks';

/** How often a program made something that runs later. */
export interface AsyncSteps {
  readonly promises: number;
  readonly timers: number;
}

const TIMERS = new Set(['Timeout', 'Immediate']);

/** In the program: counts from `begin` to `end`. */
export class StepCounter {
  private promises = 0;
  private timers = 0;
  private readonly hook = createHook({
    init: (_id, type) => {
      if (type === 'PROMISE') this.promises += 1;
      else if (TIMERS.has(type)) this.timers += 1;
    },
  });

  begin(): void {
    this.promises = 0;
    this.timers = 0;
    this.hook.enable();
  }

  end(): AsyncSteps {
    this.hook.disable();
    const { promises, timers } = this;
    return { promises, timers };
  }
}
