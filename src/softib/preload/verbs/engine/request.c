/*
 * One request of a connected QP (RC, UC, XRC): gather its data, find its path and responder, and count it (IBA 9.7).
 */
#include "request.h"
#include "completion/events.h"
#include "keys.h"
#include "loss.h"
#include "message.h"
#include "psn.h"
#include "queue_pair/migrate.h"
#include "queue_pair/modify.h"
#include "queue_pair/flows.h"
#include "receive.h"
#include "../memory/hazards.h"
#include "../memory/locks.h"
#include "../memory/heap/number_table.h"

static const struct kind kinds[] = {
    [IBV_WR_SEND] = { .message = SV_MSG_SEND, .receives = true, .recv_opcode = IBV_WC_RECV },
    [IBV_WR_SEND_WITH_IMM] = { .message = SV_MSG_SEND_IMM, .receives = true, .imm = true, .recv_opcode = IBV_WC_RECV },
    [IBV_WR_SEND_WITH_INV] = { .message = SV_MSG_SEND_INV, .receives = true, .invalidates = true,
                               .recv_opcode = IBV_WC_RECV },
    [IBV_WR_RDMA_WRITE] = { .message = SV_MSG_WRITE, .writes = true },
    [IBV_WR_RDMA_WRITE_WITH_IMM] = { .message = SV_MSG_WRITE_IMM, .writes = true, .receives = true, .imm = true,
                                     .recv_opcode = IBV_WC_RECV_RDMA_WITH_IMM },
    [IBV_WR_RDMA_READ] = { .message = SV_MSG_READ_REQUEST, .reads = true },
    [IBV_WR_ATOMIC_CMP_AND_SWP] = { .message = SV_MSG_ATOMIC, .atomic = true },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = { .message = SV_MSG_ATOMIC, .atomic = true },
    [IBV_WR_ATOMIC_WRITE] = { .message = SV_MSG_ATOMIC_WRITE, .writes = true },
};

enum ibv_wc_status ve_gather(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length)
{
    struct ve_part part;

    *length = 0;
    if (wr->flags & IBV_SEND_INLINE) {
        for (unsigned i = 0; i < wr->sges; i++) {
            iov[i] = (struct iovec){ (void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length };
            *length += wr->sge[i].length;
        }
        *n = wr->sges;
        return IBV_WC_SUCCESS;
    }
    for (unsigned i = 0; i < wr->sges; i++) {
        if (wr->sge[i].length && !ve_resolve(q->e, wr->sge[i].lkey, wr->sge[i].addr, wr->sge[i].length, access, q->s->domain,
                                             q->e->w.process, 0, &part))
            return IBV_WC_LOC_PROT_ERR;
        if (wr->sge[i].length && (!part.here || part.key)) /* of another process */
            return ve_bounce_in(q, wr, access, iov, n, length);
        iov[i] = (struct iovec){ wr->sge[i].length ? part.here : NULL, wr->sge[i].length };
        *length += wr->sge[i].length;
    }
    *n = wr->sges;
    return *length > 1u << 31 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS; /* a message has 2 GiB at most (9.7.8) */
}

static unsigned wire_flags(const struct message *m)
{
    return (m->q->route.is_global ? SV_WIRE_GRH : 0) | (m->q->s->type == IBV_QPT_XRC_SEND ? SV_WIRE_XRC : 0);
}

static struct sv_wire_size request_size(const struct message *m)
{
    return sv_wire_size_of(m->kind->message, wire_flags(m), m->length, 128u << m->q->route.mtu);
}

/* Return the size of the packets that the responder sends back on success. */
static struct sv_wire_size answer_size(const struct message *m)
{
    unsigned flags = wire_flags(m) & SV_WIRE_GRH;
    uint32_t mtu = 128u << m->q->route.mtu;

