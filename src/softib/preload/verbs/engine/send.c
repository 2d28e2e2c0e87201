/* The send side: requests are executed in order; a request that must wait delays all later ones. */
#include "send.h"
#include "completion/complete.h"
#include "completion/events.h"
#include "keys.h"
#include "loss.h"
#include "queue_pair/migrate.h"
#include "scheduling/quiesce.h"
#include "receive.h"
#include "request.h"
#include "queue_pair/strict.h"
#include "tag_matching/tag_matching.h"
#include "scheduling/timer.h"
#include "write_fastpath.h"
#include "../memory/hazards.h"
#include "../memory/locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* RNR NAK timer codes in units of 10 us (IBA table 45). */
static const uint32_t rnr_10us[32] = {
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static const uint8_t completions[] = {
    [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE, [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
    [IBV_WR_SEND] = IBV_WC_SEND, [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND, [IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
    [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ, [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD, [IBV_WR_BIND_MW] = IBV_WC_BIND_MW,
    [IBV_WR_LOCAL_INV] = IBV_WC_LOCAL_INV, [IBV_WR_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
};

static void complete(struct ve_qp *q, const struct ve_wr *wr, enum ibv_wc_status status, uint32_t octets)
{
    struct softib_cqe cqe = {
        .wr_id = wr->wr_id, .status = status, .opcode = completions[wr->opcode], .qpn = q->s->qpn, .owner = q->s->qpn,
        .byte_len = octets,
    };

    q->completed++;
    if (status == IBV_WC_SUCCESS && !(wr->flags & IBV_SEND_SIGNALED) && !q->s->signal_all)
        return;
    ve_sq_mark(&cqe, q);
    if (!ve_modes || !ve_hold_back(q, &cqe))
        q->overran |= !ve_complete(q->e, q->send_cq, &cqe, false);
}

void ve_complete_first(struct ve_qp *q, const struct ve_wr *wr)
{
    if (q->completed_first || q->sge_bounce || ve_may_lose(&q->flow, 1))
        return;
    complete(q, wr, IBV_WC_SUCCESS, 0);
    q->completed_first = true;
}

static void flush(struct ve_qp *q)
{
    for (; q->head != q->tail; q->head++)
        complete(q, &q->slots[q->head % q->max_send].wr, IBV_WC_WR_FLUSH_ERR, 0);
    q->waits = VE_NONE;
    q->early = q->executed = false;
    ve_rndv_abort(q);
}

void ve_break(struct ve_qp *q)
{
    vm_lock(&q->e->w, &q->s->lock);
    ve_break_receiver(q->e, q->s);
    vm_unlock(&q->s->lock);
    ve_follow(q);
}

void ve_follow(struct ve_qp *q)
{
    q->state = IBV_QPS_ERR;
    flush(q);
}

/* Handle an overrun of the send CQ: a completion is lost, so the QP fails (11.6.3.2, Local Work Queue Catastrophic
 * Error). */
static void overrun(struct ve_qp *q)
{
    q->overran = false;
    if (q->state == IBV_QPS_ERR || q->state == IBV_QPS_RESET)
        return;
    ve_event(q->e, q->s->process, q->s->async, IBV_EVENT_QP_FATAL, q->s->user);
    ve_break(q);
    q->overran = false;
}

/* Handle an error: a connected QP goes to ERR, a UD or UC QP only stops sending (SQE; 10.3.1). */
static void fail(struct ve_qp *q)
{
    if (q->s->type == IBV_QPT_UD || q->s->type == IBV_QPT_UC) {
        vm_lock(&q->e->w, &q->s->lock);
        if (q->s->state == IBV_QPS_RTS)
            __atomic_store_n(&q->s->state, IBV_QPS_SQE, __ATOMIC_RELEASE);
        vm_unlock(&q->s->lock);
        q->state = IBV_QPS_SQE;
        flush(q);
    } else {
        ve_break(q);
    }
}

static struct ve_outcome execute(struct ve_qp *q, const struct ve_wr *wr)
{
    if (wr->opcode == IBV_WR_BIND_MW)
        return ve_done(ve_bind(q, wr->mw, wr->rkey, &wr->bind));
    if (wr->opcode == IBV_WR_LOCAL_INV) {
        if (!ve_invalidate(q->e, wr->imm, q->e->w.process, q->s->domain, q->s->qpn))
            return ve_done(IBV_WC_MW_BIND_ERR);
        vm_quiesce(&q->e->w); /* no process may copy there any more before the completion */
        return ve_done(IBV_WC_SUCCESS);
    }
    return q->s->type == IBV_QPT_UD ? ve_datagram(q, wr) : ve_request(q, wr);
}

/* -- retries -- */

/*
 * Return whether a request without an answer (LOST), or with an RNR NAK, ends with an error. False: the request waits,
 * and is resent at `next_ns`. True: its retries or its time are exhausted, and it ends with `status`. rnr_retry counts
 * repetitions after the first (9.7.5.2.8); 7 means no limit.
 */
static bool gives_up(struct ve_qp *q, const struct ve_outcome *outcome, uint64_t now, enum ibv_wc_status *status)
{
    uint64_t t = 4096ull << q->timeout; /* 4.096 us * 2^timeout, in ns */
    bool first = q->waits != outcome->wait;

    q->waits = (uint8_t)outcome->wait;
    if (outcome->wait == VE_LOST) {
        *status = IBV_WC_RETRY_EXC_ERR;
        if (first)
            q->deadline_ns = q->timeout ? now + (q->retry_cnt + 1ull) * t : UINT64_MAX; /* 0: for ever */
        q->resends = first ? 0 : q->resends + outcome->corrupted;
        if (first || now >= q->next_ns)
            q->next_ns = q->timeout || outcome->corrupted ? now + t : UINT64_MAX;
        q->corrupted = outcome->corrupted;
        /* A request corrupted by bit errors is resent retry_cnt times (timers that fire late do not matter); a
         * failed path gets the time of all retries. */
        return q->corrupted ? q->timeout && q->resends > q->retry_cnt : now >= q->deadline_ns;
    }
    *status = IBV_WC_RNR_RETRY_EXC_ERR;
    q->tried_ns = now;
    if (ve_is_strict())
        ve_strict_not_ready(q, now);
    if (!first && now < q->next_ns)
        return false;
    if (q->rnr_retry != 7 && !q->rnr_left)
        return true;
    q->rnr_left -= q->rnr_retry != 7;
    q->next_ns = now + rnr_10us[outcome->rnr_timer & 31] * 10000ull;
    return false;
}

/* Execute and complete. False: the request must wait. */
static bool attempt(struct ve_qp *q, const struct ve_wr *wr, uint64_t now)
{
    struct ve_outcome outcome;
    enum ibv_wc_status status;

    if (wr->flags & IBV_SEND_INLINE) { /* an inline request has no keys */
        outcome = execute(q, wr);
    } else {
        ve_copies_begin(q);
        outcome = execute(q, wr);
        ve_copies_end(q);
    }
    if (outcome.wait) {
        now = now ? now : ve_now_ns();
        if (!gives_up(q, &outcome, now, &status))
            return false;
        if (outcome.wait == VE_LOST && ve_migrate(q)) { /* start again, on the alternate path */
            q->waits = VE_NONE;
            q->next_ns = now;
            return false;
        }
        outcome = ve_done(status);
    }
    q->waits = VE_NONE;
    q->early = q->executed = false;
    q->rnr_left = q->rnr_retry;
    if (q->completed_first)
        q->completed_first = false;
    else
        complete(q, wr, outcome.status, outcome.byte_len);
    if (outcome.status != IBV_WC_SUCCESS)
        fail(q);
    if (q->overran)
        overrun(q);
    if (q->rendezvous)
        ve_rndv_fetch(q);
    return true;
}

void ve_go_on(struct ve_qp *q, uint64_t now, bool woken)
{
    if (q->state != IBV_QPS_ERR && __atomic_load_n(&q->s->state, __ATOMIC_ACQUIRE) == IBV_QPS_ERR)
        ve_follow(q);
    if (ve_modes)
        ve_let_go(q, now);
    if (q->overran)
        overrun(q);
    if (q->rendezvous)
        ve_rndv_fetch(q);
    while (q->head != q->tail && q->state == IBV_QPS_RTS) {
        bool done;

        /* A request corrupted by bit errors waits for the timer; if a path may have returned, the request is tried
         * at once. */
        if (now < q->next_ns && ((q->waits == VE_LOST && q->corrupted) || (q->waits == VE_RNR && !woken)))
            return;
        if (ve_modes && !ve_is_due(q, now))
            return;
        q->early = q->waits && (now < q->next_ns || (q->waits == VE_LOST && !q->corrupted && now >= q->deadline_ns));
        q->head++; /* a failure flushes later ones */
        done = attempt(q, &q->slots[(q->head - 1) % q->max_send].wr, now);
        if (ve_modes)
            ve_ran(q, now, done);
        if (!done) {
            q->head--;
            return;
        }
    }
}

static int keep(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_slot *slot;
    uint64_t octets = 0;

    if (!q->slots)
        q->slots = calloc(q->max_send, sizeof *q->slots);
    if (!q->slots)
        return ENOMEM;
    slot = &q->slots[q->tail % q->max_send];
    if (!slot->sge)
        slot->sge = calloc(q->max_sges ? q->max_sges : 1, sizeof *slot->sge);
    if (wr->flags & IBV_SEND_INLINE && !slot->data)
        slot->data = malloc(q->max_inline ? q->max_inline : 1);
    if (!slot->sge || (wr->flags & IBV_SEND_INLINE && !slot->data))
        return ENOMEM;
    slot->wr = *wr;
    slot->wr.sge = slot->sge;
    if (wr->flags & IBV_SEND_INLINE) { /* the application may reuse its buffer at once */
        for (uint32_t i = 0; i < wr->sges; octets += wr->sge[i++].length)
            memcpy(slot->data + octets, (void *)(uintptr_t)wr->sge[i].addr, wr->sge[i].length);
        slot->sge[0] = (struct ibv_sge){ (uintptr_t)slot->data, (uint32_t)octets, 0 };
        slot->wr.sges = 1;
    } else {
        memcpy(slot->sge, wr->sge, wr->sges * sizeof *slot->sge);
    }
    q->tail++;
    if (ve_modes)
        ve_schedule(q, &slot->wr);
    return 0;
}

int ve_post(struct ve_qp *q, const struct ve_wr *wr)
{
    enum ibv_qp_state state = q->state;
    int error;

    if (ve_sq_used(q) >= q->max_send)
        return ENOMEM;
    if (state == IBV_QPS_RTS && q->head == q->tail) {
        if (__atomic_load_n(&q->s->state, __ATOMIC_ACQUIRE) == IBV_QPS_ERR) {
            ve_follow(q);
            state = IBV_QPS_ERR;
        } else if (!ve_modes && ve_is_write_fast(q, wr) && ve_write_fast(q, wr)) {
            complete(q, wr, IBV_WC_SUCCESS, 0);
            if (q->overran)
                overrun(q);
            return 0;
        } else if (!ve_modes && attempt(q, wr, 0)) {
            return 0;
        }
    }
    if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
        complete(q, wr, IBV_WC_WR_FLUSH_ERR, 0);
        return 0;
    }
    error = keep(q, wr);
    if (!error)
        ve_list(q);
    return error;
}
