import { Alerts } from './telemetry/alerts.js';
import { Instance } from './instance.js';
import { Tally } from './telemetry/tally.js';
import { WebhookLifecycle } from './telemetry/lifecycle-events.js';

/** The providers of this folder, for the module. */
export const coreProviders = [Alerts, Instance, Tally, WebhookLifecycle];
