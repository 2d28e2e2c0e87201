/* Queue pairs: create and destroy. States: qp_states.c; handles of XRC targets: xrc.c; posting:
 * post.c. */
#include "abi.h"
#include "../engine/completion/complete.h"
#include "../engine/queue_pair/modify.h"
#include "../engine/scheduling/quiesce.h"
#include "../engine/record.h"
#include "../engine/queue_pair/strict.h"
#include "../engine/scheduling/timer.h"
#include "../memory/hazards.h"
#include "../memory/heap/number_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool has_receives(enum ibv_qp_type type)
{
    return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD;
}

/* A sender never receives its own multicasts (10.5.2.2), so the flag that blocks them has no
 * effect. */
static bool possible_flags(const struct ibv_qp_init_attr_ex *a)
{
    return !a->create_flags || (a->qp_type == IBV_QPT_UD && a->create_flags == IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
}

/* Check the attributes of a new QP. Return 0, EINVAL or EOPNOTSUPP. */
static int check_init(const struct ibv_qp_init_attr_ex *a)
{
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
                           IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    bool target = a->qp_type == IBV_QPT_XRC_RECV;

    if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD && a->qp_type != IBV_QPT_XRC_SEND &&
        !target)
        return EOPNOTSUPP;
    if (a->comp_mask & ~known || (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && !possible_flags(a)))
        return EOPNOTSUPP;
    if (target ? !(a->comp_mask & IBV_QP_INIT_ATTR_XRCD) : !(a->comp_mask & IBV_QP_INIT_ATTR_PD))
        return EINVAL;
    if (!target && (!a->send_cq || (has_receives(a->qp_type) && !a->recv_cq)))
        return EINVAL;
    if (a->srq && ((struct va_srq *)a->srq)->type != IBV_SRQT_BASIC &&
        !(((struct va_srq *)a->srq)->type == IBV_SRQT_TM && a->qp_type == IBV_QPT_RC))
        return EINVAL;
    if (a->cap.max_send_wr > VA_MAX_SEND || a->cap.max_recv_wr > VA_MAX_SEND || a->cap.max_send_sge > VA_MAX_SGES ||
        a->cap.max_recv_sge > VA_MAX_SGES || a->cap.max_inline_data > VE_INLINE)
        return EINVAL;
    return 0;
}

static size_t ring_octets(const struct softib_qp *s)
{
    return s->rq_size * (sizeof(struct softib_receive) + s->rq_sges * sizeof(struct softib_sge));
}

/* Allocate the part that peers access. 0 or ENOMEM. */
static int make_shared(struct va_qp *v, const struct ibv_qp_init_attr_ex *a)
{
    struct ve_qp *q = &v->q;
    struct ve_engine *e = q->e;
    struct softib_qp *s;

    q->at = vm_alloc(&e->w, sizeof *s);
    if (!q->at)
        return ENOMEM;
    q->s = s = vm_at(&e->w, q->at);
    s->is = SOFTIB_IS_QP;
    s->type = (uint8_t)a->qp_type;
    s->state = IBV_QPS_RESET;
    s->process = (uint16_t)e->w.process;
    s->port = SV_NO_PORT;
    s->domain = a->comp_mask & IBV_QP_INIT_ATTR_PD ? va_domain(a->pd) : 0;
    s->xrcd = a->comp_mask & IBV_QP_INIT_ATTR_XRCD ? ((struct va_xrcd *)a->xrcd)->domain : 0;
    s->signal_all = !!a->sq_sig_all;
    s->recv_cq = has_receives(a->qp_type) ? ((struct va_cq *)a->recv_cq)->at : 0;
    s->send_cq = a->send_cq ? ((struct va_cq *)a->send_cq)->at : 0;
    s->srq = a->srq && has_receives(a->qp_type) ? ((struct va_srq *)a->srq)->at : 0;
    s->user = (uintptr_t)q;
    s->freed = (uintptr_t)&q->receives_freed;
    s->async = va_context(q->ex.qp_base.context)->async;
    s->node = q->device->node;
    if (has_receives(a->qp_type) && !s->srq && a->cap.max_recv_wr) {
        s->rq_size = va_power_of_two(a->cap.max_recv_wr);
        s->rq_sges = a->cap.max_recv_sge ? a->cap.max_recv_sge : 1;
        s->rq = vm_alloc_ring(&e->w, ring_octets(s), &v->there);
    }
    s->handles = 1;
    s->attr = s->type == IBV_QPT_XRC_RECV ? vm_alloc(&e->w, sizeof(struct ibv_qp_attr)) : 0;
    s->qpn = (s->rq_size && !s->rq) || (s->type == IBV_QPT_XRC_RECV && !s->attr) ? 0 : vm_number_take(&e->w, q->at);
    if (s->qpn)
        return 0;
    vm_free(&e->w, s->attr, sizeof(struct ibv_qp_attr));
    vm_free(&e->w, s->rq, ring_octets(s));
    vm_free(&e->w, q->at, sizeof *s);
    return ENOMEM;
}

