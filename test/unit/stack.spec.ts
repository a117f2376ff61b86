import { WebhookInboxError } from '../../src/core/errors.js';
import { placeOfError, stackOf } from '../../src/core/log/stack.js';

const OWN = '/app/node_modules-of-ours/src/';

/** An error as V8 would have made it somewhere else. */
function thrown(message: string, frames: readonly string[], cause?: unknown): Error {
  const error = new TypeError(message, { cause });
  error.stack = [`TypeError: ${message}`, ...frames.map((frame) => `    at ${frame}`)].join('\n');
  return error;
}
const placeOf = (...frames: string[]) => placeOfError(thrown('no', frames), OWN);

describe('where an error comes from', () => {
  it.each([
    ['Billing.paid (/app/src/billing.ts:12:7)', '/app/src/billing.ts:12:7'],
    ['/app/src/billing.ts:12:7', '/app/src/billing.ts:12:7'],
    ['async Billing.paid (/app/src/billing.ts:12:7)', '/app/src/billing.ts:12:7'],
    ['async /app/src/billing.ts:12:7', '/app/src/billing.ts:12:7'],
    ['new Billing (file:///app/dist/billing.js:12:7)', '/app/dist/billing.js:12:7'],
    ['file:///srv/the%20app/billing.mjs?v=1:12:7', '/srv/the app/billing.mjs:12:7'],
    ['Billing.a [as b] (/srv/the app (2)/billing.js:12:7)', '/srv/the app (2)/billing.js:12:7'],
    ['file:///app/100%/billing.js:12:7', '/app/100%/billing.js:12:7'],
    ['Billing.paid (C:\\app\\dist\\billing.js:12:7)', 'C:/app/dist/billing.js:12:7'],
    ['async Billing.paid (file:///C:/app/dist/billing.js:12:7)', 'C:/app/dist/billing.js:12:7'],
  ])('%s', (frame, place) => {
    expect(placeOf(frame)).toBe(place);
  });

  it('is the first frame of the application’s', () => {
    const others = [
      'Array.map (<anonymous>)',
      'async Promise.all (index 0)',
      'eval (eval at run (/app/src/odd.js:1:1), <anonymous>:1:1)',
      'node:internal/process/task_queues:95:5',
      'async fs.open (node:internal/fs/promises:1:2)',
      'Client.query (/app/node_modules/pg/lib/client.js:5:1)',
      'Client.query (C:\\app\\node_modules\\pg\\lib\\client.js:5:1)',
      `Handler.run (file://${OWN}outbox/handler.runner.js:9:9)`,
    ];
    expect(placeOf(...others)).toBeUndefined();
    expect(
      placeOf(...others, 'Billing.paid (/app/src/billing.ts:12:7)', 'other (/app/src/other.ts:1:1)'),
    ).toBe('/app/src/billing.ts:12:7');
  });

  it('is not in TypeORM, whose source maps lead to the application’s own folder of sources', () => {
    const frames = [
      'DataSource.query (/app/src/data-source/DataSource.ts:1:1)',
      'paid (/app/src/index.ts:2:2)',
    ];
    const files = ['data-source/DataSource.js', 'index.js'].map(
      (file) => `/app/node_modules/typeorm/${file}`,
    );
    const placeWith = (...sources: string[]) =>
      placeOfError(thrown('no', frames), OWN, (file) => [...files, ...sources].includes(file));
    expect(placeWith('/app/src/index.ts')).toBe('/app/src/index.ts:2:2');
    expect(placeWith('/app/src/data-source/DataSource.ts')).toBe('/app/src/data-source/DataSource.ts:1:1');
    expect(placeWith()).toBeUndefined();
  });

  it('of one that wraps another is where it was wrapped, and else where the cause comes from', () => {
    const cause = thrown('beneath', ['Mail.send (/app/src/mail.ts:3:1)']);
    const frame = 'Billing.paid (/app/src/billing.ts:12:7)';
    expect(placeOfError(thrown('no', [frame], cause), OWN)).toBe('/app/src/billing.ts:12:7');
    expect(placeOfError(thrown('no', [`${OWN}a.js:1:1`], cause), OWN)).toBe('/app/src/mail.ts:3:1');
    const circle = thrown('no', []);
    circle.cause = circle;
    expect(placeOfError(circle)).toBeUndefined();
  });

  it('is not what a message says', () => {
    const message = 'bad body:\n    at evil (/etc/passwd:1:1)';
    expect(placeOfError(thrown(message, []), OWN)).toBeUndefined();
    expect(stackOf(thrown(message, ['Billing.paid (/app/src/billing.ts:12:7)']))).toBe(
      '    at Billing.paid (/app/src/billing.ts:12:7)',
    );
  });

  it('is nothing where there is no stack', () => {
    const unmade = Object.defineProperty(new Error('no'), 'stack', {
      get: () => {
        throw new Error('no stack for you');
      },
    });
    const without = Object.assign(new Error('no'), { stack: undefined });
    for (const error of [undefined, null, 'text', { stack: 7 }, without, unmade]) {
      expect(placeOfError(error)).toBeUndefined();
      expect(stackOf(error)).toBe('');
    }
  });

  it('keeps line and column of a path that is too long for a log line', () => {
    const place = placeOf(`/app/${'deep/'.repeat(50)}billing.ts:12:7`)!;
    expect(place).toHaveLength(128);
    expect(place).toMatch(/^….*billing\.ts:12:7$/);
  });

  it('is found in a real stack, past the files of this package', () => {
    expect(placeOfError(new WebhookInboxError('TIMED_OUT', 'here'))).toMatch(
      /\/test\/unit\/stack\.spec\.ts:\d+:\d+$/,
    );
  });
});

it('a stack is told with those of its causes, and without a message', () => {
  const cause = thrown('card 4242', ['Mail.send (/app/src/mail.ts:3:1)']);
  expect(stackOf(thrown('no', ['Billing.paid (/app/src/billing.ts:12:7)'], cause))).toBe(
    '    at Billing.paid (/app/src/billing.ts:12:7)\n  caused at\n    at Mail.send (/app/src/mail.ts:3:1)',
  );
});
