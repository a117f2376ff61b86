import { existsSync, readFileSync } from 'node:fs';
import { codeTexts } from './code-texts.js';
import { commentedFiles, commentFaults } from './comments.js';
import { codeFaults, proseFaults, prosePages } from './prose.js';

/** `npm run lint:docs`: sentences of the pages, of comments and of texts in the code that are too long or need reading twice. */
const named = process.argv.slice(2);
const pages = (named.length > 0 ? named : [...prosePages(), ...commentedFiles()]).filter((page) =>
  existsSync(page),
);
const texts =
  named.length > 0 ? [] : ['src', 'migrations', 'dashboard/src'].flatMap((folder) => codeTexts(folder));
const faults = texts.flatMap((text) => codeFaults(text));
for (const page of pages) {
  const text = readFileSync(page, 'utf8');
  faults.push(...(page.endsWith('.ts') ? commentFaults(page, text) : await proseFaults(page, text)));
}
for (const fault of faults) console.log(fault);
console.log(
  `${pages.length} pages, ${texts.length} texts of the code, ${faults.length} sentences to say more plainly`,
);
process.exitCode = faults.length > 0 ? 1 : 0;
