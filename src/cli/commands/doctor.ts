import { Option } from 'commander';
import type { Definition } from '../command.js';
import type { Level } from '../doctor/finding.js';
import { EXIT } from '../terminal/exit.js';
import { printable } from '../terminal/table.js';

const ORDER: readonly Level[] = ['error', 'warning', 'hint'];

export const doctor: Definition<{ readonly strict?: boolean }> = {
  usage: 'doctor',
  about: 'Looks for common faults, and names the remedy of each. Changes nothing.',
  needs: { application: 'the sources, handlers and windows of the application' },
  http: true,
  options: [new Option('--strict', 'exit with 5 for warnings too')],
  run: async ({ session, out }, { strict = false }) => {
    const { CHECKS, examine } = await import('../doctor/examine.js');
    const found = (await examine(session)).toSorted(
      (a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level),
    );
    out.answer({ checks: CHECKS.map(({ name }) => name), findings: found }, () => {
      for (const { level, check, text, remedy } of found) {
        out.line(`${level.padEnd(8)} ${check}: ${printable(text)}.`);
        out.line(`         ${printable(remedy)}.`);
      }
      const many = found.length === 1 ? '1 finding' : `${found.length || 'no'} findings`;
      out.line(`${CHECKS.length} checks, ${many}.`);
    });
    const worst: readonly Level[] = strict ? ['error', 'warning'] : ['error'];
    return found.some(({ level }) => worst.includes(level)) ? EXIT.partly : undefined;
  },
};
