import { ConfigurationError } from '../core/errors.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import type { EffectTransport } from '../core/options/effect-transport.js';
import type { EngineRoute } from '../core/options/resolve-transports.js';
import type { EffectOptions } from '../core/options/work-options.js';
import { effectOf } from './effect.explorer.js';
import type { Effect, HandlerRegistry } from './handler.registry.js';

/**
 * Gives effects to their engines.
 * @throws ConfigurationError for a name that no method has, or an option that the engine cannot keep
 */
export function routeEffects(registry: HandlerRegistry, engines: readonly EngineRoute[]): void {
  for (const [index, engine] of engines.entries()) {
    const at = `WebhooksModule options: transports.${index} (${engine.transport.name})`;
    for (const name of engine.effects) {
      const effect = registry.effect(name);
      if (effect?.name !== name) throw unknownEffect(registry, name, at);
      refuseUnkept(effect, engine.transport);
      registry.handTo(effect, engine);
    }
    for (const name of engine.elsewhere) registry.handTo(addElsewhere(registry, name, at), engine);
  }
}

function unknownEffect(registry: HandlerRegistry, name: string, at: string): ConfigurationError {
  const known = registry.effect(name);
  if (known !== undefined)
    return new ConfigurationError(
      `${at}.effects: '${name}' is a former name: expected today's, '${known.name}'`,
    );
  return new ConfigurationError(
    `${at}.effects: expected names of effects, and no method has @OnEffect('${name}')` +
      `${didYouMean(name, [...registry.effects().keys()])}. Where only the consumer's application has the method, name it in \`elsewhere\``,
  );
}

/** An effect without a method: it can be enqueued, and handed over. */
function addElsewhere(registry: HandlerRegistry, name: string, at: string): Effect {
  const here = registry.effect(name);
  if (here !== undefined) {
    throw new ConfigurationError(
      `${at}.elsewhere: expected names without a method in this application, and ${here.origin.at} is here: name it in \`effects\``,
    );
  }
  const instance = {};
  const invoke = () => {
    throw new ConfigurationError(`${name} has no @OnEffect method in this application`);
  };
  // Only the consumer knows for how long its sink remembers a key.
  const options: EffectOptions = { keyRetention: false };
  const effect = effectOf(name, options, {
    origin: { at: `${at}.elsewhere`, code: instance, module: 'WebhooksModule' },
    instance,
    invoke,
  });
  registry.addEffect(effect);
  return effect;
}

/** An option that has no meaning where an engine gives the effect to a consumer, and why. */
const UNKEPT: readonly (readonly [
  string,
  (options: EffectOptions, transport: EffectTransport) => boolean,
  string,
])[] = [
  [
    'key',
    (options, { keepsOrder }) => options.key !== undefined && !keepsOrder,
    'this engine runs messages of one key side by side. Leave the effect to the relay, or take a transport that keeps order',
  ],
  [
    "onDead: 'block'",
    ({ onDead }) => onDead === 'block',
    'the engine has the next effects of the key before it is known that one is dead. Leave `onDead` out',
  ],
  [
    "inDoubt: 'park'",
    ({ inDoubt }) => inDoubt === 'park',
    'a consumer that dies leaves no record that a call had begun. Give a `probe`, or leave the effect to the relay',
  ],
  [
    'destination',
    (options) => options.destination !== undefined,
    'consumers share no state of destinations. Leave it out, or leave the effect to the relay',
  ],
  [
    'rate',
    ({ rate }) => rate !== undefined,
    'consumers share no rate. Limit them by `concurrency`, or leave the effect to the relay',
  ],
  [
    'opensAfter',
    ({ opensAfter }) => typeof opensAfter === 'number',
    'consumers share no state of destinations. Leave it out, or leave the effect to the relay',
  ],
];

/** @throws ConfigurationError for an option that a consumer cannot keep */
export function refuseUnkept({ name, options, origin }: Effect, transport: EffectTransport): void {
  for (const [option, isSet, why] of UNKEPT) {
    if (!isSet(options, transport)) continue;
    throw new ConfigurationError(
      `${origin.at}: ${option} cannot be kept for an effect that the engine '${transport.name}' has: ${why}; ` +
        `expected '${name}' without it, or not among the effects of this transport`,
    );
  }
}
