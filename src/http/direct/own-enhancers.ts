import { Injectable, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

/**
 * Whether the application has put something in the place of this module's guard or interceptor: by a provider under its class, by
 * `overrideProvider` or `overrideGuard` in a test, or by changing a method.
 */
@Injectable()
export class OwnEnhancers {
  private readonly replacements = new Map<Type, object | undefined>();

  constructor(private readonly modules: ModulesContainer) {}

  /**
   * What runs in the place of `own`: Nest makes an enhancer of each class that a decorator names, whatever providers there are.
   * @returns undefined where `own` is to run itself: nothing has replaced it, or it is the replacement
   */
  insteadOf<T extends object>(own: T, type: Type<T>, method: keyof T): T | undefined {
    if (!isPlain(own, type, method)) return undefined;
    if (!this.replacements.has(type)) this.replacements.set(type, this.replacement(type, method));
    return this.replacements.get(type) as T | undefined;
  }

  private replacement<T extends object>(type: Type<T>, method: keyof T): T | undefined {
    return [...this.modules.values()]
      .map(({ providers }) => providers.get(type)?.instance as T | null | undefined)
      .find((instance) => instance && !isPlain(instance, type, method)) as T | undefined;
  }
}

/** Neither of a subclass, nor with a method of its own. */
export function isPlain(instance: object, type: Type, method: PropertyKey): boolean {
  return Object.getPrototypeOf(instance) === type.prototype && !Object.hasOwn(instance, method);
}
