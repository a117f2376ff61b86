/** A reporter that ends the run at the first test that fails: more of them would tell nothing more of a fault. */
export default class FirstFailure {
  onTestCaseResult(_test, { status }) {
    if (status === 'failed') process.exit(1);
  }
}
