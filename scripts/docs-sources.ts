import { readFileSync, writeFileSync } from 'node:fs';
import { renderSources } from './render-sources.js';

/** `npm run docs:sources`: puts what follows from the providers into docs/sources.md. */
const FILE = 'docs/sources.md';
writeFileSync(FILE, renderSources(readFileSync(FILE, 'utf8')));
