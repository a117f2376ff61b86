import { BackfillExplorer } from './backfill.explorer.js';
import { ClassNames } from './class-names.js';
import { DecoratedProviders } from './decorated.providers.js';
import { EffectExplorer } from './effect.explorer.js';
import { HandlerExplorer } from './handler.explorer.js';
import { HandlerRegistry } from './handler.registry.js';
import { PassedOver } from './passed-over.js';

/** The providers of this folder, for the module. */
export const handlersProviders = [
  BackfillExplorer,
  ClassNames,
  DecoratedProviders,
  EffectExplorer,
  HandlerExplorer,
  HandlerRegistry,
  PassedOver,
];
