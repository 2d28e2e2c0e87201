/* Packets corrupted by bit errors, and the recovery of RC. */
#ifndef SOFTIB_VERBS_ENGINE_LOSS_H
#define SOFTIB_VERBS_ENGINE_LOSS_H

#include "outcome.h"
#include "queue_pair/qp.h"

enum ve_arrival { VE_ARRIVED, VE_TIMES_OUT };

/* Return whether packets may be lost; most paths have no bit errors. */
static inline bool ve_may_lose(const struct sv_flow *flow, unsigned direction)
{
    return flow->loss[direction][0] != 0 || flow->loss[direction][1] != 0;
}

/* Return whether one of the packets is lost without a retry (UC, UD). */
bool ve_corrupted(struct ve_qp *q, const struct sv_flow *flow, unsigned direction, struct sv_wire_size size);
/* RC: resend lost packets, and count them. */
enum ve_arrival ve_deliver_packets(struct ve_qp *q, unsigned direction, struct sv_wire_size size);

/*
 * A request was executed, and `answer` is sent back, which may be lost. In that case the requester's timer expires, and
 * ve_resend resends the request. The responder detects the duplicate by its PSN, does not execute it again, and repeats
 * its answer (9.7.5.1.1; of atomics, from stored results).
 */
struct ve_outcome ve_answer(struct ve_qp *q, struct ve_outcome outcome, struct sv_wire_size sent, struct sv_wire_size answer);
struct ve_outcome ve_resend(struct ve_qp *q);

#endif
