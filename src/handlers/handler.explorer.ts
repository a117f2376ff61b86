import { Inject, Injectable } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { toMs } from '../core/duration.js';
import { ConfigurationError } from '../core/errors.js';
import { configuredSource } from '../core/known-source.js';
import {
  checkEffectOptions,
  checkHandlerOptions,
  resolveRecord,
  retryPolicy,
  type ResolvedOptions,
} from '../core/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry, type Effect, type Handler } from './handler.registry.js';
import { metadataOf } from './metadata.js';
import { refuseContradictions, refuseForgottenKeys } from './contradictions.js';
import { ON_EFFECT, type OnEffectMetadata } from './on-effect.decorator.js';
import { ON_WEBHOOK, type OnWebhookMetadata } from './on-webhook.decorator.js';
import { originOf, type Origin } from './origin.js';

type Method = (...args: unknown[]) => unknown;

const EFFECT_NAME = /^[\w.-]{1,120}$/;

/** Reads what the decorators wrote on every provider and controller, and fills the registry. */
@Injectable()
export class HandlerExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly registry: HandlerRegistry,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** @throws ConfigurationError naming the class, the method and the remedy */
  explore(): void {
    for (const wrapper of [...this.discovery.getProviders(), ...this.discovery.getControllers()]) {
      const prototype: object | null = prototypeOf(wrapper);
      if (prototype === null) continue;
      for (const name of this.scanner.getAllMethodNames(prototype)) this.register(wrapper, prototype, name);
    }
  }

  private register(wrapper: InstanceWrapper, prototype: object, method: string): void {
    const code = (prototype as Record<string, Method>)[method]!;
    const handlers = metadataOf<OnWebhookMetadata>(ON_WEBHOOK, code);
    const effects = metadataOf<OnEffectMetadata>(ON_EFFECT, code);
    if (handlers.length + effects.length === 0) return;
    const where = `${prototype.constructor.name}.${method}`;
    // The instance that discovery shows of a request-scoped class never had its constructor run.
    if (!wrapper.isDependencyTreeStatic()) {
      throw new ConfigurationError(
        `${where} is in a request-scoped class, and no request is there when the relay runs it. ` +
          `Make the class and what it injects singletons; the event carries what the request told.`,
      );
    }
    const instance = wrapper.instance as Record<string, Method>;
    const invoke: Method = (...args) => instance[method]!(...args);
    for (const metadata of handlers) {
      const origin = originOf(wrapper, code, `${where} @OnWebhook('${metadata.source}')`);
      this.registry.addHandler(this.handler(metadata, where, origin, instance, invoke));
    }
    for (const metadata of effects) {
      const origin = originOf(wrapper, code, `${where} @OnEffect('${metadata.effect}')`);
      this.registry.addEffect(effect(metadata, origin, instance, invoke));
    }
  }

  private handler(
    { source: name, types, options }: OnWebhookMetadata,
    where: string,
    origin: Origin,
    instance: object,
    invoke: Method,
  ): Handler {
    const { at } = origin;
    const source = configuredSource(this.options, name, at);
    checkHandlerOptions(options, at);
    const bad = types.find((type) => type === '' || type.indexOf('*') !== type.lastIndexOf('*'));
    if (types.length === 0 || bad !== undefined) {
      const received = bad === undefined ? 'an empty list' : `'${bad}'`;
      throw new ConfigurationError(`${at}: expected event types with one '*' at most, received ${received}`);
    }
    refuseContradictions(source, options, at);
    return {
      name: `${name}/${options.name ?? where}`,
      was: (options.was ?? []).map((former) => `${name}/${former}`),
      origin,
      source: name,
      types,
      inline: options.inline ?? false,
      record: resolveRecord(options.businessRecord, source, at),
      retry: retryPolicy(options.retry, source.maxAttempts),
      timeoutMs: toMs(options.timeout ?? '30s')!,
      concurrency: options.concurrency,
      classify: options.classify,
      ordered: options.key !== undefined,
      onDead: options.onDead ?? 'release',
      batch: options.batch,
      options,
      instance,
      invoke,
      invokeBatch: invoke,
    };
  }
}

function effect(
  { effect: name, options }: OnEffectMetadata,
  origin: Origin,
  instance: object,
  invoke: Method,
): Effect {
  const { at } = origin;
  checkEffectOptions(options, at);
  for (const one of [name, ...(options.was ?? [])]) {
    if (!EFFECT_NAME.test(one)) {
      throw new ConfigurationError(
        `${at}: expected a name of letters, digits, '.', '_' and '-' (1 to 120), received '${one}'`,
      );
    }
  }
  const made: Effect = {
    name,
    was: options.was ?? [],
    origin,
    retry: retryPolicy(options.retry, undefined),
    timeoutMs: toMs(options.timeout ?? '30s')!,
    concurrency: options.concurrency,
    classify: options.classify,
    ordered: options.key !== undefined,
    onDead: options.onDead ?? 'release',
    keyRetentionMs: options.keyRetention === false ? Infinity : toMs(options.keyRetention ?? '24h')!,
    options,
    instance,
    invoke,
  };
  refuseForgottenKeys(made, at);
  return made;
}

function prototypeOf(wrapper: InstanceWrapper): object | null {
  const instance: unknown = wrapper.instance;
  if (typeof instance === 'object' && instance !== null)
    return Object.getPrototypeOf(instance) as object | null;
  const { metatype } = wrapper;
  return typeof metatype === 'function' ? ((metatype.prototype as object | undefined) ?? null) : null;
}
