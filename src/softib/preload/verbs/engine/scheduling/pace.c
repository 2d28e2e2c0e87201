/*
 * --pace: a message arrives when its bytes, including headers and CRCs, have passed every link of
 * its path, and completes when its acknowledgement arrives. READ responses use the reverse path.
 * Bytes are charged as they are counted (docs/verbs.md).
 *
 * A READ is executed when its request arrives, as the responder reads its memory from then on (9.7.5.1.2), and
 * completed when its responses have arrived. So its copy adds no time to the time on the wire, and later requests wait
 * for it only with a fence (10.8.3.3).
 *
 * The reverse path is also charged when the request is posted: the clock of a link cannot reserve a later time without
 * leaving the link idle until then. Repeated messages (RNR, bit errors) are charged once.
 */
#include "sq_sched.h"
#include "sq_sched_internal.h"

#include <stdlib.h>

static const struct { uint8_t there, back; bool reads; } kinds[] = {
    [IBV_WR_SEND] = { SV_MSG_SEND, SV_MSG_ACK, false },
    [IBV_WR_SEND_WITH_IMM] = { SV_MSG_SEND_IMM, SV_MSG_ACK, false },
    [IBV_WR_SEND_WITH_INV] = { SV_MSG_SEND_INV, SV_MSG_ACK, false },
    [IBV_WR_RDMA_WRITE] = { SV_MSG_WRITE, SV_MSG_ACK, false },
    [IBV_WR_RDMA_WRITE_WITH_IMM] = { SV_MSG_WRITE_IMM, SV_MSG_ACK, false },
    [IBV_WR_RDMA_READ] = { SV_MSG_READ_REQUEST, SV_MSG_READ_RESPONSE, true },
    [IBV_WR_ATOMIC_CMP_AND_SWP] = { SV_MSG_ATOMIC, SV_MSG_ATOMIC_RESPONSE, false },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = { SV_MSG_ATOMIC, SV_MSG_ATOMIC_RESPONSE, false },
    [IBV_WR_ATOMIC_WRITE] = { SV_MSG_ATOMIC_WRITE, SV_MSG_ACK, false },
};

/* Bytes on the wire, with the VCRC of each packet, which PortXmitData does not count. */
static uint64_t octets_of(unsigned message, unsigned flags, uint64_t payload, uint32_t mtu)
{
    struct sv_wire_size size = sv_wire_size_of(message, flags, payload, mtu);

    return 4 * size.dwords + 2 * size.packets;
}

static bool lay_one(struct sv_timed_path *timed, const struct sv_route_key *route, struct sv_path *path)
{
    return sv_path_walk(&sv_shared_fabric, route, path) == SV_OK && sv_timed_path_lay(timed, path->egress, path->links, route->sl);
}

/* Look up the links of a path, and of the path back to LID `answer`, the sender's (0: no answer). */
static bool lay_trip(struct ve_round_trip *trip, struct sv_route_key route, uint16_t answer, struct sv_path *path)
{
    struct sv_path back;

    if (!lay_one(&trip->there, &route, path))
        return false;
    if (!answer)
        return true;
    route.port = path->dest;
    route.dlid = answer;
    route.is_global = false;
    if (!lay_one(&trip->back, &route, &back))
        return false;
    if (back.choices > path->choices)
        path->choices = back.choices;
    return true;
}

/* Make room for `n` paths. False: out of memory. */
static bool room(struct ve_sq_sched *l, unsigned n)
{
    struct ve_round_trip *trips = n > l->trips_n ? realloc(l->trips, n * sizeof *trips) : l->trips;

    if (!trips)
        return false;
    l->trips = trips;
    while (l->trips_n < n)
        trips[l->trips_n++] = (struct ve_round_trip){ 0 };
    return true;
}

/* Look up the path of a multicast message: only the sender's link is paced. */
static bool lay_group(struct ve_qp *q, struct ve_sq_sched *l)
{
    uint32_t egress[1] = { q->s->port };

    return sv_timed_path_lay(&l->trips[0].there, egress, 1, l->sl);
}

