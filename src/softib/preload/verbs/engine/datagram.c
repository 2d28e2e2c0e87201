/* UD: one packet to one QP, or to the members of a multicast group. IBA 9.8.4, 10.5. */
#include "completion/complete.h"
#include "loss.h"
#include "queue_pair/members.h"
#include "receive.h"
#include "request.h"
#include "send.h"
#include "queue_pair/strict.h"
#include "../memory/hazards.h"
#include "../memory/locks.h"
#include "../memory/heap/number_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>

#define GRH 40

/* RoCE v2 over IPv4: its header fills the second half of the GRH's room (IBA annex A17.4.3, RFC 791). */
static void fill_ipv4(const struct ve_ah *ah, uint16_t length, const uint8_t sgid[16], char grh[GRH])
{
    struct iphdr ip = {
        .version = 4, .ihl = 5, .tos = ah->attr.grh.traffic_class, .tot_len = htons((uint16_t)(sizeof ip + length)),
        .frag_off = htons(IP_DF), .ttl = ah->attr.grh.hop_limit, .protocol = IPPROTO_UDP,
    };
    uint16_t halves[sizeof ip / 2];
    uint32_t sum = 0;

    memcpy(&ip.saddr, sgid + 12, 4);
    memcpy(&ip.daddr, ah->attr.grh.dgid.raw + 12, 4);
    memcpy(halves, &ip, sizeof ip);
    for (unsigned i = 0; i < sizeof ip / 2; i++)
        sum += halves[i];
    sum = (sum & 0xFFFF) + (sum >> 16);
    ip.check = (uint16_t)~(sum + (sum >> 16));
    memcpy(grh + GRH - sizeof ip, &ip, sizeof ip);
}

/* Return the SL of a completion. On Ethernet this field has the kind of network header, as in mlx5, and UCX reads
 * it. */
static uint8_t sl_of(const struct ve_ah *ah)
{
    enum { ROCE_V1, ROCE_V2_IPV6, ROCE_V2_IPV4 }; /* as in mlx5's completions */
    uint8_t sgid[16];

    if (!sv_is_ethernet(&sv_shared_fabric, ah->port))
        return ah->attr.sl;
    sv_port_gid(ah->port, ah->attr.grh.sgid_index, sgid);
    return !sv_roce_is_v2(ah->attr.grh.sgid_index) ? ROCE_V1 : sv_gid_is_ipv4(sgid) ? ROCE_V2_IPV4 : ROCE_V2_IPV6;
}

/* Write the GRH that the receiver gets (8.3). Without a GRH, the 40 bytes are undefined. */
static void fill_grh(const struct ve_ah *ah, uint64_t payload, char grh[GRH])
{
    const struct ibv_global_route *route = &ah->attr.grh;
    bool is_v2 = sv_is_ethernet(&sv_shared_fabric, ah->port) && sv_roce_is_v2(route->sgid_index);
    uint32_t first = htonl(6u << 28 | (uint32_t)route->traffic_class << 20 | (route->flow_label & 0xFFFFF));
    uint16_t octets = (uint16_t)(12 + 8 + ((payload + 3) & ~3ull) + 4 + (is_v2 ? sizeof(struct udphdr) : 0)); /* BTH to ICRC */
    uint16_t length = htons(octets);
    uint8_t sgid[16];

    memset(grh, 0, GRH);
    if (!ah->attr.is_global)
        return;
    sv_port_gid(ah->port, route->sgid_index, sgid);
    if (is_v2 && sv_gid_is_ipv4(sgid)) {
        fill_ipv4(ah, octets, sgid, grh);
        return;
    }
    memcpy(grh, &first, 4);
    memcpy(grh + 4, &length, 2);
    grh[6] = is_v2 ? IPPROTO_UDP : 0x1B; /* IBA's transport */
    grh[7] = (char)route->hop_limit;
    memcpy(grh + 8, sgid, 16);
    memcpy(grh + 24, route->dgid.raw, 16);
}

/*
 * Called if the receiver does not serve copies yet, because it started before any program of another namespace. It will
 * start to serve at its next poll; if it sleeps in its completion channel, the event of this datagram wakes it.
 */
static int put_to_sleeper(struct ve_engine *e, const struct softib_qp *peer, const struct ve_part *parts, unsigned parts_n,
                          const struct iovec *iov, unsigned n)
{
    const struct softib_cq *cq = ve_cq(e, peer->recv_cq);

    if (!cq->channel || !cq->armed)
        return -EXDEV;
    ve_notify(e, cq->process, cq->channel, "", 1);
    return ve_put(e, peer->process, parts, parts_n, iov, n);
}

