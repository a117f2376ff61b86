import { Hysteresis } from '../../src/core/time/hysteresis.js';

describe('a threshold with hysteresis', () => {
  it('tells once, and again only after the figure fell to half', () => {
    const hysteresis = new Hysteresis();
    const told = [9, 10, 12, 8, 11, 6, 10, 5, 10, 10].map((value) => hysteresis.shouldAlert('x', value, 10));
    expect(told).toEqual([false, true, false, false, false, false, false, false, true, false]);
  });
});
