/*
 * Packets that bit errors corrupt. A receiver drops a packet whose CRC is wrong (IBA 7.8). If a later packet arrives,
 * the responder sends a NAK, and a reliable requester resends the dropped packet and all later ones (9.7.5.2.4). If the
 * dropped packet was the last one, or if the answer was lost, the requester resends when its timer expires.
 */
#include "loss.h"
#include "queue_pair/modify.h"
#include "../memory/hazards.h"
#include "../memory/heap/number_table.h"

#include <math.h>

/* xorshift64 (Marsaglia, 2003), seeded by the QPN, so that the same program loses the same packets. */
static double roll(struct ve_qp *q)
{
    uint64_t x = q->rng_state ? q->rng_state : 0x9E3779B97F4A7C15u ^ ((uint64_t)q->s->qpn << 20);

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    q->rng_state = x;
    return (double)(x >> 11) * 0x1p-53;
}

static double per_packet(const struct sv_flow *flow, unsigned direction, struct sv_wire_size size)
{
    double octets = 4.0 * (double)size.dwords / (double)size.packets + 2; /* with the VCRC */

    return flow->loss[direction][0] + flow->loss[direction][1] * octets;
}

/* Count 1 + `more` packets as corrupted; `more` is an expected value, and is rounded up or down at random. */
static void corrupt(struct ve_qp *q, const struct sv_flow *flow, unsigned direction, double more)
{
    sv_flow_corrupt(flow, direction, 1 + (uint32_t)fmin(more + roll(q), 1e9));
}

bool ve_corrupted(struct ve_qp *q, const struct sv_flow *flow, unsigned direction, struct sv_wire_size size)
{
    double mean, all;

    if (!ve_may_lose(flow, direction))
        return false;
    mean = per_packet(flow, direction, size);
    all = -expm1(-mean * (double)size.packets);
    if (roll(q) >= all)
        return false;
    corrupt(q, flow, direction, -expm1(-mean) * (double)size.packets / all - 1); /* given that at least one is
                                                                                  * corrupted */
    return true;
}

enum ve_arrival ve_deliver_packets(struct ve_qp *q, unsigned direction, struct sv_wire_size size)
{
    double mean = per_packet(&q->flow, direction, size);
    uint64_t left = size.packets;
    unsigned retries = 0;

    for (;;) {
        /* The number of packets before the first corrupted one has a geometric distribution. */
        double intact = floor(-log(1 - roll(q)) / mean);
        struct sv_wire_size rest;

        if (intact >= (double)left)
            return VE_ARRIVED;
        corrupt(q, &q->flow, direction, -expm1(-mean) * ((double)left - intact - 1)); /* later packets were sent as well */
        if ((uint64_t)intact == left - 1)
            return VE_TIMES_OUT; /* no later packet makes the responder send a NAK */
        retries = intact >= 1 ? 1 : retries + 1; /* an ACK of the earlier packets restarts the count (9.9.2.4.1) */
        if (retries > q->retry_cnt)
            return VE_TIMES_OUT;
        left -= (uint64_t)intact;
        rest = (struct sv_wire_size){ left, size.dwords * left / size.packets };
        sv_flow_count(&q->flow, direction, rest);
        sv_flow_count(&q->flow, !direction, sv_wire_size_of(SV_MSG_ACK, 0, 0, 4096)); /* the NAK */
    }
}

static struct ve_outcome silence(void)
{
    return (struct ve_outcome){ .wait = VE_LOST, .corrupted = true };
}

struct ve_outcome ve_answer(struct ve_qp *q, struct ve_outcome outcome, struct sv_wire_size sent, struct sv_wire_size answer)
{
    if (!ve_corrupted(q, &q->flow, 1, answer))
        return outcome;
    q->executed = true;
    q->sent = sent;
    q->answer = answer;
    q->answer_len = outcome.byte_len;
    return silence();
}

/* Return whether the responder still exists, so that it can detect a duplicate. */
static bool remembers(struct ve_qp *q)
{
    uint64_t *hazard;
    const struct softib_qp *peer = vm_number_hold(&q->e->w, q->s->dest_qpn, &hazard);
    bool right;

    if (!peer)
        return false;
    right = peer->is == SOFTIB_IS_QP && peer->dest_qpn == q->s->qpn && peer->state >= IBV_QPS_RTR && peer->state < IBV_QPS_ERR;
    vm_hazard_end(hazard);
    return right;
}

struct ve_outcome ve_resend(struct ve_qp *q)
{
    struct ve_outcome outcome = { .status = IBV_WC_SUCCESS, .byte_len = q->answer_len };

    if (q->timeout && q->resends >= q->retry_cnt)
        return silence(); /* retries exhausted */
    if (sv_flow_is_stale(&q->flow))
        ve_qp_walk(q);
    sv_flow_count(&q->flow, 0, q->sent);
    if (q->flow.reason[0] != SV_OK || q->flow.reason[1] != SV_OK || !remembers(q))
        return silence();
    if (ve_may_lose(&q->flow, 0) && ve_deliver_packets(q, 0, q->sent) == VE_TIMES_OUT)
        return silence();
    sv_flow_count(&q->flow, 1, q->answer);
    if (ve_corrupted(q, &q->flow, 1, q->answer))
        return silence();
    q->executed = false;
    return outcome;
}
