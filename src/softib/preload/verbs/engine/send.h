/* The send queue: requests are accepted, executed in order, and wait if necessary. */
#ifndef SOFTIB_VERBS_ENGINE_SEND_H
#define SOFTIB_VERBS_ENGINE_SEND_H

#include <string.h>

#include "queue_pair/qp.h"

/* Accept a request. 0, ENOMEM (queue full), EINVAL. `q->lock` is held. */
int ve_post(struct ve_qp *q, const struct ve_wr *wr);
/* Continue with waiting requests. `q->lock` is held. */
void ve_go_on(struct ve_qp *q, uint64_t now_ns, bool woken);
/* Set the whole QP to ERR. `q->lock` is held. */
void ve_break(struct ve_qp *q);
/*
 * Write the completion of a request whose data has been delivered, before the completion of the receive. The peer may
 * answer as soon as it polls the receive, and on a wire an answer never overtakes the ACK. `q->lock` is held.
 */
void ve_complete_first(struct ve_qp *q, const struct ve_wr *wr);
/* The receive side is in ERR: set the send side to ERR. `q->lock` is held. */
void ve_follow(struct ve_qp *q);

/* The completion of a request points to its QP, in the process that polls it. */
static inline void ve_sq_mark(struct softib_cqe *cqe, struct ve_qp *q)
{
    cqe->imm = q->completed;
    memcpy((char *)cqe + offsetof(struct softib_cqe, sl), &q, sizeof q);
}

/* Return the number of requests that are pending, or whose completion was not polled yet. */
static inline uint32_t ve_sq_used(const struct ve_qp *q)
{
    return q->completed + (q->tail - q->head) - __atomic_load_n(&q->freed, __ATOMIC_RELAXED);
}

#define VE_SHARED_COUNT 1 /* in softib_cqe.freed: several CQs increment the counter */

/*
 * Called when a completion was polled or purged: free the queue entry of its request (IBA 10.8.5.1), for a send also
 * those of all earlier requests. As in mlx5 (providers/mlx5/cq.c), a receive keeps its entry until its completion is
 * polled. The CQ's `polling` is held.
 */
static inline void ve_free_place(const struct softib_cqe *cqe)
{
    struct ve_qp *q;
    uint64_t count = 0;

    if (!(cqe->opcode & IBV_WC_RECV)) {
        memcpy(&q, (const char *)cqe + offsetof(struct softib_cqe, sl), sizeof q);
        __atomic_store_n(&q->freed, cqe->imm, __ATOMIC_RELAXED);
    } else if (!(cqe->flags & IBV_WC_TM_MATCH)) {
        uint32_t *freed;

        memcpy(&count, cqe->freed, sizeof cqe->freed);
        freed = (uint32_t *)(uintptr_t)(count & ~(uint64_t)VE_SHARED_COUNT);
        if (freed && count & VE_SHARED_COUNT)
            __atomic_fetch_add(freed, 1, __ATOMIC_RELAXED);
        else if (freed)
            __atomic_store_n(freed, *freed + 1, __ATOMIC_RELAXED);
    }
}

#endif
