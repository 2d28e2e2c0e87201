/*
 * Schedules requests that are executed later than they are posted: because of the wire's time (--pace), or because
 * immediate execution is not guaranteed (SOFTIB_STRICT). Both are off in most programs: `ve_modes` is 0 then, and
 * nothing here is called.
 */
#ifndef SOFTIB_VERBS_SQ_SCHED_H
#define SOFTIB_VERBS_SQ_SCHED_H

#include <stdbool.h>
#include <stdint.h>

struct ve_engine;
struct ve_qp;
struct ve_wr;
struct softib_cqe;

enum { VE_PACED = 1, VE_STRICT = 2 };

/* Which of them this program has: from SOFTIB_PACE and SOFTIB_STRICT when it joins the fabric. */
extern unsigned ve_modes;
void ve_modes_read(void);

/* The request in the last place of the send queue: when it will be executed. `q->lock` is held, as for all that take `q`. */
void ve_schedule(struct ve_qp *q, const struct ve_wr *wr);
/* Is it time for the first request? `now`: ns. */
bool ve_is_due(struct ve_qp *q, uint64_t now);
/* It ran, from `began` on; `done`: it is not to run again. */
void ve_ran(struct ve_qp *q, uint64_t began, bool done);
/* A completion whose time has not come: true, and it is kept. */
bool ve_hold_back(struct ve_qp *q, const struct softib_cqe *cqe);
/* Those whose time has come are completions now. */
void ve_let_go(struct ve_qp *q, uint64_t now);
bool ve_holds(const struct ve_qp *q);
/* RESET, and the end of the QP. */
void ve_sched_reset(struct ve_qp *q);
void ve_sched_free(struct ve_qp *q);

/* -- when somebody must look again: for timer.c -- */

/* A new look at everything begins. */
void ve_look_begins(struct ve_engine *e);
/* When the first thing of `q` is due. */
void ve_looked_at(struct ve_engine *e, struct ve_qp *q);
/* `q` could not be looked at: soon. */
void ve_missed(struct ve_engine *e);
/* A thread polls. False: nothing is due yet. */
bool ve_polled(struct ve_engine *e);
/*
 * A thread polls continuously and does all the work: ns for which the timer thread leaves it to that thread, since a
 * descheduled timer thread would hold its locks. 0: the timer thread checks itself.
 */
uint64_t ve_leaves_it(struct ve_engine *e);
/* How long the timer thread sleeps, in ns; 0: it decides as ever. */
uint64_t ve_nap(struct ve_engine *e, bool idle);
/* Something is due so soon that a sleep would be longer: it was waited for without. */
bool ve_waits_awake(struct ve_engine *e);
/*
 * An event of a peer's action is fetched. Deliver due completions first: a sender's completion, one ACK after its
 * data, must not come after the answer to the data. (That cannot happen on a wire, and perftest's ib_send_lat -e,
 * with one channel for both CQs, would lose count.)
 */
void ve_before_event(struct ve_engine *e);
/* Will the timer thread wake up in time without being woken? */
bool ve_wakes_in_time(struct ve_engine *e);
/* What is on its way gets a little time to arrive, for rare calls that look at what is there. True: nothing is any more. */
bool ve_settle(struct ve_engine *e);
/* The program is about to sleep until a completion comes. */
void ve_will_sleep(struct ve_engine *e);

#endif
