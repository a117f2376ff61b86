import { Outage } from '../../src/core/log/outage.js';

describe('an outage', () => {
  it('is told of with pauses that grow, up to 256 failures', () => {
    const outage = new Outage();
    const told = Array.from({ length: 1024 }, (_, index) => index + 1).filter(() => outage.recordFailure());
    expect(told).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]);
  });

  it('ends once, and the next one starts anew', () => {
    const outage = new Outage();
    expect(outage.recordSuccess()).toBeUndefined();
    for (let failure = 1; failure <= 3; failure += 1) outage.recordFailure();
    expect(outage.recordSuccess()).toMatchObject({ failures: 3 });
    expect(outage.recordSuccess()).toBeUndefined();
    expect(outage.recordFailure()).toBe(true);
    expect(outage.recordSuccess()).toMatchObject({ failures: 1 });
  });
});
