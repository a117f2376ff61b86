import { Injectable } from '@nestjs/common';
import type { Classifier } from '../core/classify.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import { ConfigurationError, WebhookInboxError } from '../core/errors.js';
import type { WebhookEvent } from '../core/event.js';
import type { ResolvedRecord } from '../core/options/resolve-work.js';
import type { EngineRoute } from '../core/options/resolve-transports.js';
import type { Rate } from '../core/options/rate.js';
import type { RetryPolicy } from '../core/options/retry.js';
import type { EffectOptions, HandlerOptions } from '../core/options/work-options.js';
import type { BatchContext, BatchEvent, EffectContext, HandlerContext } from '../core/context.js';
import { checkName, type Origin } from './origin.js';

interface Work {
  /** The full, stable name, as in `webhook_outbox.name`. */
  readonly name: string;
  /** Former full names. */
  readonly was: readonly string[];
  readonly origin: Origin;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  readonly concurrency: number | undefined;
  readonly classify: Classifier | undefined;
  readonly ordered: boolean;
  readonly onDead: 'release' | 'block';
}

/** A handler that is registered. Its full name is `source/name`. */
export interface Handler extends Work {
  readonly source: string;
  readonly types: readonly string[];
  readonly inline: boolean;
  readonly record: ResolvedRecord | undefined;
  /** Events in one transaction; undefined for a method that takes one. */
  readonly batch: number | undefined;
  readonly options: HandlerOptions;
  /** `this` of the functions among the options. */
  readonly instance: object;
  invoke(event: WebhookEvent, context: HandlerContext): unknown;
  invokeBatch(events: readonly BatchEvent[], context: BatchContext): unknown;
}

/**
 * The name from which outbox ids, order keys and the marks of `skipStale` are derived. An instance of before a renaming makes the same ids.
 * So it adds no second row to a claim of the new name, and its rows and today's share one order.
 */
export function firstName({ name, was }: Pick<Work, 'name' | 'was'>): string {
  return was[0] ?? name;
}

/** Every name that its rows may carry. */
export function namesOf({ name, was }: Pick<Work, 'name' | 'was'>): string[] {
  return [name, ...was];
}

/** An effect that is registered. */
export interface Effect extends Work {
  readonly options: EffectOptions;
  readonly instance: object;
  /** How long its sink remembers a key, in milliseconds; Infinity when it never forgets. */
  readonly keyRetentionMs: number;
  readonly rate: Rate | undefined;
  /** Failures in a row after which only probes are sent; undefined for never. */
  readonly opensAfter: number | undefined;
  invoke(payload: unknown, context: EffectContext): unknown;
}

/** A route with `@UseWebhook`: a handler that only a delivery can run. */
export interface Route {
  readonly name: string;
  readonly origin: Origin;
  readonly source: string;
}

/** The part of a leased row that says how it is run. */
interface OwedRow {
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly event?: { readonly type: string };
  readonly previousResult?: string;
}

/** Whether an event type matches: exact, or with `*` standing for any text, the empty one and dots included. */
export function typeMatches(pattern: string, type: string): boolean {
  const star = pattern.indexOf('*');
  if (star === -1) return pattern === type;
  const before = pattern.slice(0, star);
  const after = pattern.slice(star + 1);
  return type.length >= before.length + after.length && type.startsWith(before) && type.endsWith(after);
}

/** The work that this process can run. It is filled once at boot. */
@Injectable()
export class HandlerRegistry {
  private readonly handlersByName = new Map<string, Handler>();
  private readonly effectsByName = new Map<string, Effect>();
  private readonly routesByName = new Map<string, Route>();
  private readonly bySource = new Map<string, Handler[]>();
  private readonly engines = new Map<Effect, EngineRoute>();
  private filled = false;
  /** Asked for with each event, and the same from the end of the boot on. */
  private sharing: { readonly names: ReadonlySet<string>; readonly sources: ReadonlySet<string> } | undefined;

  /** @throws ConfigurationError when the name is taken, or longer than a row can hold */
  addHandler(handler: Handler): void {
    for (const name of namesOf(handler)) {
      checkName(name, handler, this.handlersByName.get(name) ?? this.routesByName.get(name));
      this.handlersByName.set(name, handler);
    }
    this.sharing = undefined;
    this.bySource.set(handler.source, [...(this.bySource.get(handler.source) ?? []), handler]);
  }

  /** @throws ConfigurationError when the name is taken, or longer than a row can hold */
  addEffect(effect: Effect): void {
    for (const name of namesOf(effect)) {
      checkName(name, effect, this.effectsByName.get(name));
      this.effectsByName.set(name, effect);
    }
  }

  /** The effect goes to an engine. */
  handTo(effect: Effect, engine: EngineRoute): void {
    this.engines.set(effect, engine);
  }

