import { deepStrictEqual, doesNotThrow, fail, ifError, match, ok, strictEqual } from 'node:assert';
import { execFileSync, execSync } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import ts from 'typescript';
import { errorText, LOGGERS_OWN, logLine, LogLine } from '../../src/core/log/log.js';
import { validate } from '../../src/core/options/standard-schema.js';

/** Of a payload's. */
const CARD = 'canary4242';
/** What the language and Node repeat of a value that they refuse. */
const REFUSED: Readonly<Record<string, () => unknown>> = {
  BigInt: () => BigInt(CARD),
  'BigInt of a fraction': () => BigInt(4242.5),
  Request: () => new Request(CARD),
  Headers: () => new Headers({ authorization: `${CARD}\u0000` }),
  'Intl.NumberFormat': () => new Intl.NumberFormat('en', { style: 'currency', currency: CARD }),
  'Intl.DateTimeFormat': () => new Intl.DateTimeFormat('en', { timeZone: CARD }),
  RegExp: () => new RegExp(`(${CARD}`),
  in: () => 'a' in (CARD as never),
  'a property of a text': () => Object.assign(CARD as never, { 0: 1 }),
  'Buffer.alloc': () => Buffer.alloc(CARD as never),
  'Buffer.from': () => Buffer.from('a', CARD as never),
  repeat: () => 'a'.repeat(-4242),
  'Object.fromEntries': () => Object.fromEntries([CARD] as never),
  'JSON.parse': () => JSON.parse(`{"card": ${CARD}`),
  'assert.strictEqual': () => strictEqual(CARD, 'paid'),
  'assert.deepStrictEqual': () => deepStrictEqual({ card: CARD }, { card: 'paid' }),
  'assert.match': () => match(CARD, /paid/),
  'a property of nothing': () => (undefined as never)[CARD],
  'a property set on nothing': () =>
    Reflect.apply((of: Record<string, number>) => (of[CARD] = 1), undefined, [null]),
  'a property that is read only': () => Object.assign(Object.freeze({ [CARD]: 1 }), { [CARD]: 2 }),
  'a property that cannot be added': () => Object.assign(Object.freeze({}), { [CARD]: 2 }),
  readFileSync: () => readFileSync(`/nowhere/${CARD}.pdf`),
  'an emitter': () => new EventEmitter().emit('error', { card: CARD }),
  TextDecoder: () => new TextDecoder(CARD),
  createPrivateKey: () => createPrivateKey(CARD),
  'Intl.NumberFormat of a unit': () => new Intl.NumberFormat('en', { style: 'unit', unit: CARD }),
  'an HTTP method': () => new Request('http://a', { method: `${CARD} ` }),
  'a circle': () => {
    const circle: Record<string, unknown> = {};
    circle[CARD] = circle;
    return JSON.stringify(circle);
  },
  setPrototypeOf: () => Object.setPrototypeOf({}, CARD as never) as unknown,
  defineProperty: () => Object.defineProperty({}, 'a', CARD as never),
  reduce: () => ([] as string[]).reduce(CARD as never),
  forEach: () => ['a'].forEach(CARD as never),
  Promise: () => new Promise(CARD as never),
  Set: () => new Set(4242 as never),
  'an array of a number': () => {
    const given = { card: 4242 as never };
    const [first] = given.card as string[];
    return first;
  },
  'a typed array': () => new Uint8Array(-4242),
  fromCodePoint: () => String.fromCodePoint(-4242),
  'a getter': () => Object.defineProperty({}, 'a', { get: CARD as never }),
  'flags of a RegExp': () => new RegExp('a', CARD),
  'a method of another class': () =>
    Reflect.apply(Reflect.get(Map.prototype, 'get') as () => unknown, CARD, ['a']),
  'Symbol.keyFor': () => Symbol.keyFor(CARD as never),
  DataView: () => new DataView(new ArrayBuffer(1), 4242),
  'a property with a getter only': () =>
    Object.assign(
      {
        get [CARD]() {
          return 1;
        },
      },
      { [CARD]: 2 },
    ),
  'a property that cannot be defined': () => Object.defineProperty(Object.freeze({}), CARD, { value: 1 }),
  'a proxy': () => Object.assign(new Proxy({}, { set: () => false }), { [CARD]: 1 }),
  'a mode of Request': () => new Request('http://a', { mode: CARD as never }),
  'a URL with a password': () => new Request(`https://user:${CARD}@a.example`),
  execFileSync: () => execFileSync(`/nowhere/${CARD}`),
  execSync: () => execSync(`exit 1 # ${CARD}`, { stdio: 'pipe' }),
  'assert.doesNotThrow': () =>
    doesNotThrow(() => {
      throw new Error(CARD);
    }),
  'assert.ifError': () => ifError(CARD),
};

