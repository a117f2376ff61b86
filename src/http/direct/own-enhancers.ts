import { Injectable, type Type } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';

/**
 * Finds out whether the application has replaced this module's guard or interceptor: by a provider under its class, by `overrideProvider`
 * or `overrideGuard` in a test, or by changing a method.
 */
@Injectable()
export class OwnEnhancers {
  private readonly replacements = new Map<Type, object | undefined>();

  constructor(private readonly modules: ModulesContainer) {}

  /**
   * The instance that runs instead of `own`. Nest makes an enhancer of each class that a decorator names, beside the providers.
   * @returns undefined where `own` must run itself: nothing has replaced it, or it is the replacement
   */
  insteadOf<T extends object>(own: T, type: Type<T>, method: keyof T): T | undefined {
    return isPlain(own, type, method) ? this.replacementOf(type, method) : undefined;
  }

  replacementOf<T extends object>(type: Type<T>, method: keyof T): T | undefined {
    if (!this.replacements.has(type)) this.replacements.set(type, this.findReplacement(type, method));
    return this.replacements.get(type) as T | undefined;
  }

  private findReplacement<T extends object>(type: Type<T>, method: keyof T): T | undefined {
    return [...this.modules.values()]
      .map(({ providers }) => providers.get(type)?.instance as T | null | undefined)
      .find((instance) => instance && !isPlain(instance, type, method)) as T | undefined;
  }
}

/** Neither of a subclass, nor with a method of its own. */
function isPlain(instance: object, type: Type, method: PropertyKey): boolean {
  return Object.getPrototypeOf(instance) === type.prototype && !Object.hasOwn(instance, method);
}