  /** The engine of an effect, by the effect's name or a former one. */
  engineOf(name: string): EngineRoute | undefined {
    const effect = this.effectsByName.get(name);
    return effect && this.engines.get(effect);
  }

  /** Whether a leased effect goes to an engine. One whose call was made here ends here: only its completion is missing. */
  goesToEngine({ name, previousResult }: OwedRow): boolean {
    const engine = this.engineOf(name);
    if (engine === undefined) return false;
    return previousResult === undefined || engine.elsewhere.includes(name);
  }

  /** @throws ConfigurationError when the name is taken, or longer than a row can hold */
  addRoute(route: Route): void {
    const taken = this.routesByName.get(route.name) ?? this.handlersByName.get(route.name);
    checkName(route.name, route, taken);
    this.routesByName.set(route.name, route);
  }

  /** Every handler, effect and route of the application is known from here on. */
  close(): void {
    this.filled = true;
  }

  /**
   * For what may be called too early: no handler would match, and every event be skipped.
   * @throws ConfigurationError in an application that is not initialised
   */
  checkFilled(): void {
    if (this.filled) return;
    throw new ConfigurationError(
      'The application is not initialised, so its handlers are not known yet. Call `await app.init()` (or `app.listen(…)`) first. ' +
        'With a testing module, call `await moduleRef.createNestApplication().init()`, or `await moduleRef.init()` without HTTP',
    );
  }

  /** Whether nothing but routes with `@UseWebhook` takes a source's events. */
  hasOnlyRoutes(source: string): boolean {
    return !this.bySource.has(source) && this.routesOf(source).length > 0;
  }

  /** Whether a handler of a source runs while its provider waits. */
  hasInline(source: string): boolean {
    return this.bySource.get(source)?.some((handler) => handler.inline) === true;
  }

  handlersOf(source: string): readonly Handler[] {
    return this.bySource.get(source) ?? [];
  }

  /** Whether a handler or a route takes events of a source. */
  takesAny(source: string): boolean {
    return this.bySource.has(source) || this.routesOf(source).length > 0;
  }

  /** The names of a source's routes. */
  routesOf(source: string): string[] {
    return [...this.routesByName.values()].filter((route) => route.source === source).map(({ name }) => name);
  }

  /** The handlers that an event of this type is owed to. */
  match(source: string, type: string): Handler[] {
    return this.handlersOf(source).filter((handler) => this.takes(handler, type));
  }

  takes({ types }: Handler, type: string): boolean {
    return types.some((pattern) => typeMatches(pattern, type));
  }

  /** Whether a row's handler does not take its event's type: the name was another handler's when the event was claimed. */
  mismatches({ kind, name, event }: OwedRow): boolean {
    const handler = kind === 'handler' ? this.handlersByName.get(name) : undefined;
    return handler !== undefined && event !== undefined && !this.takes(handler, event.type);
  }

  /** By its name or a former one. */
  handler(name: string): Handler | undefined {
    return this.handlersByName.get(name);
  }

  /** By its name or a former one. */
  effect(name: string): Effect | undefined {
    return this.effectsByName.get(name);
  }

  /** @throws WebhookInboxError UNKNOWN_HANDLER */
  knownHandler(name: string): Handler {
    const handler = this.handlersByName.get(name);
    if (handler !== undefined) return handler;
    const known = [...this.handlersByName.keys()];
    const withSource = known.find((one) => one.endsWith(`/${name}`));
    const hint = withSource === undefined ? didYouMean(name, known) : `; did you mean '${withSource}'?`;
    throw new WebhookInboxError(
      'UNKNOWN_HANDLER',
      `No handler has the full name '${name}' (source/name)${hint}`,
    );
  }

  /** @throws WebhookInboxError UNKNOWN_EFFECT */
  knownEffect(name: string): Effect {
    const effect = this.effectsByName.get(name);
    if (effect !== undefined) return effect;
    const hint = didYouMean(name, [...this.effectsByName.keys()]);
    throw new WebhookInboxError('UNKNOWN_EFFECT', `No method has @OnEffect('${name}')${hint}`);
  }

  /** Every name a row may carry that this process can run, former ones included. */
  handlers(): ReadonlyMap<string, Handler> {
    return this.handlersByName;
  }

  /** The names and the sources of handlers, which share the slots. */
  shares(): { readonly names: ReadonlySet<string>; readonly sources: ReadonlySet<string> } {
    this.sharing ??= {
      names: new Set(this.handlersByName.keys()),
      sources: new Set([...this.handlersByName.values()].map(({ source }) => source)),
    };
    return this.sharing;
  }

  effects(): ReadonlyMap<string, Effect> {
    return this.effectsByName;
  }

  routes(): ReadonlyMap<string, Route> {
    return this.routesByName;
  }

  /** Every name of a row that this process has code for. */
  names(): string[] {
    return [...this.handlersByName.keys(), ...this.effectsByName.keys(), ...this.routesByName.keys()];
  }
}
