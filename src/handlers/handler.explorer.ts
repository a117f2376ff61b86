import { Inject, Injectable } from '@nestjs/common';
import { MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { toMs } from '../core/options/duration.js';
import { ConfigurationError } from '../core/errors.js';
import { rateOf } from '../core/options/rate.js';
import { configuredSource } from '../core/options/known-source.js';
import { writtenAs } from '../core/lazy.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import {
  checkEffectOptions,
  checkHandlerOptions,
  resolveRecord,
  retryPolicy,
} from '../core/options/resolve-work.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ClassNames } from './class-names.js';
import { DecoratedProviders, refuseScoped } from './decorated.providers.js';
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
    private readonly providers: DecoratedProviders,
    private readonly classNames: ClassNames,
    private readonly scanner: MetadataScanner,
    private readonly registry: HandlerRegistry,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** @throws ConfigurationError naming the class, the method and the remedy */
  explore(): void {
    for (const { wrapper, prototype } of this.providers.all()) {
      for (const name of this.scanner.getAllMethodNames(prototype)) this.register(wrapper, prototype, name);
    }
  }

  private register(wrapper: InstanceWrapper, prototype: object, method: string): void {
    const code = (prototype as Record<string, Method>)[method]!;
    const handlers = metadataOf<OnWebhookMetadata>(ON_WEBHOOK, code);
    const effects = metadataOf<OnEffectMetadata>(ON_EFFECT, code);
    if (handlers.length + effects.length === 0) return;
    const where = `${prototype.constructor.name}.${method}`;
    refuseScoped(wrapper, where);
    if (writtenAs(code) === 'generator') {
      throw new ConfigurationError(
        `${where} is a generator, whose code would never run: expected a method that returns a value, a promise or an Observable; ` +
          'remove the `*` and await in it',
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
    if (options.name === undefined) this.classNames.check(where.slice(0, where.lastIndexOf('.')), at);
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
    rate: options.rate === undefined ? undefined : rateOf(options.rate),
    opensAfter: options.opensAfter === false ? undefined : (options.opensAfter ?? 10),
    options,
    instance,
    invoke,
  };
  refuseForgottenKeys(made, at);
  return made;
}
