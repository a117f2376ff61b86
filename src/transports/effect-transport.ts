export type {
  EffectMessage,
  EffectReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  Verdict,
} from '../core/options/effect-transport.js';
