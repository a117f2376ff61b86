import { resolveOptions } from '../../src/core/options/resolve-options.js';
import type { Alert } from '../../src/core/telemetry/alert.js';
import { Alerts } from '../../src/core/telemetry/alerts.js';
import { Watch } from '../../src/operator/watch.js';
import { awardeeSource } from '../support/sources.js';

const MINUTE_MS = 60_000;

describe('the watch over counts', () => {
  let told: Alert[];
  let watch: Watch;
  beforeEach(() => {
    told = [];
    const options = resolveOptions({
      sources: { awardee: awardeeSource() },
      alerts: { duplicateRatio: 0.5, rejectionsPerMinute: 20 },
      onAlert: (alert) => void told.push(alert),
    });
    watch = new Watch(options, new Alerts(options));
  });

  const count = (metric: string, value: number) => ({ source: 'awardee', metric, value });
  const storm = (deliveries: number) => [
    count('deliveries', deliveries),
    count('duplicates', deliveries - 1),
  ];

  it('a ratio says nothing below a hundred deliveries', () => {
    watch.counted(storm(99), 0);
    expect(told).toEqual([]);
    watch.counted([count('deliveries', 1), count('duplicates', 1)], 1);
    expect(told).toMatchObject([{ kind: 'duplicate-ratio', deliveries: 100, duplicates: 99 }]);
  });

  it('counts are of five minutes for a ratio, and of one for rejections', () => {
    watch.counted([...storm(99), count('rejected:wrong-signature', 19)], 0);
    watch.counted([count('deliveries', 1), count('rejected:wrong-signature', 1)], MINUTE_MS);
    expect(told).toEqual([
      { kind: 'duplicate-ratio', source: 'awardee', deliveries: 100, duplicates: 98, threshold: 0.5 },
    ]);
    watch.counted([], 4 * MINUTE_MS);
    watch.counted([], 7 * MINUTE_MS);
    watch.counted(storm(100), 8 * MINUTE_MS);
    expect(told).toMatchObject([{ deliveries: 100 }, { deliveries: 100, duplicates: 99 }]);
  });
});
