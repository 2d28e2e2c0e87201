/* Small writes with the same target as the last one. */
#ifndef SOFTIB_VERBS_ENGINE_WRITE_FASTPATH_H
#define SOFTIB_VERBS_ENGINE_WRITE_FASTPATH_H

#include "queue_pair/qp.h"

bool ve_write_fast(struct ve_qp *q, const struct ve_wr *wr);
static inline bool ve_is_write_fast(const struct ve_qp *q, const struct ve_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE && wr->flags & IBV_SEND_INLINE && wr->sges == 1 && q->write_target.rkey && wr->rkey == q->write_target.rkey;
}

#endif
