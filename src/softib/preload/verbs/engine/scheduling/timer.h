/* The timer thread: continues pending work while the program does not poll. */
#ifndef SOFTIB_VERBS_ENGINE_TIMER_H
#define SOFTIB_VERBS_ENGINE_TIMER_H

#include "../queue_pair/qp.h"

uint64_t ve_now_ns(void);

/* Return whether the timer thread runs. `e->lock` is held. */
void ve_timer_begin(struct ve_engine *e);
void ve_list(struct ve_qp *q);
void ve_unlist(struct ve_qp *q);
/* Continue all due work; called by poll_cq. */
void ve_progress(struct ve_engine *e);

#endif
