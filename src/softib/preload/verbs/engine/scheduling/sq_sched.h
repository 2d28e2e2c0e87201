/*
 * Schedules requests that are executed later than they are posted, because of the time on the wire (--pace), or because
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

/* Which of the two modes this program uses: read from SOFTIB_PACE and SOFTIB_STRICT when it joins the fabric. */
extern unsigned ve_modes;
void ve_modes_read(void);

/* Schedule the last request of the send queue. `q->lock` is held, as for all functions that take
 * `q`. */
void ve_schedule(struct ve_qp *q, const struct ve_wr *wr);
/* Return whether the first request is due. `now`: ns. */
bool ve_is_due(struct ve_qp *q, uint64_t now);
/* Paced: number of the path that the current request takes (queue_pair/flows.h). */
unsigned ve_scheduled_path(const struct ve_qp *q);
/* The request was executed, starting at `began`; `done`: it will not run again. */
void ve_ran(struct ve_qp *q, uint64_t began, bool done);
/* Keep a completion that is not due yet (true). */
bool ve_hold_back(struct ve_qp *q, const struct softib_cqe *cqe);
/* Deliver the completions that are due. */
void ve_let_go(struct ve_qp *q, uint64_t now);
bool ve_holds(const struct ve_qp *q);
/* Discard the schedule of a QP that goes to RESET or is destroyed. */
void ve_sched_reset(struct ve_qp *q);
void ve_sched_free(struct ve_qp *q);

/* -- the next time to check, for timer.c -- */

/* Begin a new pass over all QPs. */
void ve_look_begins(struct ve_engine *e);
/* Note when the first work of `q` is due. */
void ve_looked_at(struct ve_engine *e, struct ve_qp *q);
/* Called when `q` was locked: check again soon. */
void ve_missed(struct ve_engine *e);
/* Called when a thread polls. False: nothing is due yet. */
bool ve_polled(struct ve_engine *e);
/*
 * A thread that polls continuously does all the work. Return the time in ns for which the timer thread leaves the work
 * to that thread; 0: the timer thread does the work itself. (If the timer thread worked too, it could be descheduled
 * while it has the locks that the polling thread needs.)
 */
uint64_t ve_leaves_it(struct ve_engine *e);
/* Return the time in ns for which the timer thread sleeps; 0: its default. */
uint64_t ve_nap(struct ve_engine *e, bool idle);
/* Return whether work is due sooner than the shortest sleep, so that the thread must wait for it without sleeping. */
bool ve_waits_awake(struct ve_engine *e);
/*
 * Called when the program fetches an event that a peer caused. Deliver due completions first: a sender's completion
 * arrives one ACK after its data, and must not come after the answer to the data. (On a wire it cannot come later;
 * perftest's ib_send_lat -e, with one channel for both CQs, would lose count.)
 */
void ve_before_event(struct ve_engine *e);
/* Return whether the timer thread wakes up in time by itself. */
bool ve_wakes_in_time(struct ve_engine *e);
/* Wait briefly for messages in transit; used by rare calls that inspect the state. True: none are left. */
bool ve_settle(struct ve_engine *e);
/* Called when the program is about to sleep until a completion arrives. */
void ve_will_sleep(struct ve_engine *e);

#endif
