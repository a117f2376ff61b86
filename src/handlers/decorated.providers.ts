import { Injectable, Scope } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { ConfigurationError } from '../core/errors.js';

/** An instance of the application that may have methods with decorators. */
export interface Provided {
  readonly wrapper: InstanceWrapper;
  readonly prototype: object;
}

/**
 * The application's providers, each instance once. Several tokens may stand for one instance (`useExisting`, a factory that returns it).
 */
@Injectable()
export class DecoratedProviders {
  constructor(private readonly discovery: DiscoveryService) {}

  all(): Provided[] {
    const seen = new Set<unknown>();
    return [...this.discovery.getProviders(), ...this.discovery.getControllers()].flatMap((wrapper) => {
      const prototype = prototypeOf(wrapper);
      if (prototype === null) return [];
      const instance: unknown = wrapper.instance;
      if (typeof instance === 'object' && instance !== null && isOne(wrapper)) {
        if (seen.has(instance)) return [];
        seen.add(instance);
      }
      return [{ wrapper, prototype }];
    });
  }
}

/**
 * Discovery shows a class of another scope as an object without its constructor's fields, and so without its dependencies.
 * @throws ConfigurationError
 */
export function refuseScoped(wrapper: InstanceWrapper, where: string): void {
  if (wrapper.scope === Scope.TRANSIENT || wrapper.isTransient) {
    throw new ConfigurationError(
      `${where} is in a class of Scope.TRANSIENT: each class that injects it has its own instance, and the relay has none. ` +
        'Make the class a singleton; it may inject transient providers.',
    );
  }
  if (wrapper.isDependencyTreeStatic()) return;
  throw new ConfigurationError(
    `${where} is in a request-scoped class, and the relay has no request. ` +
      `Make the class and its dependencies singletons; the event has the request's body and headers.`,
  );
}

function isOne(wrapper: InstanceWrapper): boolean {
  return !wrapper.isTransient && wrapper.isDependencyTreeStatic();
}

function prototypeOf(wrapper: InstanceWrapper): object | null {
  const instance: unknown = wrapper.instance;
  if (typeof instance === 'object' && instance !== null)
    return Object.getPrototypeOf(instance) as object | null;
  const { metatype } = wrapper;
  return typeof metatype === 'function' ? ((metatype.prototype as object | undefined) ?? null) : null;
}
