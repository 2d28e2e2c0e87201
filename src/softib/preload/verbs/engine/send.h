/* The send queue: requests are taken over, executed in order, and wait where they must. */
#ifndef SOFTIB_VERBS_ENGINE_SEND_H
#define SOFTIB_VERBS_ENGINE_SEND_H

#include <string.h>

#include "qp.h"

/* Takes a request over. 0, ENOMEM (queue full), EINVAL. `q->lock` is held. */
int ve_post(struct ve_qp *q, const struct ve_wr *wr);
/* Goes on with what waits. `q->lock` is held. */
void ve_go_on(struct ve_qp *q, uint64_t now_ns, bool woken);
/* The whole QP goes to ERR. `q->lock` is held. */
void ve_break(struct ve_qp *q);
/* The responder's half went to ERR: the sending half follows. `q->lock` is held. */
void ve_follow(struct ve_qp *q);

/* The completion of a request leads back to its QP, in whose process it is polled. */
static inline void ve_sq_mark(struct softib_cqe *cqe, struct ve_qp *q)
{
    cqe->imm = q->completed;
    memcpy((char *)cqe + offsetof(struct softib_cqe, sl), &q, sizeof q);
}

/* Requests that wait, and those whose completion was not polled yet. */
static inline uint32_t ve_sq_used(const struct ve_qp *q)
{
    return q->completed + (q->tail - q->head) - __atomic_load_n(&q->freed, __ATOMIC_RELAXED);
}

/* It is polled: its WQE is free, and those of all before it (IBA 10.8.5.1). The CQ's `polling` is held. */
static inline void ve_sq_free(const struct softib_cqe *cqe)
{
    struct ve_qp *q;

    if (cqe->opcode & IBV_WC_RECV)
        return;
    memcpy(&q, (const char *)cqe + offsetof(struct softib_cqe, sl), sizeof q);
    __atomic_store_n(&q->freed, cqe->imm, __ATOMIC_RELAXED);
}

#endif
