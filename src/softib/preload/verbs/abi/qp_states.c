/* Queue pairs: states and attributes, as a program sets and reads them. */
#include "abi.h"
#include "../engine/queue_pair/modify.h"
#include "../engine/queue_pair/strict.h"
#include "../engine/scheduling/timer.h"

#include <errno.h>

/*
 * `state` of struct ibv_qp is the state that the application last set or queried, as libibverbs writes it only in these
 * two calls (libibverbs/verbs.c). Programs compare it with the queried state to find out whether a failure changed the
 * QP.
 */

static struct ve_qp *real(struct ibv_qp *qp)
{
    struct va_qp *v = (struct va_qp *)qp;

    return v->root ? &v->root->q : &v->q;
}

/* Return `mask` without the attributes of the half (send or receive) that this type of XRC QP lacks. The kernel ignores
 * these too (uverbs_cmd.c), and programs rely on it. */
static int of_the_half(enum ibv_qp_type type, int mask)
{
    if (type == IBV_QPT_XRC_SEND)
        return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return type == IBV_QPT_XRC_RECV ? mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY) : mask;
}

VA_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from = real(qp)->state;
    int taken = of_the_half(qp->qp_type, mask), error = ve_modify(real(qp), attr, taken);

    if (ve_is_strict())
        ve_strict_modified(real(qp), attr, taken, mask & ~taken, from, error);
    if (!error && mask & IBV_QP_STATE)
        qp->state = attr->qp_state;
    return error ? (errno = error) : 0;
}

VA_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    struct ve_qp *q = real(qp);

    ve_spin_lock(&q->lock);
    ve_catch_up(q);
    if (mask & IBV_QP_STATE) /* all other attributes are returned even if they are not in the mask */
        qp->state = q->state;
    *attr = q->attr;
    attr->qp_state = attr->cur_qp_state = q->state;
    attr->sq_psn = q->sq_psn;
    attr->rq_psn = __atomic_load_n(&q->s->rq_psn, __ATOMIC_RELAXED);
    attr->path_mig_state = __atomic_load_n(&q->s->mig, __ATOMIC_RELAXED);
    attr->cap = q->init.cap;
    attr->sq_draining = q->state == IBV_QPS_SQD && q->head != q->tail;
    ve_spin_unlock(&q->lock);
    if (init) {
        *init = q->init;
        init->qp_context = qp->qp_context;
    }
    return 0;
}

/* Vendor options are not supported; vendor 0 switches them off. */
VA_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    if (ece->comp_mask)
        return errno = EINVAL;
    return ece->vendor_id ? (errno = EOPNOTSUPP) : 0;
}

VA_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return errno = EOPNOTSUPP;
}

/* Data is written in ascending order, the last bytes last (engine/copy.c), as the flag in the man
 * page requires. */
VA_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    return !flags && (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM || op == IBV_WR_RDMA_READ);
}
