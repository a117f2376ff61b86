import 'reflect-metadata';

/** A decorator that adds `value` to the list under `key` on the method, so that one method may carry several. */
export function append<T>(key: symbol, value: T): MethodDecorator {
  return (_target, _name, descriptor) => {
    const method = descriptor.value as object;
    Reflect.defineMetadata(key, [...metadataOf<T>(key, method), value], method);
  };
}

export function metadataOf<T>(key: symbol, method: object): readonly T[] {
  return (Reflect.getMetadata(key, method) as T[] | undefined) ?? [];
}
