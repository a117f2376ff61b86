export {
  signWebhook,
  testKeys,
  type SignedWebhook,
  type SignOptions,
} from '../sources/signers/sign-webhook.js';
export type { TestKeys } from '../sources/signers/signer.js';
export { deliver, type Deliver, type ShuffledDeliveries, type TestEvent } from './deliver.js';
export { advance, drain, runDue } from './due-work.js';
export { failNext, fakeEffect, type EffectCall, type FakeEffect } from './fakes.js';
export { expectEvent, type EffectReport, type EventReport, type RunReport } from './expect-event.js';
export {
  crashEverywhere,
  CrashFaults,
  type CrashDelivery,
  type CrashFault,
  type CrashOptions,
  type CrashReport,
} from './crash/crash-everywhere.js';
export { transportContract, type TransportCheck } from './transport/transport-contract.js';
export type { TransportBench } from './transport/scene.js';