describe('an error as text', () => {
  it('has the code of its cause, without which "fetch failed" says nothing', () => {
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND mail.example.com'), { code: 'ENOTFOUND' });
    expect(errorText(new TypeError('fetch failed', { cause }))).toBe('TypeError: fetch failed (ENOTFOUND)');
  });

  it('says nothing twice, and nothing of a cause without a code', () => {
    const refused = Object.assign(new Error('no'), { code: 'ECONNREFUSED' });
    expect(errorText(new Error('connect ECONNREFUSED ::1', { cause: refused }))).toBe(
      'connect ECONNREFUSED ::1',
    );
    expect(errorText(new Error('no luck', { cause: new Error('card 4242') }))).toBe('no luck');
    expect(errorText(new Error('no luck', { cause: 'card 4242' }))).toBe('no luck');
  });

  it.each(Object.entries(REFUSED))('repeats no value that %s has refused', (_, refused) => {
    let told = '';
    try {
      refused();
    } catch (error) {
      told = errorText(error);
    }
    expect(told).toMatch(/error|an assertion failed|ENOENT|ERR_|Command failed/i);
    expect(told).not.toMatch(/canary|4242/);
  });

  it.each<[string, () => unknown, string]>([
    [
      'a function of the engine',
      () => ['a'].map(CARD as never),
      'TypeError: Array.map() refused a value (the message may repeat it)',
    ],
    ['a time', () => new Date(CARD).toISOString(), 'RangeError: Invalid time value'],
    [
      'the code',
      () => (JSON as unknown as { read: () => void }).read(),
      'TypeError: JSON.read is not a function',
    ],
    [
      'a file',
      () => readFileSync(`/nowhere/${CARD}`),
      'ENOENT: no such file or directory, open (the rest repeats a path)',
    ],
    ['a program', () => execFileSync(`/nowhere/${CARD}`), 'ENOENT: spawnSync (the rest repeats a path)'],
    ['an assertion', () => strictEqual(CARD, 'paid'), 'AssertionError: an assertion failed (strictEqual)'],
    [
      'an assertion with words',
      () => ok(false, 'the order is not paid'),
      'AssertionError: the order is not paid',
    ],
    ['a failure', () => fail('not paid'), 'AssertionError: not paid'],
    [
      'a TypeError of the application',
      () => {
        throw new TypeError("expected 'paid'");
      },
      "TypeError: expected 'paid'",
    ],
    [
      'a clone',
      () => {
        throw Object.assign(new Error(`Symbol(${CARD}) could not be cloned.`), { name: 'DataCloneError' });
      },
      'DataCloneError: could not be cloned (the rest repeats a value)',
    ],
  ])('of %s says what kind of error it was', (_, refused, text) => {
    let told = '';
    try {
      refused();
    } catch (error) {
      told = errorText(error);
    }
    expect(told).toBe(text);
  });

  it('needs no stack that can be read', () => {
    const error = Object.defineProperty(new TypeError('no'), 'stack', {
      get: () => {
        throw new Error('no stack');
      },
    });
    expect(errorText(error)).toBe('TypeError: no');
    expect(errorText(Object.assign(new TypeError('no'), { stack: 5 }))).toBe('TypeError: no');
  });

  it('leaves words of a library with codes like Node’s, and addresses that could not be reached', () => {
    const ofAxios = Object.assign(new Error('Request failed with status code 404'), {
      name: 'AxiosError',
      code: 'ERR_BAD_REQUEST',
    });
    expect(errorText(ofAxios)).toContain('Request failed with status code 404');
    const ofSystem = Object.assign(new Error('connect ECONNREFUSED 10.0.0.1:443'), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
      errno: -111,
    });
    expect(errorText(ofSystem)).toContain('connect ECONNREFUSED 10.0.0.1:443');
  });

  it.each([
    [
      'valibot',
      [{ message: `Invalid type: Expected number but received "${CARD}"`, path: [{ key: 'card' }] }],
    ],
    ['arktype', [{ message: `card must be a number (was "${CARD}")`, path: ['card'] }]],
    ['one that cuts', [{ message: `bad: ${CARD.slice(0, 9)}…`, path: ['card'] }]],
    ['a number', [{ message: 'Expected >=9000 but received 4242', path: ['cents'] }]],
    ['an object', [{ message: `must be a text (was {"card":"${CARD}","cents":4242})` }]],
  ])('a schema repeats no value of the payload: %s', async (vendor, issues) => {
    const schema = { '~standard': { version: 1, vendor, validate: () => ({ issues }) } } as const;
    const refused = await validate(schema, { card: CARD, cents: 4242 }).catch(errorText);
    expect(refused).toMatch(/schema: \w+: /);
    expect(refused).not.toMatch(/canary|4242/);
  });

  it.each<[string, unknown, string]>([
    ['an object without a prototype', Object.create(null), 'a thrown value that cannot be shown as text'],
    ['a message that is no text', Object.assign(new Error(), { message: { a: 1 } }), '[object Object]'],
    ['a message that is not there', Object.assign(new Error(), { message: undefined }), 'undefined'],
    ['a symbol', Symbol('a'), 'non-Error thrown: Symbol(a)'],
    [
      'a cause whose message is no text',
      new Error('no', { cause: Object.assign(new Error(), { code: '22P02', message: 5 }) }),
      'no (22P02)',
    ],
  ])('of %s can be had', (_, thrown, text) => expect(errorText(thrown)).toBe(text));

  it.each([
    ['an Error', new Error('é'.repeat(5_000))],
    ['anything else', 'é'.repeat(5_000)],
  ])('of %s is cut to what a row keeps, in whole characters', (_, error) => {
    const text = errorText(error);
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(4_000);
    expect(text).toMatch(/é…$/);
  });
});