static bool lay(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr)
{
    bool datagram = q->s->type == IBV_QPT_UD;
    uint16_t answer = (uint16_t)(sv_lid(&sv_shared_fabric, q->s->port) | q->attr.ah_attr.src_path_bits);
    struct sv_route_key route = q->route;
    struct sv_path path;

    route.port = q->s->port;
    route.pkey = q->s->pkey;
    route.number = 0;
    if (datagram) {
        route = (struct sv_route_key){ .port = q->s->port, .pkey = q->s->pkey, .dlid = wr->ah->attr.dlid, .sl = wr->ah->attr.sl };
    }
    l->dlid = route.dlid;
    l->sl = route.sl;
    l->laid_n = 0;
    if (!room(l, 1))
        return false;
    if (datagram && route.dlid >= SV_LID_MCAST_MIN) {
        l->laid_n = lay_group(q, l);
        return l->laid_n;
    }
    if (datagram || q->s->type == IBV_QPT_UC)
        answer = 0;
    if (!lay_trip(&l->trips[0], route, answer, &path))
        return false;
    l->keep_us = path.keep_us;
    l->laid_n = 1;
    for (unsigned n = path.choices; l->laid_n < n && room(l, n); l->laid_n++) {
        route.number = l->laid_n;
        if (!lay_trip(&l->trips[l->laid_n], route, answer, &path))
            break;
    }
    return true;
}

/* Return the path that the switches would choose at `now`; equal paths take turns. */
static unsigned choose(struct ve_sq_sched *l, uint64_t now)
{
    unsigned best = l->rotation++ % l->laid_n;

    if (l->laid_n < 2)
        return 0;
    if (l->keep_us && l->last_posted && l->chosen < l->laid_n &&
        (l->keep_us == UINT32_MAX || now - l->last_posted < 1000 * (uint64_t)l->keep_us))
        return l->chosen;
    for (unsigned i = 1, first = best; i < l->laid_n; i++) {
        unsigned trip = (first + i) % l->laid_n;

        if (sv_timed_path_is_freer(&l->trips[trip].there, &l->trips[best].there, now))
            best = trip;
    }
    return best;
}

/* Look up the current path; false: no path, which the request itself will report. */
static bool paths(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr)
{
    uint64_t epoch = sv_shared_fabric_epoch(&sv_shared_fabric);
    uint16_t dlid = wr->ah ? wr->ah->attr.dlid : q->route.dlid;
    uint8_t sl = wr->ah ? wr->ah->attr.sl : q->route.sl;

    if (l->epoch != epoch || l->dlid != dlid || l->sl != sl) {
        l->laid = lay(q, l, wr);
        l->epoch = epoch;
    }
    return l->laid;
}

void ve_pace(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr, struct ve_when *when)
{
    bool datagram = q->s->type == IBV_QPT_UD, reliable = !datagram && q->s->type != IBV_QPT_UC;
    unsigned grh = (datagram ? wr->ah && wr->ah->attr.is_global : q->route.is_global) ? SV_WIRE_GRH : 0;
    unsigned more = (datagram ? SV_WIRE_UD : 0) | (q->s->type == IBV_QPT_XRC_SEND ? SV_WIRE_XRC : 0);
    uint32_t mtu = datagram ? 4096 : 128u << q->route.mtu;
    uint64_t payload = 0, back;
    const struct ve_round_trip *trip;

    for (uint32_t i = 0; i < wr->sges; i++)
        payload += wr->sge[i].length;
    if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV || !paths(q, l, wr))
        return;
    l->chosen = when->path_number = (uint16_t)choose(l, when->posted);
    l->last_posted = when->posted;
    trip = &l->trips[when->path_number];
    when->octets = payload;
    when->run = sv_timed_path_pass(&trip->there, when->posted, octets_of(kinds[wr->opcode].there, grh | more, payload, mtu)) +
                trip->there.latency_ns;
    when->done = when->run;
    if (!reliable)
        return;
    back = sv_timed_path_pass(&trip->back, when->posted, octets_of(kinds[wr->opcode].back, grh, payload, mtu)) + trip->there.latency_ns;
    when->done = (back > when->run ? back : when->run) + trip->back.latency_ns;
    if (kinds[wr->opcode].reads && ve_modes & VE_STRICT)
        when->run = when->done; /* the data arrives no earlier than the completion */
    if (wr->flags & IBV_SEND_FENCE && when->run < l->last_read) {
        when->done += l->last_read - when->run;
        when->run = l->last_read;
    }
    if (kinds[wr->opcode].reads && when->done > l->last_read)
        l->last_read = when->done;
}
