import { WebhookInboxError } from '../../core/errors.js';

/** The lease ended before the settle. Another process may run the row, so this run is rolled back. */
export class LeaseLost extends WebhookInboxError {
  constructor() {
    super('LEASE_LOST', 'the lease ended before the run did');
  }
}
