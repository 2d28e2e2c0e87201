/* Checks of strict mode: find uses of verbs that work here, or on one adapter, but not on others. */
#include "../completion/complete.h"
#include "modify.h"
#include "../scheduling/sq_sched_internal.h"
#include "strict.h"
#include "../../memory/identity.h"
#include "../../memory/locks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS 500000000u /* time without a receive, with rnr_retry 7 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ve_qp **qps; /* the QPs of this process */
static unsigned qps_n, qps_room;

static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", "UNKNOWN" };

static const char *state_name(unsigned state)
{
    return states[state < 7 ? state : 7];
}

/* -- attributes -- */

static const struct { int bit; const char *name; } attributes[] = {
    { IBV_QP_CUR_STATE, "CUR_STATE" }, { IBV_QP_EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY" }, { IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS" },
    { IBV_QP_PKEY_INDEX, "PKEY_INDEX" }, { IBV_QP_PORT, "PORT" }, { IBV_QP_QKEY, "QKEY" }, { IBV_QP_AV, "AV" },
    { IBV_QP_PATH_MTU, "PATH_MTU" }, { IBV_QP_TIMEOUT, "TIMEOUT" }, { IBV_QP_RETRY_CNT, "RETRY_CNT" },
    { IBV_QP_RNR_RETRY, "RNR_RETRY" }, { IBV_QP_RQ_PSN, "RQ_PSN" }, { IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC" },
    { IBV_QP_ALT_PATH, "ALT_PATH" }, { IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER" }, { IBV_QP_SQ_PSN, "SQ_PSN" },
    { IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC" }, { IBV_QP_PATH_MIG_STATE, "PATH_MIG_STATE" }, { IBV_QP_CAP, "CAP" },
    { IBV_QP_DEST_QPN, "DEST_QPN" }, { IBV_QP_RATE_LIMIT, "RATE_LIMIT" },
};

static const char *names(int mask, char *to, size_t room)
{
    size_t at = 0;

    to[0] = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && at + 32 < room; i++) {
        if (!(mask & attributes[i].bit))
            continue;
        memcpy(to + at, " IBV_QP_", 8);
        at += 8;
        memcpy(to + at, attributes[i].name, strlen(attributes[i].name) + 1);
        at += strlen(attributes[i].name);
    }
    return at ? to : " nothing";
}

static void refused(struct ve_qp *q, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    char missing[512], beyond[512];
    int required, optional;

    if (!ve_transition(q->s->type, from, to, &required, &optional)) {
        if (to != IBV_QPS_RESET && to != IBV_QPS_ERR)
            ve_warn("ibv_modify_qp: a QP of this type cannot change from %s to %s", state_name(from), state_name(to));
        return;
    }
    mask &= ~IBV_QP_STATE;
    if ((mask & required) != required || mask & ~(required | optional))
        ve_warn("ibv_modify_qp from %s to %s: missing:%s; not allowed:%s", state_name(from), state_name(to),
                names(required & ~mask, missing, sizeof missing), names(mask & ~(required | optional), beyond, sizeof beyond));
}

/* Warn of a value that its field on the wire cannot hold. mlx5 and softib truncate it; other adapters reject it. */
static void check_width(const char *call, const char *name, unsigned value, unsigned bits)
{
    if (value & ~bits)
        ve_warn_of(name, "%s: %s %u does not fit; truncated to %u", call, name, value, value & bits);
}

static void check_path_widths(const char *call, const struct ibv_ah_attr *ah)
{
    check_width(call, "sl", ah->sl, VE_SL_BITS);
    check_width(call, "src_path_bits", ah->src_path_bits, VE_PATH_BITS);
}

void ve_strict_address(const struct ibv_ah_attr *ah)
{
    check_path_widths("ibv_create_ah", ah);
}

static void check_widths(const struct ibv_qp_attr *a, int mask)
{
    static const char call[] = "ibv_modify_qp";

    if (mask & IBV_QP_AV)
        check_path_widths(call, &a->ah_attr);
    if (mask & IBV_QP_TIMEOUT)
        check_width(call, "timeout", a->timeout, VE_TIMER_BITS);
    if (mask & IBV_QP_RETRY_CNT)
        check_width(call, "retry_cnt", a->retry_cnt, VE_RETRY_BITS);
    if (mask & IBV_QP_RNR_RETRY)
        check_width(call, "rnr_retry", a->rnr_retry, VE_RETRY_BITS);
    if (mask & IBV_QP_MIN_RNR_TIMER)
        check_width(call, "min_rnr_timer", a->min_rnr_timer, VE_TIMER_BITS);
    if (mask & IBV_QP_RQ_PSN)
        check_width(call, "rq_psn", a->rq_psn, 0xFFFFFF);
    if (mask & IBV_QP_SQ_PSN)
        check_width(call, "sq_psn", a->sq_psn, 0xFFFFFF);
    if (mask & IBV_QP_DEST_QPN)
        check_width(call, "dest_qp_num", a->dest_qp_num, 0xFFFFFF);
    if (mask & IBV_QP_ALT_PATH) {
        check_path_widths(call, &a->alt_ah_attr);
        check_width(call, "alt_timeout", a->alt_timeout, VE_TIMER_BITS);
    }
}

void ve_strict_modified(struct ve_qp *q, const struct ibv_qp_attr *a, int mask, int ignored, enum ibv_qp_state from, int error)
{
    enum ibv_qp_state to = mask & IBV_QP_STATE ? a->qp_state : from;
    const unsigned one_sided = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    char text[512];

    if (error) {
        refused(q, from, to, mask);
        return;
    }
    check_widths(a, mask);
    if (to == IBV_QPS_SQD && from != IBV_QPS_SQD)
        ve_warn("ibv_modify_qp to SQD: mlx5 does not support this state and returns EINVAL");
    ignored |= mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
    if (ignored)
        ve_warn("ibv_modify_qp from %s to %s:%s has no effect on this QP", state_name(from), state_name(to),
                names(ignored, text, sizeof text));
    if (mask & IBV_QP_TIMEOUT && !(a->timeout & VE_TIMER_BITS))
        ve_warn("ibv_modify_qp: timeout 0 waits for ever if an answer is lost");
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && !a->max_dest_rd_atomic && q->s->access & one_sided)
        ve_warn("ibv_modify_qp: the QP allows remote reads or atomics, but max_dest_rd_atomic is 0: they will fail");
}

/* -- requests -- */

void ve_strict_posted(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_sq_sched *l = q->sched;

    if (wr->flags & IBV_SEND_SIGNALED || q->s->signal_all) {
        l->unsignalled = 0;
    } else if (++l->unsignalled == q->max_send) {
        ve_warn("QP %u: the last %u requests, as many as its send queue has places, requested no completion: their entries never "
                "become free", q->s->qpn, l->unsignalled);
    }
}

void ve_strict_not_ready(struct ve_qp *q, uint64_t now)
{
    struct ve_sq_sched *l = q->sched;

    if (!l || q->rnr_retry != 7)
        return;
    if (!l->not_ready_since || l->not_ready_head != q->head)
        l->not_ready_since = now;
    l->not_ready_head = q->head;
    if (now - l->not_ready_since >= PATIENCE_NS) {
        l->not_ready_since = UINT64_MAX >> 1; /* reported */
        ve_warn("QP %u: its peer has posted no receive for half a second; rnr_retry 7 waits for ever", q->s->qpn);
    }
}

void ve_strict_not_posted(const struct ve_qp *q, const struct ibv_send_wr *wr, int error)
{
    uint64_t octets = 0;

    for (int i = 0; wr->send_flags & IBV_SEND_INLINE && i < wr->num_sge; i++)
        octets += wr->sg_list[i].length;
    if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_SQD && q->state != IBV_QPS_ERR && q->state != IBV_QPS_SQE)
        ve_warn("ibv_post_send: errno %d: QP %u is in %s, which accepts no requests", error, q->s->qpn, state_name(q->state));
    else if (wr->num_sge > 0 && (uint32_t)wr->num_sge > q->max_sges)
        ve_warn("ibv_post_send: errno %d: %d SGEs, QP %u has max_send_sge %u", error, wr->num_sge, q->s->qpn, q->max_sges);
    else if (octets > q->max_inline)
        ve_warn("ibv_post_send: errno %d: %llu bytes inline, QP %u has max_inline_data %u", error, (unsigned long long)octets,
                q->s->qpn, q->max_inline);
    else if (error == ENOMEM)
        ve_warn("ibv_post_send: no room in the send queue of QP %u (%u requests)", q->s->qpn, q->max_send);
    else
        ve_warn("ibv_post_send: errno %d: QP %u does not take operation %d with these flags", error, q->s->qpn, (int)wr->opcode);
}

