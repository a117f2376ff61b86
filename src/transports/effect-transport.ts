export type {
  EffectMessage,
  EffectReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  Verdict,
} from '../core/effect-transport.js';
