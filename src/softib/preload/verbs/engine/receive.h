/* The responder's receives. The initiator calls these functions; `peer` is locked. */
#ifndef SOFTIB_VERBS_ENGINE_RECEIVE_H
#define SOFTIB_VERBS_ENGINE_RECEIVE_H

#include "copy.h"
#include "engine.h"

/* Return the next receive of `peer` without taking it. NULL: none. */
struct softib_receive *ve_next_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq);
/* Take the receive and complete it with `cqe`. */
void ve_take_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq, struct softib_cqe *cqe,
                     bool solicited);
/* Add a completion of `peer`'s receive side; if its CQ has overrun the QP fails. */
void ve_complete_receive(struct ve_engine *e, uint64_t cq, struct softib_qp *peer, const struct softib_cqe *cqe, bool solicited);
/* Split the receive's buffer into parts, up to `length` bytes. Keys of the rest are not checked, because an HCA does
 * not check memory that it does not write. False: a key is wrong. */
bool ve_receive_parts(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq,
                      const struct softib_receive *receive, uint64_t length, struct ve_part *parts, uint64_t *room);
/* Set the receive side to ERR: posted receives are flushed. */
void ve_break_receiver(struct ve_engine *e, struct softib_qp *peer);
struct softib_srq *ve_srq_of(struct ve_engine *e, const struct softib_qp *peer);

#endif
