/*
 * Claim, lease, fence, settle and reconcile: two deliveries of one event, two workers, and CRASHES crashes of either.
 *
 * A committed transaction is one atomic step; what lies between two steps can be cut by a crash, or by the end of a lease, in any
 * order. The lease's end is a step of the environment, so that a worker may be late by any amount.
 *
 * Defined from outside (see model.ts), each makes a mutant that must be caught:
 *   SPLIT_TX   the claim and the row that is owed are two transactions
 *   NO_FENCE   a settle does not look at who holds the row
 *   LATE_COUNT attempts are counted at the settle, not at the lease
 *   NO_KEYS    the sink honours no keys
 *   KEY_EXPIRES the sink may forget a key while attempts are still made
 *   NO_RECHECK  the reconciler does not look again under the row's lock, nor whether it has done so before
 */

#ifndef CRASHES
#define CRASHES 2
#endif
#define LATE 1
/* Enough for every crash and every late one: a dead row would be a loss here. */
#define MAX_ATTEMPTS (CRASHES + LATE + 1)

#define PENDING 1
#define DONE 2
#define DEAD 3

/* The tables. */
bool claimed;           /* webhook_claim */
byte handler;           /* state of the handler's row; 0: not there */
byte effect;            /* state of the effect's row */
byte handler_by, effect_by;         /* leased_by; 0: nobody */
byte handler_attempt, effect_attempt;
byte records;           /* business records that are there */
byte handler_max = MAX_ATTEMPTS;
bool reconciled;        /* the row was run again for a record that was missing: once only */

/* The outside world. */
bool acknowledged;
bool key_known;
byte happened;          /* times the effect happened at the sink */

byte crashes;
byte runs;              /* attempts of the handler that were begun */
bool mislaid;           /* a record was deleted by mistake, once */
bool finished;

/* Somebody holds the row who has crashed. */
bool handler_gone, effect_gone;

inline crash() { crashes < CRASHES -> crashes++ }

/* A worker starts again under the same number: the attempt tells its lives apart. */
inline worker_crash() {
  crash();
  if :: handler_by == me -> handler_gone = true :: else fi;
  if :: effect_by == me -> effect_gone = true :: else fi
}

/* A delivery, sent again by the provider until it is acknowledged. */
proctype Delivery() {
  bool won;
again:
  won = false;
#ifdef SPLIT_TX
  atomic { won = !claimed; claimed = true }
  if
  :: atomic { crash(); goto again }
  :: skip
  fi;
  atomic { if :: won -> handler = PENDING :: else fi }
#else
  atomic { if :: !claimed -> claimed = true; handler = PENDING :: else fi }
#endif
  if
  :: atomic { crash(); goto again }
  :: acknowledged = true
  fi
}

/* What may be leased: pending, and held by nobody or by somebody whose lease has ended. */
proctype Worker(byte me) {
  byte attempt;
again:
  do
  :: atomic {
       handler == PENDING && handler_by == 0 ->
       if
       :: handler_attempt >= handler_max -> handler = DEAD; goto again
       :: else
       fi;
       handler_by = me; handler_gone = false;
#ifndef LATE_COUNT
       handler_attempt++;
#endif
       attempt = handler_attempt; runs++
     }
     if
     :: atomic { worker_crash(); goto again }
     :: skip
     fi;
     /* The handler's writes, what it enqueues and the fenced settle: one transaction. */
     atomic {
       if
#ifdef NO_FENCE
       :: handler != 0 ->
#else
       :: handler == PENDING && handler_by == me && handler_attempt == attempt ->
#endif
          records++;
          handler = DONE; handler_by = 0;
#ifdef LATE_COUNT
          handler_attempt++;
#endif
          if :: effect == 0 -> effect = PENDING :: else fi
       :: else
       fi
     }
  :: atomic {
       effect == PENDING && effect_by == 0 && effect_attempt < MAX_ATTEMPTS ->
       effect_by = me; effect_gone = false; effect_attempt++; attempt = effect_attempt
     }
     if
     :: atomic { worker_crash(); goto again }
     :: skip
     fi;
     /* The call, under a key that never changes; it may be late, when the row is another's or done. */
     atomic {
#ifdef NO_KEYS
       happened++
#else
       if :: !key_known -> happened++; key_known = true :: else fi
#endif
     }
     if
     :: atomic { worker_crash(); goto again }
     :: skip
     fi;
     atomic {
       if
#ifdef NO_FENCE
       :: true -> effect = DONE; effect_by = 0
#else
       :: effect == PENDING && effect_by == me && effect_attempt == attempt -> effect = DONE; effect_by = 0
       :: else
#endif
       fi
     }
  :: finished -> break
  od
}

/* A lease ends: that of a holder who has crashed always, and LATE times that of one who is only late. */
proctype Time() {
  byte late;
  do
  :: atomic { handler_by != 0 && handler == PENDING && (handler_gone || late < LATE) ->
       if :: handler_gone :: else -> late++ fi;
       handler_by = 0
     }
  :: atomic { effect_by != 0 && effect == PENDING && (effect_gone || late < LATE) ->
       if :: effect_gone :: else -> late++ fi;
       effect_by = 0
     }
#ifdef KEY_EXPIRES
  :: atomic { key_known && effect == PENDING -> key_known = false }
#endif
  :: finished -> break
  od
}

/* Somebody deletes the record, or restores an older table. */
proctype Mishap() {
  if
  :: atomic { handler == DONE && records == 1 -> records = 0; mislaid = true }
  :: finished
  fi
}

/*
 * The reconciler of each instance. A claim without its row is an alarm: one transaction for both rules it out. A record that is missing
 * has its row run again; between the look and the row's lock anything may happen.
 */
proctype Reconciler() {
  do
  :: atomic { claimed && handler == 0 -> assert(false) }
  :: handler == DONE && records == 0 && !reconciled ->
     atomic {
       if
#ifdef NO_RECHECK
       :: handler == DONE ->
#else
       :: handler == DONE && records == 0 && !reconciled ->
#endif
          handler = PENDING; handler_max = handler_attempt + MAX_ATTEMPTS; reconciled = true
       :: else
       fi
     }
  :: finished -> break
  od
}

init {
  atomic {
    run Delivery(); run Delivery();
    run Worker(1); run Worker(2);
    run Time(); run Mishap(); run Reconciler(); run Reconciler()
  }
}

/* Never, at any moment. */
active proctype Invariants() {
  do
  :: atomic {
       ((acknowledged && !claimed) || records > 1 || happened > 1 || runs > handler_attempt ||
        (handler == DONE && records == 0 && !mislaid) || (effect == DONE && happened == 0)) ->
       assert(false)
     }
  :: finished -> break
  od
}

/* When nothing moves any more: nothing is lost. `timeout` is true when no other process can take a step. */
active proctype End() {
  timeout ->
  assert(acknowledged && claimed && handler == DONE && records == 1 && effect == DONE && happened == 1
         && handler_by == 0 && effect_by == 0);
  finished = true
}
