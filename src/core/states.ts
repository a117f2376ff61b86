/**
 * States of an outbox row. CHECK constraints repeat them; `docs/architecture.md` shows this table, and a test compares the two.
 *
 * | state | meaning | moved by | lives |
 * |---|---|---|---|
 * | pending | owed: waiting (`leased_by` null) or leased (until `lease_until`) | enqueue, retry, release, revive, replay, unheard | until settled |
 * | done | finished, with its result | settle | as long as its claim |
 * | superseded | an event newer by the handler's watermark came first | the handler's own transaction | as long as its claim |
 * | dead | attempts used up, permanent error, unreadable | settle, or the lease when attempts are exhausted | as long as its claim, body kept |
 * | parked | waits for a person: an effect in doubt, or a row that a person held back before its next attempt | lease, settle, park | until decided |
 * | erased | content removed by a person | erase, from pending, dead, parked, handed | as long as its claim |
 * | cancelled | an effect called back, by its application or a person, before a lease | cancel | as long as its claim |
 * | handed | an effect that an engine has, with its end not yet reported | hand over, from a lease | until its consumer reports, or is unheard of for an hour |
 */
export const OUTBOX_STATES = [
  'pending',
  'done',
  'superseded',
  'dead',
  'parked',
  'erased',
  'cancelled',
  'handed',
] as const;
/** One of `OUTBOX_STATES`. */
export type OutboxState = (typeof OUTBOX_STATES)[number];

/**
 * State of an event, derived from its handler rows by the view `webhook_event`:
 * erased > dead > pending > processed > superseded > skipped.
 */
export const EVENT_STATES = ['erased', 'dead', 'pending', 'processed', 'superseded', 'skipped'] as const;
/** One of `EVENT_STATES`. */
export type EventState = (typeof EVENT_STATES)[number];

/** Why a row is dead. */
export type DeadReason =
  | 'attempts-exhausted'
  | 'permanent-error'
  | 'unreadable-body'
  | 'unreadable-payload'
  /** The item of a batch had no usable event id. It is claimed under a hash of its content, and was never run. */
  | 'unusable-id'
  /** The last attempt allowed never reported its end: the process was killed, or the lease was lost. */
  | 'last-attempt-lost'
  /** A route's failed attempt was not redelivered within the provider's retry window; only a delivery can run a route. */
  | 'not-redelivered'
  /** A person gave it up. */
  | 'given-up';

/** Why a row is parked: only a person can decide. */
export type ParkedReason =
  /** Its call was begun and its end is unknown, and the effect says `inDoubt: 'park'`. Running it again may do it twice. */
  | 'in-doubt'
  /** The other side may have forgotten the idempotency key by now. Running it again may do it twice. */
  | 'key-expired'
  /** A person held it back before its next attempt. */
  | 'by-person';
