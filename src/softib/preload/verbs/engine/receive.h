/* The responder's receives. The initiator does all of this; `peer` is locked. */
#ifndef SOFTIB_VERBS_ENGINE_RECEIVE_H
#define SOFTIB_VERBS_ENGINE_RECEIVE_H

#include "copy.h"
#include "engine.h"

/* The next receive of `peer`, looked at but not taken. NULL: there is none. */
struct softib_receive *ve_next_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq);
/* Takes it and completes it as `cqe` says. */
void ve_take_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq, struct softib_cqe *cqe,
                     bool solicited);
/* A completion of `peer`'s receiving half; where its CQ has overrun the QP breaks. */
void ve_complete_receive(struct ve_engine *e, uint64_t cq, struct softib_qp *peer, const struct softib_cqe *cqe, bool solicited);
/* Its buffer as parts, up to `length` bytes: an HCA does not check keys of memory that it does not write. False: a
 * key is wrong. */
bool ve_receive_parts(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq,
                      const struct softib_receive *receive, uint64_t length, struct ve_part *parts, uint64_t *room);
/* The receiving half goes to ERR: posted receives are flushed. */
void ve_break_receiver(struct ve_engine *e, struct softib_qp *peer);
struct softib_srq *ve_srq_of(struct ve_engine *e, const struct softib_qp *peer);

#endif
