import 'reflect-metadata';

/** A method that carries a decorator of this package, as its class was written. */
export interface Decoration {
  readonly key: symbol;
  /** The class's prototype. */
  readonly target: object;
  readonly name: string | symbol;
}

/** Decorations of every class that this process has loaded. Boot warns about those that the application does not provide. */
const decorations: Decoration[] = [];

/** A decorator that adds `value` to the list under `key` on the method, so that one method may carry several. */
export function append<T>(key: symbol, value: T): MethodDecorator {
  return (target, name, descriptor) => {
    const method = descriptor.value as object;
    Reflect.defineMetadata(key, [...metadataOf<T>(key, method), value], method);
    if (!decorations.some((one) => one.target === target && one.name === name && one.key === key))
      decorations.push({ key, target, name });
  };
}

export function metadataOf<T>(key: symbol, method: object): readonly T[] {
  return (Reflect.getMetadata(key, method) as T[] | undefined) ?? [];
}

export function allDecorations(): readonly Decoration[] {
  return decorations;
}

export function decorationsOf(prototype: object): readonly Decoration[] {
  return decorations.filter(({ target }) => target === prototype || isAbove(target, prototype));
}

/** Whether `base` is among the prototypes that `prototype` inherits from. */
export function isAbove(base: object, prototype: object): boolean {
  return Object.prototype.isPrototypeOf.call(base, prototype);
}
