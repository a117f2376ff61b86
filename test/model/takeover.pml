/*
 * Takeover: two processes that hold a leased row each, and a third that looks at their locks. Connections are cut, a process dies, the
 * server is restarted, in any order.
 *
 * Time is what others could do meanwhile. A second of a free lock is over only when its living owner has withdrawn it, has locked anew or
 * has aborted its run; after a restart that takes an owner up to ten seconds.
 *
 * Defined from outside (see model.ts), each makes a mutant that must be caught:
 *   NO_WITHDRAW  a process that loses its connection does nothing about it
 *   SHORT_WAIT   a lock that this session has never seen held counts after a second too
 *   NO_RESET     a new session remembers what the former one has seen
 *   STALE        the take does not look again
 */

#define N 2
#define CUTS 2

bool alive[N] = true;
bool row[N] = true;             /* leased, and being run where the process lives */
bool locked[N] = true;
bool registered[N] = true;
bool exposed[N];                /* lost its lock, and has done nothing about it yet */
bool slow[N];                   /* by a restart */

/* What the looker's session has seen. */
bool was_held[N], was_free[N];

byte cuts;
bool restarted, died, finished;

#define A_SECOND(i)    (!exposed[i] || slow[i])
#define TEN_SECONDS(i) (!exposed[i])

proctype Owner(byte i) {
  do
  :: atomic { alive[i] && locked[i] && cuts < CUTS -> cuts++; locked[i] = false; exposed[i] = true }
#ifdef NO_WITHDRAW
  :: atomic { alive[i] && exposed[i] -> exposed[i] = false }
#else
  /* Over the pool; or, where nothing can be reached, the run is aborted. */
  :: atomic { alive[i] && exposed[i] -> registered[i] = false; exposed[i] = false; slow[i] = false }
  :: atomic { alive[i] && exposed[i] -> row[i] = false; exposed[i] = false; slow[i] = false }
#endif
  /* Another session, and another key: what was seen of the former one says nothing. */
  :: atomic { alive[i] && !locked[i] ->
       locked[i] = true; registered[i] = true; exposed[i] = false; slow[i] = false;
       was_held[i] = false; was_free[i] = false
     }
  :: atomic { alive[i] && !died -> died = true; alive[i] = false; locked[i] = false; exposed[i] = false }
  :: finished -> break
  od
}

proctype Looker(byte i) {
  do
  :: atomic { registered[i] && locked[i] && (!was_held[i] || was_free[i]) -> was_held[i] = true; was_free[i] = false }
  :: atomic { registered[i] && !locked[i] && !was_free[i] -> was_free[i] = true }
  :: atomic { !registered[i] && (was_held[i] || was_free[i]) -> was_held[i] = false; was_free[i] = false }
  :: atomic {
       was_free[i] && row[i] &&
#ifndef STALE
       registered[i] && !locked[i] &&
#endif
#ifdef SHORT_WAIT
       A_SECOND(i) ->
#else
       (was_held[i] -> A_SECOND(i) : TEN_SECONDS(i)) ->
#endif
       assert(!alive[i]);
       row[i] = false
     }
  :: finished -> break
  od
}

/* Every session ends, the looker's too. */
proctype Restart() {
  byte i;
  if
  :: atomic {
       !restarted ->
       restarted = true;
       for (i : 0 .. N - 1) {
         if
         :: alive[i] -> locked[i] = false; exposed[i] = true; slow[i] = true
         :: else
         fi;
#ifndef NO_RESET
         was_held[i] = false; was_free[i] = false
#endif
       }
     }
  :: finished
  fi
}

/* One that died while it was not registered: its lease ends. */
proctype Lease(byte i) {
  do
  :: atomic { !alive[i] && !registered[i] && row[i] -> row[i] = false }
  :: finished -> break
  od
}

init {
  atomic {
    run Owner(0); run Owner(1); run Looker(0); run Looker(1); run Lease(0); run Lease(1); run Restart()
  }
}

/* When nothing moves any more: what a dead process held is not held any more. */
active proctype End() {
  timeout ->
  assert((alive[0] || !row[0]) && (alive[1] || !row[1]));
  finished = true
}
