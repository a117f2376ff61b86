import { resolveOptions } from '../../src/core/options/resolve-options.js';
import { outsideWindow } from '../../src/inbox/delivery.verifier.js';
import { stripeSource } from '../support/sources.js';

it.each([
  [400_000, '400 s in the past and'],
  [-400_000, '400 s in the future and'],
  // A fraction of a second has a side, too.
  [1_250, '1.25 s in the past and'],
  [-340, '0.34 s in the future and'],
])('a time that is %d ms old is told of as it is', (skewMs, text) => {
  const source = resolveOptions({ sources: { stripe: stripeSource() } }).sources.get('stripe')!;
  expect(outsideWindow(source, skewMs).message).toContain(text);
});
