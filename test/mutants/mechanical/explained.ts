import type { Fault } from './fault.js';

/** Faults that no test can notice, or need not, and why. */
interface Explanation {
  /** Of the faults' names. */
  readonly names: RegExp;
  readonly why: string;
}

const EXPLAINED: readonly Explanation[] = [
  {
    names:
      /(?:<=?|>=?) becomes (?:<=?|>=?) in .*(?:now\(\)|clock_timestamp\(\)|statement_timestamp\(\)|performance\.now\(\)|Date\.now\(\)|nowMs|silentMs|backlogMs > |waitsUntil > now|leftMs > |fullAt < oldest|\$\{hour\(|g\.last_at > i\.changed_at|began < this\.restsUntil)/,
    why: 'two instants of a clock are equal in one of a million looks, and then both sides are right',
  },
  {
    names:
      /(?:FENCE|FENCED_ROWS|SETTLE_MANY|outbox\.sql\.ts RENEW): without (?:AND|WHERE) (?:o\.)?state = 'pending'$/,
    why: 'a leased row is pending by a CHECK of the table; the words let the planner see it',
  },
  {
    names: / (?:<|>) becomes (?:<|>)= in a\.(?:\w+\.)?id (?:<|>) b\./,
    why: 'no two rows have one id, so the order is the same',
  },
  {
    names: /(?:REVIVE|lockRows|FENCED_ROWS|takeover\.store\.ts TAKE): turned round ORDER BY (?:o\.)?id$/,
    why: 'an order of locks, against deadlocks: PostgreSQL ends one, and a test would need two statements between two of their locks',
  },
  {
    names:
      /(?:claim\.sql|new-claim)\.ts (?:(?:CLAIMED|CLAIM|CONFLICTS): turned round ORDER BY (?:nth|g\.source)|DUPLICATES: turned round ORDER BY (?:source|id)\b)/,
    why: 'an order of locks and keys: turned round it is still one order for all statements, and none of them deadlocks',
  },
  {
    names:
      /(?:takeover\.store\.ts TAKE|turn\.sql\.ts FREE): without (?:WHERE|AND) o\.(?:state|waits|leased_by)\b|turn\.sql\.ts (?:ADVANCE_TENANTS: without AND \$\{(?:DUE\}|UNLEASED\} \(2\))$)/,
    why: 'asked again under the lock, of a row that another transaction changed since the statement began: no test can be between',
  },
  {
    names: /takeover\.store\.ts TAKE: without WHERE \$\{DUE\}$/,
    why: 'a leased row is pending and has its turn by a CHECK, and one in quarantine is found beside: the words let the planner see it',
  },
  {
    names: /GIVE_TURNS: without (?:LIMIT 1 \([34]\)|AND o\.waits)$/,
    why: 'of a key one row has the turn, by a unique index, and of rows that hold it one or more do',
  },
  {
    names: /(?:DUPLICATES|ADVANCE_TENANTS): without LIMIT 1$|RECENT: without AND c\.received_at >= /,
    why: 'said already by the primary key, or by the comparison beside it: the words let the planner see it',
  },
  {
    names: /raw-body\.installer\.ts checkOrder: < becomes <= in reader < parser/,
    why: 'the reader is no body parser, so no layer is both',
  },
  {
    names:
      /arrival\.ts tick: >= becomes > in this\.(?:ticks >= (?:most|this\.lastTick)|idleTicks >= most \/ 3)/,
    why: 'a limit that is looked at thirty times within bodyTimeout: a slow body may take one look more',
  },
  {
    names: /effect\.store\.ts EXISTING: without LIMIT 1/,
    why: 'the first row is taken; more than one would be rows of one effect under two names',
  },
  {
    names: /doctor\.store\.ts oldestSnapshot: without LIMIT 1$/,
    why: 'the first row is taken; more than one are the transactions of one database at one moment',
  },
  {
    names: /outbox\.sql\.ts (?:TAKE|take): without AND NOT t\.moves/,
    why: 'a row that moves to the quarantine is not handed out: its bytes would be read for nothing',
  },
  {
    names:
      /arrival\.ts (?:tick: < becomes <= in this\.inThisTick|add: > becomes >= in this\.read > LARGE_BYTES)/,
    why: 'a round figure, from which on a body is called slow or large: a byte more or less is neither',
  },
  {
    names: /json-spelling\.ts (?:asciiJson|isDeeper|stringEnd): < becomes <= in at < json\.length/,
    why: 'behind the end of a text there is no character, and none of these does anything with none',
  },
  {
    names: /json-spelling\.ts writeEscape: /,
    why: 'the fifth digit is overwritten by the next character, or lies behind the end of the buffer',
  },
  {
    names:
      /body-variants\.ts plain: |run-enqueue\.ts fitting: |rejection\.explainer\.ts explain: |trial-budget\.ts pay: >= /,
    why: 'a bound on what one step may cost: a byte more or less changes no result',
  },
  {
    names: /rejection\.explainer\.ts explainAlone: /,
    why: 'counts the bytes that are kept: where none are kept there are none to prune',
  },
  {
    names: /retention\.ts pruneAll: < becomes <= /,
    why: 'with equal windows the claim has gone in the statement before, and this one finds nothing',
  },
];

export function explanationOf({ name }: Pick<Fault, 'name'>): string | undefined {
  return EXPLAINED.find(({ names }) => names.test(name))?.why;
}

/** Such a fault is not planted. */
export const isExplained = (fault: Pick<Fault, 'name'>): boolean => explanationOf(fault) !== undefined;

/** Explanations of nothing: what they explained is gone. */
export function idle(faults: readonly Pick<Fault, 'name'>[]): string[] {
  return EXPLAINED.filter(({ names }) => !faults.some(({ name }) => names.test(name))).map(({ names }) =>
    String(names),
  );
}

export { EXPLAINED };
