/* Posting: requests of applications are checked and passed to the engine immediately. */
#include "abi.h"
#include "../engine/receive.h"
#include "../engine/send.h"
#include "../engine/queue_pair/strict.h"
#include "../memory/locks.h"

#include <errno.h>
#include <string.h>

enum { UD = 1, UC = 2, RC = 4, XS = 8 };

/* Transports that support an operation (IBA table 44), and operations that may be inline. */
static const struct operation {
    uint8_t types;
    bool inlines;
} operations[] = {
    [IBV_WR_RDMA_WRITE] = { UC | RC | XS, true },      [IBV_WR_RDMA_WRITE_WITH_IMM] = { UC | RC | XS, true },
    [IBV_WR_SEND] = { UD | UC | RC | XS, true },       [IBV_WR_SEND_WITH_IMM] = { UD | UC | RC | XS, true },
    [IBV_WR_RDMA_READ] = { RC | XS, false },           [IBV_WR_ATOMIC_CMP_AND_SWP] = { RC | XS, false },
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = { RC | XS, false }, [IBV_WR_LOCAL_INV] = { UC | RC | XS, false },
    [IBV_WR_BIND_MW] = { UC | RC | XS, false },        [IBV_WR_SEND_WITH_INV] = { UC | RC | XS, true },
    [IBV_WR_ATOMIC_WRITE] = { RC | XS, true },
};

static int type_bit(uint8_t type)
{
    return type == IBV_QPT_UD ? UD : type == IBV_QPT_UC ? UC : type == IBV_QPT_RC ? RC : type == IBV_QPT_XRC_SEND ? XS : 0;
}

int va_check(const struct ve_qp *q, const struct ve_wr *wr)
{
    const struct operation *o = &operations[wr->opcode];
    enum ibv_qp_state state = q->state;

    if (wr->opcode >= sizeof operations / sizeof *operations || !(o->types & type_bit(q->s->type)))
        return EINVAL;
    if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
        return ENOMEM; /* C10-20 .. */
    if (wr->sges > q->max_sges || !q->max_send)
        return ENOMEM;
    if (wr->flags & IBV_SEND_INLINE) {
        uint64_t octets = 0;

        for (uint32_t i = 0; i < wr->sges; i++)
            octets += wr->sge[i].length;
        if (!o->inlines)
            return EINVAL;
        if (octets > q->max_inline)
            return ENOMEM;
    }
    if (q->s->type == IBV_QPT_UD && (!wr->ah || wr->ah->ah.pd->context != q->ex.qp_base.context))
        return EINVAL;
    return 0;
}

static struct ve_wr taken(const struct ve_qp *q, const struct ibv_send_wr *wr)
{
    struct ve_wr to = {
        .wr_id = wr->wr_id, .opcode = wr->opcode, .flags = wr->send_flags, .imm = wr->imm_data,
        .sges = (uint32_t)wr->num_sge, .sge = wr->sg_list,
    };

    if (q->s->type == IBV_QPT_UD) {
        to.ah = (struct ve_ah *)wr->wr.ud.ah;
        to.qpn = wr->wr.ud.remote_qpn;
        to.qkey = wr->wr.ud.remote_qkey;
        return to;
    }
    if (q->s->type == IBV_QPT_XRC_SEND)
        to.qpn = wr->qp_type.xrc.remote_srqn;
    if (wr->opcode == IBV_WR_BIND_MW) {
        to.mw = wr->bind_mw.mw;
        to.rkey = wr->bind_mw.rkey;
        to.bind = wr->bind_mw.bind_info;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        to.remote = wr->wr.atomic.remote_addr;
        to.rkey = wr->wr.atomic.rkey;
        to.compare = wr->wr.atomic.compare_add;
        to.swap = wr->wr.atomic.swap;
    } else {
        to.remote = wr->wr.rdma.remote_addr;
        to.rkey = wr->wr.rdma.rkey;
    }
    return to;
}

int va_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ve_qp *q = (struct ve_qp *)qp;
    int error = 0;

    ve_spin_lock(&q->lock);
    for (; wr; wr = wr->next) {
        struct ve_wr one = taken(q, wr);

        error = wr->num_sge < 0 ? EINVAL : va_check(q, &one);
        if (!error)
            error = ve_post(q, &one);
        if (error) {
            *bad = wr;
            break;
        }
    }
    ve_spin_unlock(&q->lock);
    if (error && ve_is_strict())
        ve_strict_not_posted(q, *bad, error);
    return error;
}

/* Flush the requests that were posted after the QP had failed. */
static void flush(struct ve_qp *q)
{
    vm_lock(&q->e->w, &q->s->lock);
    while (q->s->state == IBV_QPS_ERR && ve_next_receive(q->e, q->s, NULL)) {
        struct softib_cqe cqe = { .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV };

        ve_take_receive(q->e, q->s, NULL, &cqe, false);
    }
    vm_unlock(&q->s->lock);
}

static uint64_t octets_of(const struct ibv_recv_wr *wr)
{
    uint64_t octets = 0;

    for (int i = 0; i < wr->num_sge; i++)
        octets += wr->sg_list[i].length;
    return octets;
}

/* True if the queue is full with receives that wait or were not polled yet. */
static bool is_full(const struct va_qp *v)
{
    return v->q.s->rq_tail - __atomic_load_n(&v->q.receives_freed, __ATOMIC_RELAXED) >= v->q.s->rq_size;
}

int va_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct va_qp *v = (struct va_qp *)qp;
    struct softib_qp *s = v->q.s;
    int error = 0;

    ve_spin_lock(&v->receive_lock);
    for (; wr; wr = wr->next) {
        if (is_full(v)) /* a QP with an SRQ has no receive queue */
            error = ENOMEM;
        else if (__atomic_load_n(&s->state, __ATOMIC_RELAXED) == IBV_QPS_RESET || wr->num_sge < 0 ||
                 (uint32_t)wr->num_sge > s->rq_sges)
            error = EINVAL;
        else if (!va_write_receive(s->rq, s->rq_size, s->rq_sges, &v->there, s->rq_tail, wr))
            error = ENOMEM;
        if (error) {
            *bad = wr;
            break;
        }
        if (ve_is_strict() && s->type == IBV_QPT_UD && octets_of(wr) < 40)
            ve_warn("ibv_post_recv: a receive of a UD QP needs room for the 40 bytes of the GRH before the data; this one has %llu",
                    (unsigned long long)octets_of(wr));
        __atomic_store_n(&s->rq_tail, s->rq_tail + 1, __ATOMIC_RELEASE);
    }
    ve_spin_unlock(&v->receive_lock);
    if (error == ENOMEM && ve_is_strict())
        ve_strict_no_place("ibv_post_recv", qp->qp_num, s->rq_size, s->rq_tail - s->rq_head);
    else if (error && ve_is_strict())
        ve_warn("ibv_post_recv: QP %u is in RESET, or a receive has more SGEs than the %u of max_recv_sge", qp->qp_num, s->rq_sges);
    va_wake_waiter(&s->waiter); /* it begins with a barrier, which the read of the state below needs as well */
    if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == IBV_QPS_ERR)
        flush(&v->q);
    return error;
}
