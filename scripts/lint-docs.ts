import { existsSync, readFileSync } from 'node:fs';
import { proseFaults, prosePages } from './prose.js';

/** `npm run lint:docs`: sentences of README and docs that are too long, or have to be read twice. */
const named = process.argv.slice(2);
const pages = (named.length > 0 ? named : prosePages()).filter((page) => existsSync(page));
const faults: string[] = [];
for (const page of pages) faults.push(...(await proseFaults(page, readFileSync(page, 'utf8'))));
for (const fault of faults) console.log(fault);
console.log(`${pages.length} pages, ${faults.length} sentences to say more plainly`);
process.exitCode = faults.length > 0 ? 1 : 0;
