import { errorText } from '../../core/log/log.js';
import { BoundedRead } from '../../storage/postgres/bounded-read.js';
import type { Session } from '../session/session.js';
import { clockCheck, poolerCheck, serverCheck, snapshotCheck } from './database.checks.js';
import { warning, type Check, type Found, type Patient } from './finding.js';
import { cautionsCheck, retentionCheck, secretsCheck } from './sources.checks.js';
import { tablesCheck } from './tables.check.js';
import { leftoversCheck, relayCheck, typesCheck } from './traffic.checks.js';
import { wayCheck } from './way.check.js';

export const CHECKS: readonly Check[] = [
  serverCheck,
  tablesCheck,
  clockCheck,
  poolerCheck,
  snapshotCheck,
  retentionCheck,
  cautionsCheck,
  secretsCheck,
  relayCheck,
  typesCheck,
  leftoversCheck,
  wayCheck,
];
/** Runs every check and returns its findings. */
export async function examine({ context: app, dataSource, options }: Session): Promise<Found[]> {
  const reads = app.get(BoundedRead, { strict: false });
  const patient: Patient = { app, dataSource, options, read: (work) => reads.run(work) };
  const found: Found[] = [];
  for (const check of CHECKS) found.push(...(await examined(check, patient)));
  return found;
}

/** A check that fails must not hide what the others find. */
async function examined(check: Check, patient: Patient): Promise<Found[]> {
  try {
    return (await check.run(patient)).map((finding) => ({ check: check.name, ...finding }));
  } catch (thrown) {
    const remedy = 'mend the findings of the other checks; then run doctor again';
    return [{ check: check.name, ...warning(`could not be checked: ${errorText(thrown)}`, remedy) }];
  }
}