/* Deliver to `peer`. A datagram with an error is dropped without a NAK. */
static void arrive(struct ve_qp *q, const struct ve_wr *wr, struct softib_qp *peer, const struct iovec *iov, unsigned n,
                   uint64_t length)
{
    struct ve_engine *e = q->e;
    struct softib_srq *srq = ve_srq_of(e, peer);
    struct softib_receive *receive;
    struct ve_part parts[VE_SGES];
    uint64_t room = 0;
    int error = -EFAULT;
    struct softib_cqe cqe = {
        .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV, .byte_len = (uint32_t)length, .src_qp = q->s->qpn,
        .slid = (uint16_t)(sv_source_lid(&sv_shared_fabric, q->s->port) | wr->ah->attr.src_path_bits), .sl = sl_of(wr->ah),
        .flags = wr->ah->attr.is_global ? IBV_WC_GRH : 0, .pkey_index = peer->pkey_index,
        .path_bits = (uint8_t)(wr->ah->attr.dlid < SV_LID_MCAST_MIN
                                   ? wr->ah->attr.dlid & ((1u << sv_lmc(&sv_shared_fabric, peer->port)) - 1) : 0),
    };

    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        cqe.imm = wr->imm;
        cqe.flags |= IBV_WC_WITH_IMM;
    }
    if (srq)
        vm_lock(&e->w, &srq->lock);
    receive = ve_next_receive(e, peer, srq);
    if (receive && ve_receive_parts(e, peer, srq, receive, length, parts, &room) && length <= room) {
        error = ve_put(e, peer->process, parts, receive->sges, iov, n);
        if (error == -EXDEV)
            error = put_to_sleeper(e, peer, parts, receive->sges, iov, n);
    }
    if (!error) {
        ve_complete_first(q, wr);
        ve_take_receive(e, peer, srq, &cqe, wr->flags & IBV_SEND_SOLICITED);
    } else if (ve_is_strict()) {
        ve_warn("a datagram of %llu bytes from QP %u was dropped at QP %u: %s", (unsigned long long)length - GRH, q->s->qpn, peer->qpn,
                !receive ? "no receive is posted" : length > room && length - GRH <= room
                    ? "the receive has no room for the 40 bytes of the GRH, which are always reserved" : "the receive is too small");
    }
    if (srq)
        vm_unlock(&srq->lock);
}

/* Look up the QP, and do the checks of its port (9.6.1). */
static void to_qp(struct ve_qp *q, const struct ve_wr *wr, uint32_t qpn, uint32_t port, const struct iovec *iov, unsigned n,
                  uint64_t length)
{
    uint32_t qkey = wr->qkey & 0x80000000u ? q->s->qkey : wr->qkey; /* 10.2.5: the Q_Key of the QP */
    uint64_t *hazard;
    struct softib_qp *peer = vm_number_hold(&q->e->w, qpn, &hazard);

    if (!peer)
        return;
    if (peer->is == SOFTIB_IS_QP) {
        vm_lock(&q->e->w, &peer->lock);
        if (peer->type == IBV_QPT_UD && peer->port == port &&
            (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS || peer->state == IBV_QPS_SQD ||
             peer->state == IBV_QPS_SQE)) {
            sv_port_pkey(peer->port, peer->pkey_index, &peer->pkey);
            if (!sv_pkeys_match(peer->pkey, q->s->pkey))
                sv_pkey_violation(port, &q->route, q->s->pkey, (uint32_t[2]){ q->s->qpn, qpn });
            else if (peer->qkey == qkey)
                arrive(q, wr, peer, iov, n, length);
            else
                sv_qkey_violation(port, &q->route, qkey, (uint32_t[2]){ q->s->qpn, qpn });
            if (peer->qkey != qkey && ve_is_strict())
                ve_warn("a datagram from QP %u was dropped at QP %u: its Q_Key is 0x%x, the QP's is 0x%x", q->s->qpn, qpn, qkey,
                        peer->qkey);
        } else if (ve_is_strict()) {
            ve_warn("a datagram from QP %u was dropped: QP %u %s", q->s->qpn, qpn,
                    peer->type != IBV_QPT_UD ? "is no UD QP" : peer->port != port ? "is on another port"
                        : sv_pkeys_match(peer->pkey, q->s->pkey) ? "does not receive (it is before RTR, or in error)"
                        : "has another P_Key");
        }
        vm_unlock(&peer->lock);
    }
    vm_hazard_end(hazard);
}