static void hold_on(struct ve_qp *q, int by)
{
    struct ibv_qp *qp = &q->ex.qp_base;

    if (qp->pd && by > 0)
        va_pd_hold(va_pd(qp->pd));
    else if (qp->pd)
        va_pd_leave(va_pd(qp->pd));
    if (q->send_cq)
        __atomic_fetch_add(&((struct va_cq *)qp->send_cq)->users, (uint32_t)by, __ATOMIC_ACQ_REL);
    if (q->s->recv_cq)
        __atomic_fetch_add(&((struct va_cq *)qp->recv_cq)->users, (uint32_t)by, __ATOMIC_ACQ_REL);
    if (q->s->srq)
        __atomic_fetch_add(&((struct va_srq *)qp->srq)->users, (uint32_t)by, __ATOMIC_ACQ_REL);
    if (((struct va_qp *)q)->xrcd)
        __atomic_fetch_add(&((struct va_qp *)q)->xrcd->users, (uint32_t)by, __ATOMIC_ACQ_REL);
}

static void say_caps(struct ve_qp *q, struct ibv_qp_cap *cap)
{
    cap->max_send_wr = q->max_send;
    cap->max_send_sge = q->max_sges;
    cap->max_inline_data = q->max_inline;
    cap->max_recv_wr = q->s->rq_size;
    cap->max_recv_sge = q->s->rq_sges;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
    struct va_qp *v = NULL;
    struct ve_qp *q;
    int error = check_init(a);

    if (!error && va_pages_there("MLX_QP_ALLOC_TYPE"))
        v = calloc(1, sizeof *v);
    if (!v) {
        errno = error ? error : ENOMEM;
        return NULL;
    }
    q = &v->q;
    q->e = &va_engine;
    q->owns = 1;
    q->device = va_context(context)->device;
    q->ex.qp_base = (struct ibv_qp){
        .context = context, .qp_context = a->qp_context, .pd = a->comp_mask & IBV_QP_INIT_ATTR_PD ? a->pd : NULL,
        .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .state = IBV_QPS_RESET, .qp_type = a->qp_type,
    };
    v->xrcd = a->comp_mask & IBV_QP_INIT_ATTR_XRCD ? (struct va_xrcd *)a->xrcd : NULL;
    q->send_cq = a->qp_type == IBV_QPT_XRC_RECV ? 0 : ((struct va_cq *)a->send_cq)->at;
    q->max_send = q->send_cq && a->cap.max_send_wr ? va_power_of_two(a->cap.max_send_wr) : 0;
    q->max_sges = q->send_cq ? a->cap.max_send_sge ? a->cap.max_send_sge : 1 : 0;
    q->max_inline = q->send_cq ? a->cap.max_inline_data : 0;
    error = make_shared(v, a);
    if (!error && a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        error = va_fill_builder(q, a->send_ops_flags);
        if (error) {
            vm_number_give(&va_engine.w, q->s->qpn);
            vm_free(&va_engine.w, q->s->rq, ring_octets(q->s));
            vm_free(&va_engine.w, q->at, sizeof *q->s);
        }
    }
    if (error) {
        free(v);
        errno = error;
        return NULL;
    }
    q->ex.qp_base.qp_num = q->ex.qp_base.handle = q->s->qpn;
    pthread_mutex_init(&q->ex.qp_base.mutex, NULL);
    pthread_cond_init(&q->ex.qp_base.cond, NULL);
    ve_spin_init(&q->lock);
    ve_spin_init(&v->receive_lock);
    say_caps(q, &a->cap);
    q->init = (struct ibv_qp_init_attr){
        .qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap,
        .qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all,
    };
    hold_on(q, 1);
    if (ve_is_strict())
        ve_strict_made(q);
    ve_quiesce_add(q);
    va_enroll(q);
    if (ve_recording)
        va_record_qp(q);
    return &q->ex.qp_base;
}

