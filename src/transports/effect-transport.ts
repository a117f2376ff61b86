export type {
  EffectMessage,
  EngineReport as EffectReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  EngineVerdict as Verdict,
} from '../core/options/effect-transport.js';
