/* States of a queue pair (IBA 10.3.1) and what a change of them takes. */
#ifndef SOFTIB_VERBS_ENGINE_MODIFY_H
#define SOFTIB_VERBS_ENGINE_MODIFY_H

#include "qp.h"

/* What a change of state takes; false: there is no such change. */
bool ve_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int *required, int *optional);
/* An XRC target may have been modified in another process. `q->lock` is held. */
void ve_catch_up(struct ve_qp *q);
int ve_modify(struct ve_qp *q, const struct ibv_qp_attr *attr, int mask);
int ve_qp_walk(struct ve_qp *q);

#endif
