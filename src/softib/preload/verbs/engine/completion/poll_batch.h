/*
 * CQs that this thread polls between ibv_start_poll and ibv_end_poll, holding their lock `polling`. If a thread
 * destroys or resets a QP meanwhile, it must not wait for itself. (mlx5 waits for itself, except for single-threaded
 * CQs, IBV_CREATE_CQ_ATTR_SINGLE_THREADED. Programs that work there must work here.)
 */
#ifndef SOFTIB_VERBS_BATCH_H
#define SOFTIB_VERBS_BATCH_H

#include <stdbool.h>

struct softib_cq;

#define VE_BATCHES 8 /* CQs that one thread can hold; more are not tracked */

extern __thread struct ve_batches {
    unsigned n;
    const struct softib_cq *cqs[VE_BATCHES];
} ve_batches;

static inline void ve_batch_begin(const struct softib_cq *cq)
{
    if (ve_batches.n < VE_BATCHES)
        ve_batches.cqs[ve_batches.n++] = cq;
}

static inline void ve_batch_end(const struct softib_cq *cq)
{
    for (unsigned i = ve_batches.n; i--;) {
        if (ve_batches.cqs[i] == cq) {
            ve_batches.cqs[i] = ve_batches.cqs[--ve_batches.n];
            return;
        }
    }
}

static inline bool ve_in_batch(const struct softib_cq *cq)
{
    for (unsigned i = 0; i < ve_batches.n; i++)
        if (ve_batches.cqs[i] == cq)
            return true;
    return false;
}

#endif
