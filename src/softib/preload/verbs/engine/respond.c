/*
 * The responder side (IBA 9.7), executed by the initiator. Status codes: IBA table 10.7.3.
 */
#include "completion/complete.h"
#include "completion/events.h"
#include "keys.h"
#include "message.h"
#include "receive.h"
#include "send.h"
#include "tag_matching/tag_matching.h"
#include "scheduling/timer.h"
#include "../memory/locks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_NS 1000000

struct ve_outcome ve_copy_failed(int error, enum ibv_wc_status status)
{
    static bool reported;

    if (error == -EFAULT)
        return ve_done(status);
    if (error == -EXDEV && !__atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        fprintf(stderr, "softib: the system does not allow this process to copy from or to its peer's memory (another namespace, or ptrace), and "
                        "the peer does not copy itself because it makes no verbs calls; see docs/recipes/containers.md\n");
    return ve_lost();
}

struct ve_outcome ve_refuse(struct message *m, enum ibv_wc_status status, uint32_t event)
{
    struct softib_qp *peer = m->peer;

    if (peer->type == IBV_QPT_UC)
        return ve_done(IBV_WC_SUCCESS); /* dropped without a NAK (9.8.3) */
    if (event)
        ve_event(m->q->e, peer->process, peer->async, event, peer->user);
    ve_break_receiver(m->q->e, peer);
    return ve_done(status);
}

static void complete_wrong(struct message *m, enum ibv_wc_status status)
{
    struct softib_cqe cqe = { .status = status, .opcode = IBV_WC_RECV };

    ve_take_receive(m->q->e, m->peer, m->srq, &cqe, false);
}

/* Complete an invalid receive with `status`. */
static struct ve_outcome refuse_receive(struct message *m, enum ibv_wc_status status, enum ibv_wc_status requester_status)
{
    complete_wrong(m, status);
    if (m->peer->type == IBV_QPT_UC)
        return ve_done(IBV_WC_SUCCESS);
    ve_break_receiver(m->q->e, m->peer);
    return ve_done(requester_status);
}

/* Return whether the responder is dead, so that it will not post receives. A waiting requester checks this itself from
 * time to time, because the daemon may be too busy to report the death. */
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
        return ve_lost();
    __atomic_store_n(waiter, (uint16_t)m->q->e->w.process, __ATOMIC_SEQ_CST);
    return outcome;
}

bool ve_reach(struct message *m, unsigned access, uint64_t length, struct ve_part *part)
{
    if ((m->peer->access & access) != access)
        return false;
    if (!length)
        return true; /* an empty message needs no checks (C9-88) */
    return ve_resolve(m->q->e, m->wr->rkey, m->wr->remote, length, access, m->domain, m->process, m->peer->qpn,
                      part);
}

/* Deliver a SEND, or complete the receive of a WRITE with immediate. */
static struct ve_outcome deliver(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct softib_receive *receive = ve_next_receive(e, m->peer, m->srq);
    struct ve_part parts[VE_SGES];
    uint64_t room;
    struct softib_cqe cqe = {
        .status = IBV_WC_SUCCESS, .opcode = m->kind->recv_opcode, .byte_len = (uint32_t)m->length, .src_qp = m->q->s->qpn,
        .slid = m->q->route.dlid ? sv_source_lid(&sv_shared_fabric, m->q->route.port) : 0, .sl = m->q->route.sl,
        .pkey_index = m->peer->pkey_index,
    }; /* IBV_WC_GRH is for UD alone (ibv_poll_cq(3)) */
    struct ve_outcome outcome;
    int error;

    if (m->srq && m->srq->tags && !m->kind->writes)
        cqe.opcode = m->unexpected ? IBV_WC_TM_RECV : IBV_WC_TM_NO_TAG;
    ve_complete_soon(e, m->srq && m->srq->cq ? m->srq->cq : m->peer->recv_cq);
    if (!m->kind->writes) {
        if (!ve_receive_parts(e, m->peer, m->srq, receive, m->length, parts, &room))
            return refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
        if (m->length > room)
            return refuse_receive(m, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
        error = ve_put(e, m->process, parts, receive->sges, m->iov, m->iov_n);
        if (error == -EFAULT)
            return refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
        if (error)
            return ve_copy_failed(error, IBV_WC_REM_OP_ERR);
    }
    if (m->kind->imm) {
        cqe.imm = m->wr->imm;
        cqe.flags |= IBV_WC_WITH_IMM;
    }
    if (m->kind->invalidates) {
        if (!ve_invalidate(e, m->wr->imm, m->process, m->domain, m->peer->qpn)) {
            outcome = refuse_receive(m, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS);
            return m->peer->type == IBV_QPT_UC ? outcome : ve_lost(); /* class J: no NAK (9.9.6.3) */
        }
        cqe.imm = m->wr->imm;
        cqe.flags |= IBV_WC_WITH_INV;
    }
    if (m->unexpected)
        ve_unexpected(e, m->srq);
    ve_complete_first(m->q, m->wr);
    ve_take_receive(e, m->peer, m->srq, &cqe, m->wr->flags & IBV_SEND_SOLICITED);
    return ve_done(IBV_WC_SUCCESS);
}

/* Refuse a write because its R_Key does not allow access. The receive of an immediate also reports the error
 * (11.6.2: Local Access Error). */
static struct ve_outcome refuse_write(struct message *m)
{
    if (m->kind->receives && m->peer->type != IBV_QPT_UC)
        complete_wrong(m, IBV_WC_LOC_ACCESS_ERR);
    return ve_refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
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
        outcome = not_ready(m); /* receives posted after this see the waiter; re-check those posted before */
        if (!outcome.wait || !ve_next_receive(m->q->e, m->peer, m->srq))
            return outcome;
    }
    if (m->kind->writes) {
        if (!ve_reach(m, IBV_ACCESS_REMOTE_WRITE, m->length, &part))
            return refuse_write(m);
        error = m->length ? ve_put(m->q->e, m->process, &part, 1, m->iov, m->iov_n) : 0;
        if (error == -EFAULT)
            return refuse_write(m);
        if (error)
            return ve_copy_failed(error, IBV_WC_REM_ACCESS_ERR);
        if (m->length && m->wr->flags & IBV_SEND_INLINE)
            ve_write_target_keep(m, &part);
    }
    return m->kind->receives ? deliver(m) : ve_done(IBV_WC_SUCCESS);
}

static struct ve_outcome read(struct message *m)
{
    struct ve_outcome outcome = ve_done(IBV_WC_SUCCESS);
    struct ve_part part;
    int error;

    if (!m->peer->dest_reads)
        return ve_refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    if (!ve_reach(m, IBV_ACCESS_REMOTE_READ, m->length, &part))
        return ve_refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    error = m->length && !m->unwelcome ? ve_get(m->q->e, m->process, &part, 1, m->iov, m->iov_n) : 0;
    if (error == -EFAULT)
        return ve_refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    if (error)
        return ve_copy_failed(error, IBV_WC_REM_ACCESS_ERR);
    outcome.byte_len = (uint32_t)m->length;
    return outcome;
}

struct ve_outcome ve_respond(struct message *m)
{
    return m->kind->reads ? read(m) : m->kind->atomic ? ve_atomic(m) : write_or_send(m);
}
