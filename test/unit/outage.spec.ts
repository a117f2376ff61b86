import { Outage } from '../../src/core/log/outage.js';

describe('an outage', () => {
  it('is told of with pauses that grow, up to 256 failures', () => {
    const outage = new Outage();
    const told = Array.from({ length: 1024 }, (_, index) => index + 1).filter(() => outage.failed());
    expect(told).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]);
  });

  it('ends once, and the next one starts anew', () => {
    const outage = new Outage();
    expect(outage.ended()).toBeUndefined();
    for (let failure = 1; failure <= 3; failure += 1) outage.failed();
    expect(outage.ended()).toMatchObject({ failures: 3 });
    expect(outage.ended()).toBeUndefined();
    expect(outage.failed()).toBe(true);
    expect(outage.ended()).toMatchObject({ failures: 1 });
  });
});
