import { typesOf } from './types-of.js';

export const MAILGUN_TYPES = /* @__PURE__ */ typesOf(`
  accepted clicked complained delivered failed opened rejected stored unsubscribed`);

export const RESEND_TYPES = /* @__PURE__ */ typesOf(`
  contact.topics.updated inbox.thread.folder.updated inbox.thread.labels.updated
  contact. created deleted updated
  domain. created deleted updated
  email. bounced clicked complained delivered delivery_delayed failed opened received scheduled sent suppressed
  inbox. created deleted updated
  inbox.draft. created deleted sent updated
  inbox.email. received sent
  inbox.thread. assigned created unassigned
  suppression. added removed
  topic. created deleted updated`);

export const SENDGRID_TYPES = /* @__PURE__ */ typesOf(`
  bounce click deferred delivered dropped group_resubscribe group_unsubscribe open processed spamreport unsubscribe`);
