/*
 * Packets that bit errors spoil. A receiver drops one whose CRC is wrong (IBA 7.8); a reliable requester sends it and all behind
 * it again when a later packet makes the responder NAK (9.7.5.2.4), or when its timer expires because it was the last.
 */
#include "engine.h"

#include <math.h>

/* xorshift64 (Marsaglia, 2003), seeded by the QPN: the same program loses the same packets. */
static double roll(struct ve_qp *q)
{
    uint64_t x = q->dice ? q->dice : 0x9E3779B97F4A7C15u ^ ((uint64_t)q->s->qpn << 20);

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    q->dice = x;
    return (double)(x >> 11) * 0x1p-53;
}

static double per_packet(const struct sv_flow *flow, unsigned way, struct sv_words words)
{
    double octets = 4.0 * (double)words.words / (double)words.packets + 2; /* with the VCRC */

    return flow->loss[way][0] + flow->loss[way][1] * octets;
}

bool ve_spoiled(struct ve_qp *q, const struct sv_flow *flow, unsigned way, struct sv_words words)
{
    return ve_may_lose(flow, way) && roll(q) >= exp(-per_packet(flow, way, words) * (double)words.packets);
}

enum ve_arrival ve_deliver_packets(struct ve_qp *q, unsigned way, struct sv_words words)
{
    double mean = per_packet(&q->flow, way, words);
    uint64_t left = words.packets;
    unsigned again = 0;

    for (;;) {
        /* Packets before the first that is spoiled: geometric. */
        double intact = floor(-log(1 - roll(q)) / mean);
        struct sv_words rest;

        if (intact >= (double)left)
            return VE_ARRIVED;
        if ((uint64_t)intact == left - 1)
            return VE_TIMES_OUT; /* nothing behind it tells the responder */
        again = intact >= 1 ? 1 : again + 1; /* an ACK of the first ones begins the count anew (9.9.2.4.1) */
        if (again > q->retry_cnt)
            return VE_TIMES_OUT;
        left -= (uint64_t)intact;
        rest = (struct sv_words){ left, words.words * left / words.packets };
        sv_flow_count(&q->flow, way, rest);
        sv_flow_count(&q->flow, !way, sv_wire_words(SV_MSG_ACK, 0, 0, 4096)); /* the NAK */
    }
}