    if (m->kind->reads)
        return sv_wire_size_of(SV_MSG_READ_RESPONSE, flags, m->length, mtu);
    return sv_wire_size_of(m->kind->atomic ? SV_MSG_ATOMIC_RESPONSE : SV_MSG_ACK, flags, 8, mtu);
}

/* Count the message and its answer as documented in docs/verbs.md. */
static void count(struct message *m, const struct ve_outcome *outcome)
{
    struct sv_flow *flow = &m->q->flow;
    bool right = outcome->status == IBV_WC_SUCCESS && !outcome->wait;

    if (outcome->wait && m->q->early)
        return; /* tried before its timer has expired: no packet has been resent yet */
    sv_flow_count(flow, 0, request_size(m));
    if (flow->reason[0] != SV_OK || m->q->s->type == IBV_QPT_UC || outcome->wait == VE_LOST)
        return;
    sv_flow_count(flow, 1, right ? answer_size(m) : sv_wire_size_of(SV_MSG_ACK, wire_flags(m) & SV_WIRE_GRH, 0, 4096));
}

/* Apply bit errors on the forward path and, for response data, on the reverse path. False:
 * `outcome` has the result. */
static bool survives(struct message *m, struct ve_outcome *outcome)
{
    struct ve_qp *q = m->q;

    if (q->s->type == IBV_QPT_UC) {
        *outcome = ve_done(IBV_WC_SUCCESS); /* no NAK */
        return !ve_corrupted(q, &q->flow, 0, request_size(m));
    }
    *outcome = (struct ve_outcome){ .wait = VE_LOST, .corrupted = true };
    if (ve_may_lose(&q->flow, 0) && ve_deliver_packets(q, 0, request_size(m)) == VE_TIMES_OUT)
        return false;
    return !m->kind->reads || !ve_may_lose(&q->flow, 1) || ve_deliver_packets(q, 1, answer_size(m)) == VE_ARRIVED;
}

static uint32_t psn_after(const struct message *m)
{
    return ve_psn_after(m->q->sq_psn, ve_packets_of(m->length, m->q->route.mtu));
}

/* Check that the peer QP accepts requests of this one, and expects this PSN (9.7.2). */
static bool accepts(struct message *m)
{
    const struct softib_qp *peer = m->peer, *mine = m->q->s;
    bool xrc = mine->type == IBV_QPT_XRC_SEND;

    if (peer->type != (xrc ? IBV_QPT_XRC_RECV : mine->type) || peer->dest_qpn != mine->qpn)
        return false;
    if (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS && peer->state != IBV_QPS_SQD && peer->state != IBV_QPS_SQE)
        return false;
    if (peer->roce_v2 != mine->roce_v2) /* another Ethertype or UDP port: no QP of that kind sees the packet */
        return false;
    if (mine->type != IBV_QPT_UC && peer->rq_psn != m->q->sq_psn)
        return false;
    return mine->mig | peer->mig ? ve_migration(m->q, m->peer) : peer->port == m->q->flow.dest;
}

/*
 * Check that both QPs are in one partition (10.9.1.2). The port's table has accepted the packet, but possibly because
 * of another entry. A request that is tried before its timer expires sends no packet (`walked` false).
 */
static bool in_partition(struct message *m, bool walked)
{
    struct softib_qp *peer = m->peer;
    const struct softib_qp *mine = m->q->s;

    if (walked) /* the SM may have changed the table */
        sv_port_pkey(peer->port, peer->pkey_index, &peer->pkey);
    if (sv_pkeys_match(peer->pkey, mine->pkey))
        return true;
    if (!m->q->early)
        sv_pkey_violation(peer->port, &m->q->route, mine->pkey, (uint32_t[2]){ mine->qpn, peer->qpn });
    return false;
}

/* Called when the first request reaches a QP that is still in RTR (11.6.3.1). */
static void establish(struct message *m)
{
    struct softib_qp *peer = m->peer;

    if (!peer->established && peer->state == IBV_QPS_RTR)
        ve_event(m->q->e, peer->process, peer->async, IBV_EVENT_COMM_EST, peer->user);
    peer->established = 1;
}

static struct ve_outcome at_peer(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct softib_qp *peer = m->peer;
    struct ve_outcome outcome;

    if (m->srq)
        vm_lock(&e->w, &m->srq->lock);
    outcome = ve_respond(m);
    if (m->srq)
        vm_unlock(&m->srq->lock);
    if (!outcome.wait && outcome.status == IBV_WC_SUCCESS)
        peer->rq_psn = psn_after(m);
    return outcome;
}

/*
 * Execute an XRC request. It names an SRQ; the memory must belong to the SRQ's process and protection domain (IBA
 * A14.3.2).
 */
static struct ve_outcome at_xrc_peer(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct softib_qp *peer = m->peer;
    struct ve_outcome outcome;
    uint64_t *hazard;
    struct softib_srq *srq = vm_number_hold_too(&e->w, m->wr->qpn, &hazard);

    if (!srq || srq->is != SOFTIB_IS_SRQ || srq->xrcd != peer->xrcd) {
        if (srq)
            vm_hazard_end(hazard);
        return ve_refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    m->process = srq->process;
    m->domain = srq->domain;
    m->srq = srq;
    outcome = at_peer(m);
    vm_hazard_end(hazard);
    return outcome;
}

/*
 * The local memory of a READ or an atomic is checked when the response arrives (9.7.5.2.5 is the requester's last
 * check). So even if that memory is invalid, the responder gets the request, and executes an atomic.
 */
static enum ibv_wc_status ask_in_vain(struct message *m)
{
    m->unwelcome = true;
    m->iov_n = 0;
    m->length = 0;
    for (uint32_t i = 0; i < m->wr->sges; i++)
        m->length += m->wr->sge[i].length;
    return m->length > 1u << 31 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static struct ve_outcome request(struct ve_qp *q, const struct ve_wr *wr)
{
    struct message m; /* large: only the fields in use are set */
    struct ve_outcome outcome;
    enum ibv_wc_status status;
    uint64_t *hazard;
    bool walked;

    m.q = q;
    m.wr = wr;
    m.kind = &kinds[wr->opcode];
    m.peer = NULL;
    m.srq = NULL;
    m.unexpected = m.unwelcome = false;
    status = ve_gather(q, wr, m.kind->reads || m.kind->atomic ? IBV_ACCESS_LOCAL_WRITE : 0, m.iov, &m.iov_n, &m.length);

    if (status == IBV_WC_LOC_PROT_ERR && (m.kind->reads || m.kind->atomic))
        status = ask_in_vain(&m);
    if (status == IBV_WC_SUCCESS && m.kind->atomic && m.length != 8)
        status = IBV_WC_LOC_LEN_ERR;
    if (status != IBV_WC_SUCCESS)
        return ve_done(status);
    if (__atomic_load_n(&q->s->moves, __ATOMIC_RELAXED) != q->moves)
        ve_adopt(q);
    ve_flow_next(q);
    walked = sv_flow_is_stale(&q->flow);
    if (walked)
        ve_qp_walk(q);
    if (q->flow.reason[0] != SV_OK || q->flow.reason[1] != SV_OK) {
        outcome = q->s->type == IBV_QPT_UC ? ve_done(IBV_WC_SUCCESS) : ve_lost();
        count(&m, &outcome);
        return outcome;
    }
    if ((ve_may_lose(&q->flow, 0) || ve_may_lose(&q->flow, 1)) && !survives(&m, &outcome)) {
        count(&m, &outcome);
        if (!outcome.wait)
            q->sq_psn = psn_after(&m);
        return outcome;
    }
    m.peer = vm_number_hold(&q->e->w, q->s->dest_qpn, &hazard);
    outcome = q->s->type == IBV_QPT_UC ? ve_done(IBV_WC_SUCCESS) : ve_lost();
    if (m.peer && m.peer->is == SOFTIB_IS_QP) {
        vm_lock(&q->e->w, &m.peer->lock);
        if (accepts(&m) && in_partition(&m, walked)) {
            establish(&m);
            m.process = m.peer->process;
            m.domain = m.peer->domain;
            m.srq = ve_srq_of(q->e, m.peer);
            outcome = q->s->type == IBV_QPT_XRC_SEND ? at_xrc_peer(&m) : at_peer(&m);
            if (outcome.status != IBV_WC_SUCCESS && !vm_lives(&q->e->w, m.process))
                outcome = ve_lost(); /* its keys were freed with the responder: no answer */
        }
        vm_unlock(&m.peer->lock);
    }
    if (m.peer)
        vm_hazard_end(hazard);
    count(&m, &outcome);
    if (outcome.wait || outcome.status != IBV_WC_SUCCESS)
        return outcome;
    if (m.unwelcome)
        return ve_done(IBV_WC_LOC_PROT_ERR);
    q->sq_psn = psn_after(&m);
    /* A lost answer. READ responses were handled above. If received data is copied later (sge_bounce.c), none is
     * lost. */
    if (ve_may_lose(&q->flow, 1) && q->s->type != IBV_QPT_UC && !m.kind->reads && !q->sge_bounce && !q->completed_first)
        return ve_answer(q, outcome, request_size(&m), answer_size(&m));
    return outcome;
}

struct ve_outcome ve_request(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_outcome outcome = q->executed ? ve_resend(q) : request(q, wr);

    if (q->sge_bounce) {
        const struct kind *kind = &kinds[wr->opcode];
        enum ibv_wc_status status = ve_bounce_out(q, !outcome.wait && outcome.status == IBV_WC_SUCCESS &&
                                                        (kind->reads || kind->atomic));

        if (status != IBV_WC_SUCCESS)
            outcome = ve_done(status);
    }
    return outcome;
}