struct ibv_qp *va_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *a)
{
    struct ibv_qp *qp;

    if (!va_count(context, VA_QP))
        return NULL;
    qp = create(context, a);
    return qp ? qp : va_uncount(context, VA_QP);
}

VA_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap,
        .qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
    };
    struct ibv_qp *qp = va_create_qp_ex(pd->context, &ex);

    if (qp)
        a->cap = ex.cap;
    return qp;
}

VA_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    struct ve_qp *q = (struct ve_qp *)qp;

    return q->builder ? &q->ex : NULL;
}

/* -- the end -- */

static bool in_a_group(uint32_t qpn)
{
    const struct softib_member *members = vm_members(&va_engine.w);

    for (uint32_t i = 0; i < __atomic_load_n(&vm_head(&va_engine.w)->member_high, __ATOMIC_ACQUIRE); i++)
        if (members[i].qpn == qpn)
            return true;
    return false;
}

static void end(struct va_qp *v)
{
    struct ve_qp *q = &v->q;
    struct ibv_qp *qp = &q->ex.qp_base;
    struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
    bool last = __atomic_fetch_sub(&q->s->handles, 1, __ATOMIC_ACQ_REL) == 1; /* otherwise another process still uses it */

    if (ve_is_strict())
        ve_strict_destroyed(q);
    if (last) {
        ve_modify(q, &reset, IBV_QP_STATE); /* after this no thread can post, and the QP's completions are purged */
        vm_number_give(&va_engine.w, q->s->qpn);
    } else if (q->s->process == va_engine.w.process) {
        q->s->user = 0; /* from now on its events go nowhere */
    }
    ve_unlist(q);
    ve_quiesce_drop(q);
    vm_quiesce(&va_engine.w);
    if (q->send_cq)
        ve_purge(q->e, q->send_cq, q->s->qpn); /* completions that another thread added meanwhile */
    if (q->s->recv_cq)
        ve_purge(q->e, q->s->recv_cq, q->s->qpn);
    va_dismiss(q);
    pthread_mutex_lock(&qp->mutex);
    while (qp->events_completed != q->events)
        pthread_cond_wait(&qp->cond, &qp->mutex);
    pthread_mutex_unlock(&qp->mutex);
    hold_on(q, -1);
    for (uint32_t i = 0; q->slots && i < q->max_send; i++) {
        free(q->slots[i].sge);
        free(q->slots[i].data);
    }
    free(q->slots);
    ve_sched_free(q);
    va_free_builder(q);
    if (last && q->s->process == va_engine.w.process) { /* otherwise the memory is freed with the process that created it */
        q->s->is = 0;
        vm_free(&va_engine.w, q->s->attr, sizeof(struct ibv_qp_attr));
        vm_free(&va_engine.w, q->s->rq, ring_octets(q->s));
        vm_free(&va_engine.w, q->at, sizeof *q->s);
    }
    va_uncount(qp->context, VA_QP);
    free(v);
}

VA_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct va_qp *v = (struct va_qp *)qp, *root = v->root ? v->root : v;

    if (!v->root && qp->qp_type == IBV_QPT_UD && in_a_group(qp->qp_num))
        return errno = EBUSY;
    if (v->root)
        free(v);
    if (__atomic_fetch_sub(&root->handles, 1, __ATOMIC_ACQ_REL) == 0)
        end(root); /* `handles` counts all but the first */
    return 0;
}
