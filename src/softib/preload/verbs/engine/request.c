/*
 * One request of a connected QP (RC, UC, XRC), executed at the responder. IBA 9.7; who errs gets which status: table 10.7.3.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_NS 1000000

/* What an opcode is made of. */
struct kind {
    uint8_t message, recv_opcode;
    bool receives, writes, reads, atomic, imm, invalidates;
};

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
        if (wr->sge[i].length && !part.here)
            return ve_borrow(q, wr, access, iov, n, length);
        iov[i] = (struct iovec){ wr->sge[i].length ? part.here : NULL, wr->sge[i].length };
        *length += wr->sge[i].length;
    }
    *n = wr->sges;
    return *length > 1u << 31 ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS; /* a message has 2 GiB at most (9.7.8) */
}

/* The message as it is carried: what both sides know. */
struct message {
    struct ve_qp *q;
    const struct ve_wr *wr;
    const struct kind *kind;
    struct softib_qp *peer;
    struct softib_srq *srq;
    struct iovec iov[VE_SGES + 2];
    uint16_t process;               /* whose memory it reaches, and in which protection domain: */
    uint32_t domain;                /* the responder's; XRC: its SRQ's */
    unsigned iov_n;
    bool unexpected;                /* tag matching: it has a tag, and no entry takes it */
    uint64_t length;
};

static struct ve_outcome lost(void)
{
    return (struct ve_outcome){ .wait = VE_LOST };
}

/* A copy failed: the peer's memory is not there, or the peer is not, or the system forbids it. */
static struct ve_outcome copy_failed(int error, enum ibv_wc_status status)
{
    static bool told;

    if (error == -EFAULT)
        return ve_done(status);
    if (error == -EPERM && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        fprintf(stderr, "softib: the system does not let this process copy from or to its peer's memory (ptrace); "
                        "run both as one user, with kernel.yama.ptrace_scope at most 1\n");
    return lost();
}

/* The responder finds the request wrong: its QP breaks, the requester is told `status`. */
static struct ve_outcome refuse(struct message *m, enum ibv_wc_status status, uint32_t event)
{
    struct softib_qp *peer = m->peer;

    if (peer->type == IBV_QPT_UC)
        return ve_done(IBV_WC_SUCCESS); /* dropped; nobody is told (9.8.3) */
    if (event)
        ve_event(m->q->e, peer->process, peer->async, event, peer->user);
    ve_break_receiver(m->q->e, peer);
    return ve_done(status);
}

/* The receive itself is wrong: it is completed with `status`. */
static struct ve_outcome refuse_receive(struct message *m, enum ibv_wc_status status, enum ibv_wc_status told)
{
    struct softib_cqe cqe = { .status = status, .opcode = IBV_WC_RECV };

    ve_take_receive(m->q->e, m->peer, m->srq, &cqe, false);
    if (m->peer->type == IBV_QPT_UC)
        return ve_done(IBV_WC_SUCCESS);
    ve_break_receiver(m->q->e, m->peer);
    return ve_done(told);
}

/* A dead responder posts no receives. Who waits for one looks now and then, for the daemon may have other things to do. */
static bool waits_for_the_dead(struct message *m)
{
    struct ve_qp *q = m->q;
    uint64_t now;

    if (q->waits != VE_RNR)
        return false;
    now = ve_now_ns();
    if (now - q->looked_ns < LOOK_NS)
        return false;
    q->looked_ns = now;
    return !vm_lives(&q->e->w, m->process);
}

static struct ve_outcome not_ready(struct message *m)
{
    struct ve_outcome outcome = { .wait = VE_RNR, .rnr_timer = m->peer->min_rnr };
    uint16_t *waiter = m->srq ? &m->srq->waiter : &m->peer->waiter;