void ve_strict_no_place(const char *call, uint32_t number, uint32_t size, uint32_t waiting)
{
    if (!size)
        ve_warn("%s: QP %u has no receive queue of its own", call, number);
    else if (waiting < size)
        ve_warn("%s: queue full: %u of its %u receives have completed, but were not polled", call, size - waiting, size);
    else
        ve_warn("%s: queue full: its %u receives wait for messages", call, size);
}

/* -- objects destroyed too early -- */

/* Lock and return the list. A forked child begins with an empty list, since it does not own its parent's QPs. */
static void hold(void)
{
    static uint64_t owner;

    pthread_mutex_lock(&lock);
    if (owner != vm_self())
        qps_n = 0;
    owner = vm_self();
}

void ve_strict_made(struct ve_qp *q)
{
    hold();
    if (qps_n == qps_room) {
        unsigned room = qps_room ? 2 * qps_room : 64;
        struct ve_qp **more = realloc(qps, room * sizeof *more);

        if (more) {
            qps = more;
            qps_room = room;
        }
    }
    if (qps_n < qps_room)
        qps[qps_n++] = q;
    pthread_mutex_unlock(&lock);
}

/* Return the number of completions of `qpn` (0: of any QP) that were not polled. */
static unsigned unpolled(struct ve_engine *e, uint64_t at, uint32_t qpn)
{
    struct softib_cq *cq = ve_cq(e, at);
    const struct softib_cqe *ring;
    unsigned n = 0;

    ve_lock_cq(e, cq);
    ring = vm_at(&e->w, cq->ring);
    for (uint32_t i = __atomic_load_n(&cq->consumer, __ATOMIC_ACQUIRE); i != cq->producer; i++) {
        const struct softib_cqe *cqe = &ring[i & (cq->size - 1)];

        n += cqe->status != IBV_WC_WR_FLUSH_ERR && (!qpn || cqe->owner == qpn);
    }
    vm_unlock(&cq->lock);
    return n;
}

