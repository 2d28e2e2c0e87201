/*
 * --pace: a message arrives when its bytes, including headers and CRCs, have passed every link of
 * its path, and completes when its acknowledgement arrives. READ responses use the reverse path.
 * Bytes are charged as they are counted (docs/verbs.md).
 *
 * A READ is executed when its request arrives, as the responder reads its memory from then on
 * (9.7.5.1.2), and completed when its responses have arrived. So its copy adds no time to the
 * wire's, and later requests wait for it only with a fence (10.8.3.3).
 *
 * The reverse path is also charged when the request is posted: a link reserved for a future message would be idle
 * until then. Repeated messages (RNR, bit errors) are charged once.
 */
#include "sq_sched.h"
#include "sq_sched_internal.h"

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

static bool lay_one(struct sv_timed_path *timed, const struct sv_route_key *route, uint32_t *dest)
{
    struct sv_path path;

    if (sv_path_walk(&sv_shared_fabric, route, &path) != SV_OK)
        return false;
    *dest = path.dest;
    return sv_timed_path_lay(timed, path.egress, path.links, route->sl);
}

/* Multicast: only the sender's link. */
static bool lay_group(struct ve_qp *q, struct ve_sq_sched *l)
{
    uint32_t egress[1] = { q->s->port };

    sv_timed_path_free(&l->paths[1]);
    return sv_timed_path_lay(&l->paths[0], egress, 1, l->sl);
}

static bool lay(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr)
{
    bool datagram = q->s->type == IBV_QPT_UD;
    struct sv_route_key route = q->route;
    uint32_t dest, none;

    route.port = q->s->port;
    route.pkey = q->s->pkey;
    if (datagram) {
        route = (struct sv_route_key){ .port = q->s->port, .pkey = q->s->pkey, .dlid = wr->ah->attr.dlid, .sl = wr->ah->attr.sl };
    }
    l->dlid = route.dlid;
    l->sl = route.sl;
    if (datagram && route.dlid >= SV_LID_MCAST_MIN)
        return lay_group(q, l);
    if (!lay_one(&l->paths[0], &route, &dest))
        return false;
    if (datagram || q->s->type == IBV_QPT_UC)
        return true;
    route.port = dest;
    route.dlid = (uint16_t)(sv_lid(&sv_shared_fabric, q->s->port) | q->attr.ah_attr.src_path_bits);
    route.is_global = false;
    return lay_one(&l->paths[1], &route, &none);
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

    for (uint32_t i = 0; i < wr->sges; i++)
        payload += wr->sge[i].length;
    if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV || !paths(q, l, wr))
        return;
    when->octets = payload;
    when->run = sv_timed_path_pass(&l->paths[0], when->posted, octets_of(kinds[wr->opcode].there, grh | more, payload, mtu)) +
                l->paths[0].latency_ns;
    when->done = when->run;
    if (!reliable)
        return;
    back = sv_timed_path_pass(&l->paths[1], when->posted, octets_of(kinds[wr->opcode].back, grh, payload, mtu)) + l->paths[0].latency_ns;
    when->done = (back > when->run ? back : when->run) + l->paths[1].latency_ns;
    if (kinds[wr->opcode].reads && ve_modes & VE_STRICT)
        when->run = when->done; /* the data arrives no earlier than that */
    if (wr->flags & IBV_SEND_FENCE && when->run < l->last_read) {
        when->done += l->last_read - when->run;
        when->run = l->last_read;
    }
    if (kinds[wr->opcode].reads && when->done > l->last_read)
        l->last_read = when->done;
}