/** A line as the code has it. */
interface CodeLine {
  readonly file: string;
  readonly text: string;
  /** Its facts; where they have a name, what that is made of. */
  readonly facts: string;
}

function linesOf(file: string): CodeLine[] {
  const source = ts.createSourceFile(
    file,
    readFileSync(join('src', file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  );
  const lines: CodeLine[] = [];
  const named = new Map<string, string>();
  const plain = (node: ts.Node | undefined) => node?.getText(source).replace(/\s+/g, ' ') ?? '';
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node)) {
      const { parent } = node.parent;
      named.set(
        plain(node.name),
        plain(node.initializer ?? (ts.isForOfStatement(parent) ? parent.expression : undefined)),
      );
    }
    if (
      (ts.isCallExpression(node) || ts.isNewExpression(node)) &&
      /^logLine$/i.test(plain(node.expression))
    ) {
      const [text, facts] = node.arguments ?? [];
      const given = plain(facts);
      const made = [...named]
        .filter(([name]) => new RegExp(`(^|\\.\\.\\.)${name}\\b`).test(given))
        .map(([, of]) => of);
      lines.push({ file, text: plain(text), facts: [given, ...made].join(' ') });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return lines;
}

/** They make lines of what others give them. */
const MAKERS = new Set(['core/log/log.ts', 'core/log/stack.ts']);
const LINES = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !MAKERS.has(file))
  .sort()
  .flatMap(linesOf);