void ve_strict_destroyed(struct ve_qp *q)
{
    unsigned n = 0, waiting;

    hold();
    for (unsigned i = 0; i < qps_n; i++)
        if (qps[i] == q)
            qps[i--] = qps[--qps_n];
    pthread_mutex_unlock(&lock);
    ve_spin_lock(&q->lock);
    waiting = q->state == IBV_QPS_RTS ? q->tail - q->head : 0;
    ve_spin_unlock(&q->lock);
    if (waiting)
        ve_warn("ibv_destroy_qp: QP %u has %u requests that were not executed", q->s->qpn, waiting);
    if (q->send_cq)
        n = unpolled(q->e, q->send_cq, q->s->qpn);
    if (q->s->recv_cq && q->s->recv_cq != q->send_cq)
        n += unpolled(q->e, q->s->recv_cq, q->s->qpn);
    if (n)
        ve_warn("ibv_destroy_qp: QP %u has %u completions that were not polled; they are lost", q->s->qpn, n);
}

void ve_strict_cq_ends(struct ve_engine *e, uint64_t at)
{
    unsigned n = unpolled(e, at, 0);

    if (n)
        ve_warn("ibv_destroy_cq: %u completions were not polled", n);
}

void ve_strict_cq_polled(struct ve_engine *e, uint64_t at)
{
    struct softib_cq *cq = ve_cq(e, at);
    int32_t n = (int32_t)(__atomic_load_n(&cq->producer, __ATOMIC_ACQUIRE) - cq->consumer); /* the last may already be polled */

    if (cq->overrun)
        ve_warn("a CQ of %u completions has overrun: completions are lost, and its QPs fail", cq->size - 1);
    else if (n >= (int32_t)(cq->size - cq->size / 8))
        ve_warn("%d completions wait in a CQ of %u: it is close to overrun", n, cq->size - 1);
}

static bool names_key(const struct ibv_sge *sge, uint32_t n, uint32_t key)
{
    for (uint32_t i = 0; i < n; i++)
        if (sge[i].length && sge[i].lkey == key)
            return true;
    return false;
}

/* Return the number of requests and receives of `q` that use `key`. */
static unsigned posted_with(struct ve_qp *q, uint32_t key)
{
    struct softib_qp *s = q->s;
    unsigned n = 0;

    for (uint32_t i = q->head; i != q->tail; i++) {
        const struct ve_wr *wr = &q->slots[i % q->max_send].wr;

        n += !(wr->flags & IBV_SEND_INLINE) && names_key(wr->sge, wr->sges, key);
    }
    vm_lock(&q->e->w, &s->lock);
    for (uint32_t i = s->rq_head; s->state != IBV_QPS_RESET && s->rq_size && i != __atomic_load_n(&s->rq_tail, __ATOMIC_ACQUIRE); i++) {
        const struct softib_receive *r = (const void *)((char *)vm_at(&q->e->w, s->rq) +
                                                        i % s->rq_size * (sizeof *r + s->rq_sges * sizeof(struct softib_sge)));
        const struct softib_sge *sge = (const void *)(r + 1);
        bool named = false;

        for (uint32_t k = 0; k < r->sges; k++)
            named = named || (sge[k].length && sge[k].lkey == key);
        n += named;
    }
    vm_unlock(&s->lock);
    return n;
}

void ve_strict_dereg(uint32_t key)
{
    hold();
    for (unsigned i = 0; i < qps_n; i++) {
        unsigned n;

        ve_spin_lock(&qps[i]->lock);
        n = posted_with(qps[i], key);
        ve_spin_unlock(&qps[i]->lock);
        if (n)
            ve_warn("ibv_dereg_mr: %u requests or receives of QP %u still use the region", n, qps[i]->s->qpn);
    }
    pthread_mutex_unlock(&lock);
}