    if (m->peer->type == IBV_QPT_UC)
        return ve_done(IBV_WC_SUCCESS); /* dropped (9.8.2.2.1) */
    if (waits_for_the_dead(m))
        return lost();
    __atomic_store_n(waiter, (uint16_t)m->q->e->w.process, __ATOMIC_SEQ_CST);
    return outcome;
}

/* Remote memory of WRITE, READ, atomics. */
static bool reach(struct message *m, unsigned access, uint64_t length, struct ve_part *part)
{
    if ((m->peer->access & access) != access)
        return false;
    if (!length)
        return true; /* nothing is checked where nothing is moved (C9-88) */
    return ve_resolve(m->q->e, m->wr->rkey, m->wr->remote, length, access, m->domain, m->process, m->peer->qpn,
                      part);
}

/* SEND, and the receive that WRITE with immediate takes. */
static struct ve_outcome deliver(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct softib_receive *receive = ve_next_receive(e, m->peer, m->srq);
    struct ve_part parts[VE_SGES];
    uint64_t room;
    struct softib_cqe cqe = {
        .status = IBV_WC_SUCCESS, .opcode = m->kind->recv_opcode, .byte_len = (uint32_t)m->length, .src_qp = m->q->s->qpn,
        .slid = m->q->way.dlid ? sv_lid(&sv_board, m->q->way.port) : 0, .sl = m->q->way.sl,
        .pkey_index = m->peer->pkey_index,
    };
    int error;

    if (m->srq && m->srq->tags && !m->kind->writes)
        cqe.opcode = m->unexpected ? IBV_WC_TM_RECV : IBV_WC_TM_NO_TAG;
    ve_complete_soon(e, m->srq && m->srq->cq ? m->srq->cq : m->peer->recv_cq);
    if (!m->kind->writes) {
        if (!ve_receive_parts(e, m->peer, m->srq, receive, parts, &room))
            return refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
        if (m->length > room)
            return refuse_receive(m, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
        error = ve_put(e, m->process, parts, receive->sges, m->iov, m->iov_n);
        if (error == -EFAULT)
            return refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
        if (error)
            return copy_failed(error, IBV_WC_REM_OP_ERR);
    }
    if (m->kind->imm) {
        cqe.imm = m->wr->imm;
        cqe.flags |= IBV_WC_WITH_IMM;
    }
    if (m->kind->invalidates) {
        if (!ve_invalidate(e, m->wr->imm, m->process, m->domain, m->peer->qpn))
            return refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
        cqe.imm = m->wr->imm;
        cqe.flags |= IBV_WC_WITH_INV;
    }
    if (m->q->way.is_global && !(m->srq && m->srq->tags))
        cqe.flags |= IBV_WC_GRH;
    if (m->unexpected)
        ve_unexpected(e, m->srq);
    ve_take_receive(e, m->peer, m->srq, &cqe, m->wr->flags & IBV_SEND_SOLICITED);
    return ve_done(IBV_WC_SUCCESS);
}

static struct ve_outcome write_or_send(struct message *m)
{
    struct ve_part part;
    struct ve_outcome outcome;
    int error;

    if (m->srq && m->srq->tags && !m->kind->writes) {
        enum ve_tagged tagged = ve_match(m->q, m->wr, m->peer, m->srq, m->iov, m->iov_n, m->length, &outcome);

        m->unexpected = tagged == VE_UNEXPECTED;
        if (tagged == VE_MATCHED)
            return outcome;
    }
    if (m->kind->receives && !ve_next_receive(m->q->e, m->peer, m->srq)) {
        outcome = not_ready(m); /* who posts from now on sees that we wait; who did before is seen now */
        if (!outcome.wait || !ve_next_receive(m->q->e, m->peer, m->srq))
            return outcome;
    }
    if (m->kind->writes) {
        if (!reach(m, IBV_ACCESS_REMOTE_WRITE, m->length, &part))
            return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        error = m->length ? ve_put(m->q->e, m->process, &part, 1, m->iov, m->iov_n) : 0;
        if (error == -EFAULT)
            return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
        if (error)
            return copy_failed(error, IBV_WC_REM_ACCESS_ERR);
    }
    return m->kind->receives ? deliver(m) : ve_done(IBV_WC_SUCCESS);
}

static struct ve_outcome read(struct message *m)
{
    struct ve_outcome outcome = ve_done(IBV_WC_SUCCESS);
    struct ve_part part;
    int error;

    if (!m->peer->dest_reads)
        return refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    if (!reach(m, IBV_ACCESS_REMOTE_READ, m->length, &part))
        return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    error = m->length ? ve_get(m->q->e, m->process, &part, 1, m->iov, m->iov_n) : 0;
    if (error == -EFAULT)
        return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    if (error)
        return copy_failed(error, IBV_WC_REM_ACCESS_ERR);
    outcome.byte_len = (uint32_t)m->length;
    return outcome;
}

static uint64_t changed(const struct ve_wr *wr, uint64_t old)
{
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        return old + wr->compare;
    return old == wr->compare ? wr->swap : old;
}

/* Atomic with respect to all requests to this HCA (9.4.5): under the lock of its node. */
static struct ve_outcome atomic(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct ve_outcome outcome = ve_done(IBV_WC_SUCCESS);
    struct ve_part part;
    uint64_t old = 0, new;
    uint32_t *lock;
    int error = 0;

    if (m->wr->remote % 8 || !m->peer->dest_reads)
        return refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    if (!reach(m, IBV_ACCESS_REMOTE_ATOMIC, 8, &part))
        return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    lock = &vm_head(&e->w)->atomic_lock[m->peer->node % SOFTIB_VERBS_ATOMIC_LOCKS];
    vm_lock(&e->w, lock);
    if (part.here) { /* with the processor's atomics too, where that costs nothing */
        uint64_t *at = (uint64_t *)(void *)part.here;

        old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(at, &old, changed(m->wr, old), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            ;
    } else {
        struct iovec word = { &old, 8 };

        error = ve_get(e, m->process, &part, 1, &word, 1);
        new = changed(m->wr, old);
        word.iov_base = &new;
        if (!error && new != old)
            error = ve_put(e, m->process, &part, 1, &word, 1);
    }
    vm_unlock(lock);
    if (error == -EFAULT)
        return refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    if (error)
        return copy_failed(error, IBV_WC_REM_ACCESS_ERR);
    for (unsigned i = 0, n = 0; i < m->iov_n; n += (unsigned)m->iov[i++].iov_len)
        if (m->iov[i].iov_len)
            memcpy(m->iov[i].iov_base, (char *)&old + n, m->iov[i].iov_len);
    outcome.byte_len = 8;
    return outcome;
}

static unsigned wire_flags(const struct message *m)
{
    return (m->q->way.is_global ? SV_WIRE_GRH : 0) | (m->q->s->type == IBV_QPT_XRC_SEND ? SV_WIRE_XRC : 0);
}

static struct sv_words request_words(const struct message *m)
{
    return sv_wire_words(m->kind->message, wire_flags(m), m->length, 128u << m->q->way.mtu);
}

/* What comes back when all is well. */
static struct sv_words answer_words(const struct message *m)
{
    unsigned flags = wire_flags(m) & SV_WIRE_GRH;
    uint32_t mtu = 128u << m->q->way.mtu;

    if (m->kind->reads)
        return sv_wire_words(SV_MSG_READ_RESPONSE, flags, m->length, mtu);
    return sv_wire_words(m->kind->atomic ? SV_MSG_ATOMIC_RESPONSE : SV_MSG_ACK, flags, 8, mtu);
}

/* Counts the message and what comes back, as docs/verbs.md says. */
static void count(struct message *m, const struct ve_outcome *outcome)
{
    struct sv_flow *flow = &m->q->flow;
    bool right = outcome->status == IBV_WC_SUCCESS && !outcome->wait;

    if (outcome->wait && m->q->early)
        return; /* looked at before its timer says so: on the wire nothing is sent again yet */
    sv_flow_count(flow, 0, request_words(m));
    if (flow->reason[0] != SV_OK || m->q->s->type == IBV_QPT_UC || outcome->wait == VE_LOST)
        return;
    sv_flow_count(flow, 1, right ? answer_words(m) : sv_wire_words(SV_MSG_ACK, wire_flags(m) & SV_WIRE_GRH, 0, 4096));
}

/* Bit errors on the way there, and for data that comes back on the way back. False: `outcome` says what became of it. */
static bool survives(struct message *m, struct ve_outcome *outcome)
{
    struct ve_qp *q = m->q;

    if (q->s->type == IBV_QPT_UC) {
        *outcome = ve_done(IBV_WC_SUCCESS); /* nobody is told */
        return !ve_spoiled(q, &q->flow, 0, request_words(m));
    }
    *outcome = (struct ve_outcome){ .wait = VE_LOST, .spoiled = true };
    if (ve_may_lose(&q->flow, 0) && ve_deliver_packets(q, 0, request_words(m)) == VE_TIMES_OUT)
        return false;
    return !m->kind->reads || !ve_may_lose(&q->flow, 1) || ve_deliver_packets(q, 1, answer_words(m)) == VE_ARRIVED;
}

static uint32_t packets(const struct message *m)
{
    unsigned shift = 7u + m->q->way.mtu; /* of an MTU of 256 (code 1) to 4096 octets */

    return m->length >> shift ? (uint32_t)((m->length + (1u << shift) - 1) >> shift) : 1;
}

/* The QP at the other end takes requests of this one, and expects just this (9.7.2). */
static bool accepts(struct message *m)
{
    const struct softib_qp *peer = m->peer, *mine = m->q->s;
    bool xrc = mine->type == IBV_QPT_XRC_SEND;

    if (peer->type != (xrc ? IBV_QPT_XRC_RECV : mine->type) || peer->dest_qpn != mine->qpn || peer->port != m->q->flow.dest)
        return false;
    if (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS && peer->state != IBV_QPS_SQD && peer->state != IBV_QPS_SQE)
        return false;
    return mine->type == IBV_QPT_UC || peer->rq_psn == m->q->sq_psn;
}

/*
 * Both QPs are in one partition (10.9.1.2). The port's table let the packet in; it may have another entry that matches.
 * What is only looked at before its time is not sent.
 */
static bool in_partition(struct message *m, bool walked)
{
    struct softib_qp *peer = m->peer;
    const struct softib_qp *mine = m->q->s;

    if (walked) /* an SM may have changed the table */
        sv_port_pkey(peer->port, peer->pkey_index, &peer->pkey);
    if (sv_pkeys_match(peer->pkey, mine->pkey))
        return true;
    if (!m->q->early)
        sv_pkey_violation(peer->port, &m->q->way, mine->pkey, (uint32_t[2]){ mine->qpn, peer->qpn });
    return false;
}

/* The first request reaches a QP that does not send yet (11.6.3.1). */
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
    outcome = m->kind->reads ? read(m) : m->kind->atomic ? atomic(m) : write_or_send(m);
    if (m->srq)
        vm_unlock(&m->srq->lock);
    if (!outcome.wait && outcome.status == IBV_WC_SUCCESS)
        peer->rq_psn = (m->q->sq_psn + packets(m)) & 0xFFFFFF;
    return outcome;
}

/*
 * Every XRC request names an SRQ; its protection domain and its process are those of the memory, too (IBA A14.3.2).
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
        return refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    m->process = srq->process;
    m->domain = srq->domain;
    m->srq = srq;
    outcome = at_peer(m);
    vm_hazard_end(hazard);
    return outcome;
}

static struct ve_outcome request(struct ve_qp *q, const struct ve_wr *wr)
{
    struct message m; /* large: only what is looked at is set */
    struct ve_outcome outcome;
    enum ibv_wc_status status;
    uint64_t *hazard;
    bool walked;

    m.q = q;
    m.wr = wr;
    m.kind = &kinds[wr->opcode];
    m.peer = NULL;
    m.srq = NULL;
    m.unexpected = false;
    status = ve_gather(q, wr, m.kind->reads || m.kind->atomic ? IBV_ACCESS_LOCAL_WRITE : 0, m.iov, &m.iov_n, &m.length);

    if (status == IBV_WC_SUCCESS && m.kind->atomic && m.length != 8)
        status = IBV_WC_LOC_LEN_ERR;
    if (status != IBV_WC_SUCCESS)
        return ve_done(status);
    walked = sv_flow_is_stale(&q->flow);
    if (walked)
        ve_qp_walk(q);
    if (q->flow.reason[0] != SV_OK || q->flow.reason[1] != SV_OK) {
        outcome = q->s->type == IBV_QPT_UC ? ve_done(IBV_WC_SUCCESS) : lost();
        count(&m, &outcome);
        return outcome;
    }
    if ((ve_may_lose(&q->flow, 0) || ve_may_lose(&q->flow, 1)) && !survives(&m, &outcome)) {
        count(&m, &outcome);
        if (!outcome.wait)
            q->sq_psn = (q->sq_psn + packets(&m)) & 0xFFFFFF;
        return outcome;
    }
    m.peer = vm_number_hold(&q->e->w, q->s->dest_qpn, &hazard);
    outcome = q->s->type == IBV_QPT_UC ? ve_done(IBV_WC_SUCCESS) : lost();
    if (m.peer && m.peer->is == SOFTIB_IS_QP) {
        vm_lock(&q->e->w, &m.peer->lock);
        if (accepts(&m) && in_partition(&m, walked)) {
            establish(&m);
            m.process = m.peer->process;
            m.domain = m.peer->domain;
            m.srq = ve_srq_of(q->e, m.peer);
            outcome = q->s->type == IBV_QPT_XRC_SEND ? at_xrc_peer(&m) : at_peer(&m);
            if (outcome.status != IBV_WC_SUCCESS && !vm_lives(&q->e->w, m.process))
                outcome = lost(); /* its keys went with it: nobody answers */
        }
        vm_unlock(&m.peer->lock);
    }
    if (m.peer)
        vm_hazard_end(hazard);
    count(&m, &outcome);
    if (!outcome.wait && outcome.status == IBV_WC_SUCCESS)
        q->sq_psn = (q->sq_psn + packets(&m)) & 0xFFFFFF;
    return outcome;
}

struct ve_outcome ve_request(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_outcome outcome = request(q, wr);

    if (q->foreign) {
        const struct kind *kind = &kinds[wr->opcode];
        enum ibv_wc_status status = ve_give_back(q, !outcome.wait && outcome.status == IBV_WC_SUCCESS &&
                                                        (kind->reads || kind->atomic));

        if (status != IBV_WC_SUCCESS)
            outcome = ve_done(status);
    }
    return outcome;
}
