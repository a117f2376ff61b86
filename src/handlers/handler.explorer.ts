import { Inject, Injectable } from '@nestjs/common';
import { MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { toMs } from '../core/options/duration.js';
import { ConfigurationError } from '../core/errors.js';
import { configuredSource } from '../core/options/known-source.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { checkHandlerOptions, resolveRecord, retryPolicy } from '../core/options/resolve-work.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ClassNames } from './class-names.js';
import { DecoratedProviders } from './decorated.providers.js';
import { EffectExplorer, methodOf, type Method } from './effect.explorer.js';
import { routeEffects } from './engine-routes.js';
import { HandlerRegistry, type Handler } from './handler.registry.js';
import { metadataOf } from './metadata.js';
import { refuseContradictions } from './contradictions.js';
import { ON_WEBHOOK, type OnWebhookMetadata } from './on-webhook.decorator.js';
import { originOf, type Origin } from './origin.js';

/** Reads what the decorators wrote on every provider and controller, and fills the registry. */
@Injectable()
export class HandlerExplorer {
  constructor(
    private readonly providers: DecoratedProviders,
    private readonly classNames: ClassNames,
    private readonly scanner: MetadataScanner,
    private readonly registry: HandlerRegistry,
    private readonly effects: EffectExplorer,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** @throws ConfigurationError naming the class, the method and the remedy */
  explore(): void {
    for (const { wrapper, prototype } of this.providers.all()) {
      for (const name of this.scanner.getAllMethodNames(prototype)) this.register(wrapper, prototype, name);
    }
    for (const effect of this.effects.explore()) this.registry.addEffect(effect);
    routeEffects(this.registry, this.options.transports);
  }

  private register(wrapper: InstanceWrapper, prototype: object, method: string): void {
    const code = (prototype as Record<string, Method>)[method]!;
    for (const metadata of metadataOf<OnWebhookMetadata>(ON_WEBHOOK, code)) {
      const { where, instance, invoke } = methodOf(wrapper, prototype, method);
      const origin = originOf(wrapper, code, `${where} @OnWebhook('${metadata.source}')`);
      this.registry.addHandler(this.handler(metadata, where, origin, instance, invoke));
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
