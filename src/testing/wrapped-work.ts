import type { INestApplicationContext } from '@nestjs/common';
import { InputRefused } from '../core/errors.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import { HandlerRegistry, type Effect, type Handler } from '../handlers/handler.registry.js';

/** The user's code of a handler or of an effect, with what the relay gives it. */
export type Code = (input: unknown, context: { readonly key?: string; readonly attempt?: number }) => unknown;

/** Code around the user's code. */
export type Around = (code: Code, ...given: Parameters<Code>) => unknown;

/**
 * Puts code around that of a handler or an effect of one application.
 * @returns a function that removes it, also under code that was put around it later
 */
export function wrapWork(work: Handler | Effect, around: Around): () => void {
  const inside = Reflect.get(work, 'invoke') as Code;
  let isThere = true;
  const invoke: Code = (input, context) =>
    isThere ? around(inside, input, context) : inside(input, context);
  Object.assign(work, { invoke }, 'invokeBatch' in work && { invokeBatch: invoke });
  return () => {
    isThere = false;
  };
}

/** @throws InputRefused with the nearest name */
export function knownEffect(app: INestApplicationContext, name: string, who: string): Effect {
  const effects = registryOf(app).effects();
  const effect = effects.get(name);
  if (effect !== undefined) return effect;
  throw new InputRefused(`${who}: no effect is called '${name}'${didYouMean(name, [...effects.keys()])}`);
}

/** @throws InputRefused with the nearest name */
export function knownWork(app: INestApplicationContext, name: string, who: string): Handler | Effect {
  const registry = registryOf(app);
  const found = registry.handlers().get(name) ?? registry.effects().get(name);
  if (found !== undefined) return found;
  const names = [...registry.handlers().keys(), ...registry.effects().keys()];
  throw new InputRefused(`${who}: no handler or effect is called '${name}'${didYouMean(name, names)}`);
}

/** @throws ConfigurationError in an application that is not initialised */
export function registryOf(app: INestApplicationContext): HandlerRegistry {
  const registry = app.get(HandlerRegistry);
  registry.checkFilled();
  return registry;
}
