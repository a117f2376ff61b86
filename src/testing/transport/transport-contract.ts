import { ATTEMPTS, REPORTS } from './attempt.checks.js';
import { DELIVERY, REFUSAL } from './delivery.checks.js';
import { FAULTS } from './fault.checks.js';
import { Scene, type TransportBench } from './scene.js';

/** One promise of the port. */
export interface TransportCheck {
  readonly name: string;
  /** Takes up to some minutes. Rejects with an Error that names the expected and the received. */
  readonly run: () => Promise<void>;
}

/**
 * The promises of `EffectTransport`, as checks for any test runner:
 * `for (const { name, run } of transportContract(bench)) it(name, run, 180_000)`. Delivery is at least once: no check fails since a
 * message or a report comes twice. A message that comes again has the id of the first one.
 */
export function transportContract(bench: TransportBench): readonly TransportCheck[] {
  const checks = {
    ...DELIVERY,
    ...(bench.refused && REFUSAL),
    ...ATTEMPTS,
    ...REPORTS,
    ...(bench.engine && FAULTS),
  };
  return Object.entries(checks).map(([name, check]) => ({
    name,
    run: async () => {
      const scene = new Scene(() => bench.create());
      try {
        await check(scene, bench);
      } finally {
        await scene.end();
      }
    },
  }));
}
