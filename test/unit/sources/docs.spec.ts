import { readFileSync } from 'node:fs';
import { renderSources } from '../../../scripts/render-sources.js';
import { providersByName } from '../../../src/sources/index.js';
import { signers, sourceOf } from '../../support/signers/index.js';

const text = readFileSync('docs/sources.md', 'utf8');

it('docs/sources.md is what the providers say; run `npm run docs:sources` after a change', () => {
  expect(renderSources(text)).toBe(text);
});

it('docs/sources.md has a row for every provider', () => {
  for (const name of providersByName.keys())
    if (name !== 'hmac') expect(text).toMatch(new RegExp(`^\\| \\[${name}\\]\\(https://`, 'm'));
});

it('docs/handlers.md says how many providers declare their event types', () => {
  const declaring = signers.filter((signer) => (sourceOf(signer).provider.types ?? []).length > 0);
  const names = new Set(declaring.map(({ provider }) => provider));
  expect(readFileSync('docs/handlers.md', 'utf8')).toContain(`knows the types of ${names.size} providers`);
});

it('the marks are needed', () => expect(() => renderSources('# Sources')).toThrow('expected the lines'));