/* Deliver to every member whose port a copy reaches, except the sender. */
static void to_group(struct ve_qp *q, const struct ve_wr *wr, const struct iovec *iov, unsigned n, uint64_t length)
{
    struct ve_engine *e = q->e;
    struct softib_member *members = vm_members(&e->w);
    uint32_t high = __atomic_load_n(&vm_head(&e->w)->member_high, __ATOMIC_ACQUIRE);
    const struct ve_ah *ah = wr->ah;

    for (uint32_t i = 0; i < high; i++) {
        struct softib_member m;
        bool reached;

        if (!ve_read_member(&members[i], &m) || m.qpn == q->s->qpn || (m.mlid && m.mlid != ah->attr.dlid) ||
            (ah->attr.is_global && memcmp(m.gid, ah->attr.grh.dgid.raw, 16)))
            continue;
        reached = m.port == q->s->port;
        for (uint32_t d = 0; !reached && d < ah->tree.dests_n; d++)
            reached = ah->tree.dests[d] == m.port;
        if (reached)
            to_qp(q, wr, m.qpn, m.port, iov, n, length);
    }
}

static void walk(struct ve_qp *q, struct ve_ah *ah)
{
    ah->attr.dlid = sv_address_lid(ah->port, ah->attr.grh.dgid.raw, ah->attr.dlid);
    struct sv_route_key route = {
        .port = q->s->port, .dlid = ah->attr.dlid, .sl = ah->attr.sl, .is_global = ah->attr.is_global,
    };
    uint32_t qp[2] = { q->s->qpn, 0 };

    sv_port_pkey(q->s->port, q->s->pkey_index, &q->s->pkey); /* the SM may have changed the table */
    route.pkey = q->s->pkey;
    memcpy(route.dgid, ah->attr.grh.dgid.raw, 16);
    q->route = route;
    if (!sv_flow_is_stale(&ah->flow) && ah->pkey == q->s->pkey && ah->flow.cell)
        return;
    if (ah->attr.dlid >= SV_LID_MCAST_MIN && ah->attr.dlid != SV_LID_PERMISSIVE) {
        sv_tree_free(&ah->tree);
        if (!sv_tree_walk(&sv_shared_fabric, &route, &ah->tree))
            sv_flow_tree(&ah->flow, &ah->tree, &route, qp);
    } else {
        sv_flow_walk(&ah->flow, &route, NULL, qp);
    }
    ah->pkey = q->s->pkey;
}

static struct ve_outcome datagram(struct ve_qp *q, const struct ve_wr *wr)
{
    struct iovec iov[VE_SGES + 2];
    char grh[GRH];
    unsigned n;
    uint64_t length;
    struct ve_ah *ah = wr->ah;
    struct sv_wire_size size;
    enum ibv_wc_status status = ve_gather(q, wr, 0, iov + 1, &n, &length);
    uint32_t mtu = 128u << (sv_port_info(&sv_shared_fabric, q->s->port)[SV_NEIGHBOR_MTU_AT] >> 4);

    if (status != IBV_WC_SUCCESS)
        return ve_done(status);
    if (length > mtu)
        return ve_done(IBV_WC_LOC_LEN_ERR);
    pthread_mutex_lock(&ah->lock);
    walk(q, ah);
    size = sv_wire_size_of(wr->opcode == IBV_WR_SEND_WITH_IMM ? SV_MSG_SEND_IMM : SV_MSG_SEND,
                          SV_WIRE_UD | (ah->attr.is_global ? SV_WIRE_GRH : 0), length, 4096);
    sv_flow_count(&ah->flow, 0, size);
    fill_grh(ah, length, grh);
    iov[0] = (struct iovec){ grh, GRH };
    if (ah->attr.dlid >= SV_LID_MCAST_MIN && ah->attr.dlid != SV_LID_PERMISSIVE)
        to_group(q, wr, iov, n + 1, length + GRH);
    else if (ah->flow.reason[0] == SV_OK && !ve_corrupted(q, &ah->flow, 0, size))
        to_qp(q, wr, wr->qpn, ah->flow.dest, iov, n + 1, length + GRH);
    pthread_mutex_unlock(&ah->lock);
    return ve_done(IBV_WC_SUCCESS);
}

struct ve_outcome ve_datagram(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_outcome outcome = datagram(q, wr);

    if (q->sge_bounce)
        ve_bounce_out(q, false);
    return outcome;
}
