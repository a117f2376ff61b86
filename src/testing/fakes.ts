import type { INestApplicationContext } from '@nestjs/common';
import type { EffectContext, EffectName, EffectPayload } from '../core/context.js';
import { knownEffect, knownWork, wrapWork, type Code } from './wrapped-work.js';

/** A call of a faked effect. */
export interface EffectCall<TPayload = unknown> {
  /** The idempotency key: the same at each attempt. */
  readonly key: string;
  readonly payload: TPayload;
  /** Counted from 1. */
  readonly attempt: number;
}

/** An effect whose code is the test's. */
export interface FakeEffect<TPayload = unknown> {
  /** Every call, in order. */
  readonly calls: readonly EffectCall<TPayload>[];
  /** Calls by their keys. A provider that knows its keys does the work of each key once. */
  readonly byKey: ReadonlyMap<string, readonly EffectCall<TPayload>[]>;
  /** Gives the effect its own code again. The calls stay. */
  restore(): void;
}

/**
 * Replaces the code of an effect in this application, and records its calls.
 * @param fn the effect's code for the test; its return value or error is the effect's end. @default returns nothing
 * @throws InputRefused with the nearest name when no `@OnEffect` has the name
 */
export function fakeEffect<N extends EffectName>(
  app: INestApplicationContext,
  name: N,
  fn: (payload: EffectPayload<N>, context: EffectContext) => unknown = () => undefined,
): FakeEffect<EffectPayload<N>> {
  const calls: EffectCall<EffectPayload<N>>[] = [];
  const fake = fn as Code;
  const restore = wrapWork(knownEffect(app, name, 'fakeEffect()'), (_code, payload, context) => {
    const { key = '', attempt = 1 } = context;
    calls.push({ key, payload: payload as EffectPayload<N>, attempt });
    return fake(payload, context);
  });
  return {
    calls,
    get byKey() {
      return byKey(calls);
    },
    restore,
  };
}

function byKey<TPayload>(calls: readonly EffectCall<TPayload>[]): Map<string, EffectCall<TPayload>[]> {
  const groups = new Map<string, EffectCall<TPayload>[]>();
  for (const call of calls) groups.set(call.key, [...(groups.get(call.key) ?? []), call]);
  return groups;
}

/**
 * Has a handler or an effect throw at its next run, before its own code runs.
 * @param name the full name, such as `stripe/Invoices.paid`, or the name of an effect
 * @param times how many runs fail. @default 1
 * @throws InputRefused with the nearest name
 */
export function failNext(app: INestApplicationContext, name: string, error: Error, times = 1): void {
  let left = times;
  const restore = wrapWork(knownWork(app, name, 'failNext()'), (code, input, context) => {
    if (left <= 0) return code(input, context);
    left -= 1;
    if (left === 0) restore();
    throw error;
  });
}
