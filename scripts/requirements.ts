import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What articles on webhook idempotency ask of a receiver, in short. */
const REQUIREMENTS: Readonly<Record<string, string>> = {
  R01: 'The dedupe key is the provider’s delivery id; a retry carries the same, another id is another event',
  R02: 'Claim by insert with a conflict clause; a known event is answered at once and does no work',
  R03: 'No crash point leaves an event seen and not owed',
  R04: 'Claims older than a retention are pruned; `received_at` is indexed',
  R05: 'An update older than what is stored changes nothing',
  R06: 'A manual redelivery from the provider’s dashboard is survived and understood',
  R07: 'Raw bytes, verify, claim, answer, in this order; work after the answer',
  R08: 'HMAC-SHA256 over `timestamp.body`, constant time, a window both ways',
  R09: 'An unauthenticated caller puts no id into the dedupe table',
  R10: 'Kept per event: id, provider, type, received_at, processed_at, payload; one statement decides who is first',
  R11: '401 bad signature, 400 malformed, 2xx after commit, 5xx only for what is transient',
  R12: 'Answers `{"status":"ok"}` and `{"status":"duplicate"}`',
  R13: 'A first delivery that fails leaves nothing behind that stops the second',
  R14: 'Dead letters with payload, last error, attempts and time, under both retry policies; an alarm on their number',
  R15: 'Once a claim is pruned, its event counts as new',
  R16: 'Replay, tamper, skew, transient failure and old event against a real database',
  R17: 'Uniqueness in the database, never select-then-insert',
  R18: 'A result summary per processed event',
  R19: 'External side effects through a transactional outbox, under the outbox row’s id',
  R20: 'The answer comes before the handler ends; a slow handler causes no provider retries',
  R21: 'The resource’s current state can be fetched for a handler',
  R22: 'Errors are classified as transient or permanent; permanent ones alert',
  R23: 'Dead events are shown with cause and body, and started again when the cause is gone',
  R24: 'Sustained storms of duplicates pass without operator action',
  R25: 'Every verified delivery is kept byte for byte, can be replayed later and sent on to another URL',
  R26: 'The key is (source, tenant, event id)',
  R27: 'The outcome is recorded: processed, skipped, superseded, dead',
  R28: 'Handled events whose business record is missing are handled again',
  R29: 'Claim, or handler and its completion, in one transaction with the business writes',
  R30: 'Business writes as upserts that keep first values',
  R31: 'Check, then act, for services without idempotency keys',
  R32: 'Retention with an index that PostgreSQL accepts',
  R33: 'Ids of our own for logs; content-hash dedupe; automatic retry; observability',
  R34: 'The loser of a race does nothing; the key is what the sender sends',
  R35: 'A throwing handler’s work is rolled back, and the next delivery works',
  R36: 'Downstream idempotency keys derived from the event',
  R37: 'Background work is deduplicated on the event as well',
  R38: 'Repeated failures are dead-lettered; the event id is on every log line',
  R39: 'Conditional grants and upserts in the examples',
};

/** The test files that name each requirement. */
export function coverage(root: string): Map<string, string[]> {
  const covered = new Map(Object.keys(REQUIREMENTS).map((id) => [id, [] as string[]]));
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(spec|browser)\.ts$/.test(file))
    .sort();
  for (const file of files) {
    const source = readFileSync(join(root, 'test', file), 'utf8');
    const titles = source.match(/\b(?:describe|it|test)(?:\.each)?\b[\s\S]{0,400}?(['"`])[\s\S]*?\1/g) ?? [];
    const named = new Set(titles.flatMap((title) => title.match(/\bR\d{2}\b/g) ?? []));
    for (const id of named) covered.get(id)?.push(`test/${file.replaceAll('\\', '/')}`);
  }
  return covered;
}

/** The table in docs/requirements.md. */
export function requirementsPage(root: string): string {
  const rows = [...coverage(root)].map(([id, files]) => {
    const links = files.map((file) => `\`${file}\``).join(', ');
    return `| ${id} | ${REQUIREMENTS[id]} | ${links || '—'} |`;
  });
  return [
    '# Requirements and their tests',
    '',
    'What articles on webhook idempotency ask of a receiver, and the tests that name each line. Made by `npm run docs:requirements`.',
    '',
    '| | requirement | tests |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
