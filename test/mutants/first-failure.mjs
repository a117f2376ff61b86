import { writeFileSync } from 'node:fs';

/** A reporter that ends the run at the first test that fails, and leaves its name: more of them would tell nothing more of a fault. */
export default class FirstFailure {
  onTestCaseResult(_test, { status, fullName }) {
    if (status !== 'failed') return;
    writeFileSync(process.env.MUTANTS_FAILED_TEST, fullName);
    process.exit(1);
  }
}
