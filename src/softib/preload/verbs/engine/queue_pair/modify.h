/* States of a queue pair (IBA 10.3.1) and the attributes of each transition. */
#ifndef SOFTIB_VERBS_ENGINE_MODIFY_H
#define SOFTIB_VERBS_ENGINE_MODIFY_H

#include "qp.h"

/* Widths of the wire's fields: like mlx5's queue context, a QP keeps only these bits of a value. */
enum { VE_SL_BITS = 15, VE_TIMER_BITS = 31, VE_RETRY_BITS = 7, VE_PATH_BITS = 127 };

static inline struct ibv_ah_attr ve_path_bits(const struct ibv_ah_attr *ah)
{
    struct ibv_ah_attr held = *ah;

    held.sl &= VE_SL_BITS;
    held.src_path_bits &= VE_PATH_BITS;
    return held;
}

/* Return the attributes of a transition; false: no such transition. */
bool ve_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int *required, int *optional);
/* Update the state of an XRC target, which another process may have modified. `q->lock` is held. */
void ve_catch_up(struct ve_qp *q);
/* Modify a QP. Return 0, EINVAL, or EOPNOTSUPP if `mask` names an attribute that this interface does not have. */
int ve_modify(struct ve_qp *q, const struct ibv_qp_attr *attr, int mask);
int ve_qp_walk(struct ve_qp *q);

#endif