/** Facts of a row (`rowFacts`, what a person decided about), of a delivery, of an event, of an alert, of an error of one of these. */
const OF_AN_EVENT =
  /rowFacts\(|messageFacts\(|reportFacts\(|deliveryFacts\(|alertFacts\(|\.\.\.row\b|\bsource\b.*\btenant\b.*\bevent\b/;

const beginningOf = (text: string) =>
  text
    .replaceAll(/\$\{[^}]*\}/g, '…')
    .replaceAll(/^[`']|[`']$/g, '')
    .slice(0, 40)
    .trim();

/** Lines that are about no single event: where they are, and the beginning of their text or its name in the code. */
const OF_NO_EVENT: readonly string[] = [
  'consumer/effect-consumer.module.ts: effects are not taken from … yet: …',
  'consumer/effect-consumer.module.ts: records of done effects could not be pru',
  'core/telemetry/alerts.ts: onAlert failed: …',
  "dashboard/dashboard.module.ts: the dashboard at '…' has no guard (allow",
  'dashboard/faults.ts: the dashboard failed: …',
  'handlers/class-names.ts: text',
  'handlers/passed-over.ts: … is not registered: …',
  'handlers/passed-over.ts: text',
  'handlers/passed-over.ts: text',
  'http/answer.writer.ts: text',
  'http/direct/direct.route.ts: text',
  "http/source-urls.ts: source '…' …",
  'http/webhook.requests.ts: the raw bytes of a webhook are gone: ano',
  'inbox/catch-up/backfills.ts: backfill ended',
  'inbox/catch-up/backfills.ts: not backfilled: …',
  'inbox/catch-up/gap.finder.ts: the search for gaps failed: …',
  'inbox/catch-up/record.reconciler.ts: text',
  "inbox/catch-up/startup.reconciler.ts: ran ? 'reconciled' : 'reconciled in part",
  'inbox/catch-up/startup.reconciler.ts: reconciliation failed: …',
  'inbox/inbox.ts: text',
  'inbox/rejections.ts: rejected: …',
  'lifecycle.module.ts: text',
  'lifecycle.module.ts: claims are committed …: …',
  'lifecycle.module.ts: draining: …',
  'operator/desk-writer.ts: dropped, since it cannot be stored: …',
  'operator/desk.keeper.ts: counts could not be written down: …',
  'operator/explain/rejection.explainer.ts: an explained rejection could not be stor',
  'operator/explain/second-look.ts: text',
  'operator/former-sources.ts: sources are stored and not configured: …',
  "operator/pauses.ts: changed ? 'paused' : 'nothing changed: i",
  "operator/pauses.ts: changed ? 'resumed' : 'nothing changed:",
  "operator/pauses.ts: changed ? 'resumed' : 'nothing changed:",
  'operator/replay/forwarder.ts: forward',
  'operator/replay/replays.ts: replay',
  'operator/retention.ts: retention ended',
  'operator/retention.ts: retention failed: …',
  'outbox/engine/engine-link.ts: engine … works again',
  'outbox/engine/engine-link.ts: text',
  'outbox/engine/engine-reports.ts: text',
  "outbox/engine/engines.ts: an engine's connections were not closed:",
  'outbox/engine/engines.ts: reports of … are not taken: …',
  'outbox/engine/engines.ts: effects of engines could not be looked t',
  'outbox/relay/hand-off.ts: hand-off failed: …',
  'outbox/relay/leased-work.ts: leases are not renewed yet',
  'outbox/relay/leased-work.ts: leases could not be renewed: …',
  'outbox/relay/leased-work.ts: leases could not be given back: …',
  'outbox/relay/leaser.ts: text',
  'outbox/relay/relay.loop.ts: the outbox can be read again',
  'outbox/relay/relay.loop.ts: the outbox could not be read: …',
  'outbox/relay/turns.ts: tenants behind a backlog could not be br',
  'outbox/runs/dead-letters.ts: dead letters could not be counted: …',
  'outbox/runs/destinations.ts: destination works again',
  'outbox/takeover/takeover.ts: text',
  'outbox/takeover/takeover.ts: takeover does not work, so work waits fo',
  'outbox/takeover/takeover.ts: text',
  'outbox/wake/notifier.ts: text',
  'outbox/wake/wake.listener.ts: LISTEN is down; polling until it is back',
  'outbox/wake/wake.listener.ts: LISTEN succeeded, but notifications do n',
  "storage/desk/audit.ts: no audit row for '…': …",
  'storage/desk/audit.ts: audit row without its outcome: …',
  'storage/postgres/host-transaction.ts: failed after a COMMIT, without effect on',
  'storage/postgres/one-message.ts: an instrumentation of the pg client copi',
  'storage/postgres/replica.ts: lists come from the primary, not the rep',
  'storage/postgres/stray-queries.ts: unwatched(NODE_ENV)',
  'storage/postgres/stray-queries.ts: a handler reads past its transaction, an',
  'transports/trouble.ts: tried again after an error: …',
  'transports/trouble.ts: works again',
];

describe('R38 every line of the log', () => {
  it('that the code has is about no event, or has source, tenant and event; about a row, also outbox, name and attempt', () => {
    const others = LINES.filter(({ facts }) => !OF_AN_EVENT.test(facts));
    expect(others.map(({ file, text }) => `${file}: ${beginningOf(text)}`)).toEqual(OF_NO_EVENT);
    expect(LINES.length - others.length).toBeGreaterThan(25);
  });

  it('is made of text and facts alone: every call of a logger is given one', () => {
    // The type of `InboxLogger` asks for it; another logger would not.
    const other = readdirSync('src', { recursive: true, encoding: 'utf8' })
      .filter(
        (file) =>
          file.endsWith('.ts') && file !== 'core/log/inbox.logger.ts' && !file.startsWith('schematics/'),
      )
      .filter((file) =>
        /new Logger\(|\bLogger\.(log|warn|error|debug)\(|^[^*]*console\.\w+\(/m.test(
          readFileSync(join('src', file), 'utf8'),
        ),
      );
    expect(other).toEqual([]);
  });

  it('has its facts as fields for loggers that keep objects, and as text for those that print', () => {
    const line = logLine('attempt failed: no', {
      source: 'stripe',
      tenant: '',
      event: 'evt 1',
      attempt: 2,
      at: '/a.ts:1:1',
    });
    expect(Object.fromEntries(Object.entries(line))).toEqual({
      msg: 'attempt failed: no',
      source: 'stripe',
      event: 'evt 1',
      attempt: 2,
      at: '/a.ts:1:1',
    });
    const text = 'attempt failed: no source=stripe event="evt 1" attempt=2 at=/a.ts:1:1';
    expect([String(line), inspect(line), line.message]).toEqual([text, text, 'attempt failed: no']);
  });

  it('can be taken for a text by a logger of the application’s own', () => {
    const line: unknown = logLine('claimed', { event: 'evt 1' });
    const text = line as string;
    expect(text.includes('evt 1')).toBe(true);
    expect(text.replace('evt 1', '***').split(' ')).toEqual(['claimed', 'event="***"']);
    expect(['', text, text].join('')).toBe('claimed event="evt 1"claimed event="evt 1"');
    expect(/claimed/.test(text)).toBe(true);
    expect([line]).toEqual([expect.stringContaining('evt 1')]);
  });

  it('has no fact by a name that loggers give to their own fields', () => {
    const names = [
      ...readFileSync('src/core/telemetry/alert.ts', 'utf8').matchAll(/readonly (\w+)\??:/g),
    ].map(([, name]) => name!);
    expect(names.filter((name) => (LOGGERS_OWN as readonly string[]).includes(name))).toEqual([]);
    const keys = LINES.flatMap(({ facts }) =>
      [...facts.matchAll(/(?:[{,] )(\w+)(?=[:,]| })/g)].map(([, key]) => key!),
    );
    expect(keys.filter((key) => (LOGGERS_OWN as readonly string[]).includes(key))).toEqual([]);
  });

  it.each([
    'a\r\nforged',
    'a\u001b[2Jforged',
    'a\u2028forged',
    'a\u0085forged',
    'a\u202eforged',
    'a\u0000forged',
  ])('is one line, whatever a provider sends: %j', (forged) => {
    const line = new LogLine(
      `rejected: ${forged}`,
      { source: 's', event: forged, [`reason`]: forged.repeat(100) },
      `    at ${forged.replaceAll('\n', ' ')}`,
    );
    const { stack, ...fields } = line;
    for (const text of [...Object.values(fields), ...String(line).split('\n'), ...stack!.split('\n')])
      expect(text).toMatch(/^[\x20-\x7e…]*$/);
    expect(String(line).split('\n')).toHaveLength(2);
    expect(stack).not.toMatch(/^forged/m);
    for (const value of Object.values(fields).slice(1)) expect(value.length).toBeLessThan(1_000);
  });
});
