import { Injectable } from '@nestjs/common';
import { MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { toMs } from '../core/options/duration.js';
import { ConfigurationError } from '../core/errors.js';
import { writtenAs } from '../core/lazy.js';
import { rateOf } from '../core/options/rate.js';
import { checkEffectOptions, retryPolicy } from '../core/options/resolve-work.js';
import type { EffectOptions } from '../core/options/work-options.js';
import { refuseForgottenKeys } from './contradictions.js';
import { DecoratedProviders, refuseScoped } from './decorated.providers.js';
import type { Effect } from './handler.registry.js';
import { metadataOf } from './metadata.js';
import { ON_EFFECT, type OnEffectMetadata } from './on-effect.decorator.js';
import { originOf, type Origin } from './origin.js';

export type Method = (...args: unknown[]) => unknown;

const EFFECT_NAME = /^[\w.-]{1,120}$/;

/** Reads what `@OnEffect` wrote on every provider and controller. */
@Injectable()
export class EffectExplorer {
  constructor(
    private readonly providers: DecoratedProviders,
    private readonly scanner: MetadataScanner,
  ) {}

  /** @throws ConfigurationError naming the class, the method and the remedy */
  explore(): Effect[] {
    return this.providers.all().flatMap(({ wrapper, prototype }) =>
      this.scanner.getAllMethodNames(prototype).flatMap((method) => {
        const code = (prototype as Record<string, Method>)[method]!;
        return metadataOf<OnEffectMetadata>(ON_EFFECT, code).map(({ effect, options }) => {
          const { where, instance, invoke } = methodOf(wrapper, prototype, method);
          return effectOf(effect, options, {
            origin: originOf(wrapper, code, `${where} @OnEffect('${effect}')`),
            instance,
            invoke,
          });
        });
      }),
    );
  }
}

/** A decorated method, as it is called. @throws ConfigurationError for one that cannot be called */
export function methodOf(wrapper: InstanceWrapper, prototype: object, method: string) {
  const where = `${prototype.constructor.name}.${method}`;
  refuseScoped(wrapper, where);
  if (writtenAs((prototype as Record<string, Method>)[method]!) === 'generator') {
    throw new ConfigurationError(
      `${where} is a generator, whose code would never run: expected a method that returns a value, a promise or an Observable; ` +
        'remove the `*` and await in it',
    );
  }
  const instance = wrapper.instance as Record<string, Method>;
  const invoke: Method = (...args) => instance[method]!(...args);
  return { where, instance, invoke };
}

/** @throws ConfigurationError */
export function effectOf(
  name: string,
  options: EffectOptions,
  {
    origin,
    instance,
    invoke,
  }: { readonly origin: Origin; readonly instance: object; readonly invoke: Method },
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
