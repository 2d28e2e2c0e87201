/* Shared receive queues. XRC domains, whose SRQs are addressed by number, are in xrc.c. */
#include "abi.h"
#include "../engine/queue_pair/strict.h"
#include "../memory/hazards.h"
#include "../memory/locks.h"
#include "../memory/heap/number_table.h"
#include "../memory/wake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t ring_octets(uint32_t size, uint32_t sges)
{
    return size * (sizeof(struct softib_receive) + sges * sizeof(struct softib_sge));
}

/* Post one receive to a ring; the caller has checked that a slot is free. */
bool va_write_receive(uint64_t ring, uint32_t size, uint32_t sges, uint32_t *there, uint32_t place, const struct ibv_recv_wr *wr)
{
    size_t octets = ring_octets(1, sges), at = (place & (size - 1)) * octets;
    struct softib_receive *receive = (void *)((char *)vm_at(&va_engine.w, ring) + at);
    struct softib_sge *sge = (void *)(receive + 1);

    if (!vm_ring_reaches(&va_engine.w, ring, size * octets, there, at + octets))
        return false;
    receive->wr_id = wr->wr_id;
    receive->sges = (uint32_t)wr->num_sge;
    for (int i = 0; i < wr->num_sge; i++)
        sge[i] = (struct softib_sge){ wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey };
    return true;
}

uint32_t va_power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

static struct va_srq *make(struct ibv_context *context, struct ibv_pd *pd, struct ibv_srq_attr *attr)
{
    struct softib_srq *s;
    struct va_srq *q;

    if (attr->max_wr > VA_MAX_SEND - 1 || attr->max_sge > VA_MAX_SGES) {
        errno = EINVAL;
        return NULL;
    }
    if (!va_count(context, VA_SRQ))
        return NULL;
    q = va_pages_there("MLX_SRQ_ALLOC_TYPE") ? calloc(1, sizeof *q) : NULL;
    if (!q) {
        va_uncount(context, VA_SRQ);
        errno = ENOMEM;
        return NULL;
    }
    q->at = vm_alloc(&va_engine.w, sizeof *s);
    s = q->at ? vm_at(&va_engine.w, q->at) : NULL;
    if (s) {
        s->size = va_power_of_two(attr->max_wr);
        s->sges = attr->max_sge ? attr->max_sge : 1;
        s->ring = vm_alloc_ring(&va_engine.w, ring_octets(s->size, s->sges), &q->there);
    }
    if (!s || !s->ring) {
        vm_free(&va_engine.w, q->at, sizeof *s);
        free(q);
        va_uncount(context, VA_SRQ);
        errno = ENOMEM;
        return NULL;
    }
    q->s = s;
    q->type = IBV_SRQT_BASIC;
    q->max_sge = s->sges;
    q->srq.context = context;
    q->srq.pd = pd;
    pthread_mutex_init(&q->srq.mutex, NULL);
    pthread_cond_init(&q->srq.cond, NULL);
    ve_spin_init(&q->lock);
    s->is = SOFTIB_IS_SRQ;
    s->domain = va_domain(pd);
    s->shuffles = ve_is_strict() ? ve_shuffle_seed() : 0;
    s->process = (uint16_t)va_engine.w.process;
    s->async = va_context(context)->async;
    s->user = (uintptr_t)q;
    s->freed = (uintptr_t)&q->freed;
    va_pd_hold(va_pd(pd));
    attr->max_wr = s->size;
    attr->max_sge = s->sges;
    va_enroll(q);
    return q;
}

VA_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct va_srq *q = make(pd->context, pd, &attr->attr);

    if (!q)
        return NULL;
    q->srq.srq_context = attr->srq_context;
    return &q->srq;
}

/* What each type of SRQ requires (ibv_create_srq_ex(3)). */
static const uint32_t needs[] = {
    [IBV_SRQT_BASIC] = IBV_SRQ_INIT_ATTR_PD,
    [IBV_SRQT_XRC] = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
    [IBV_SRQT_TM] = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ,
};

struct ibv_srq *va_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
    struct va_srq *q;

    if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC && type != IBV_SRQT_TM) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if ((attr->comp_mask & needs[type]) != needs[type] ||
        (type == IBV_SRQT_TM && (!attr->tm_cap.max_num_tags || attr->tm_cap.max_num_tags > VA_MAX_TAGS ||
                                 attr->tm_cap.max_ops > VA_MAX_TAG_OPS))) {
        errno = EINVAL;
        return NULL;
    }
    q = make(context, attr->pd, &attr->attr);
    if (!q)
        return NULL;
    q->srq.srq_context = attr->srq_context;
    q->type = type;
    if (type == IBV_SRQT_BASIC)
        return &q->srq;
    q->cq = (struct va_cq *)attr->cq;
    q->s->cq = q->cq->at;
    __atomic_fetch_add(&q->cq->users, 1, __ATOMIC_RELAXED);
    if (type == IBV_SRQT_XRC) {
        q->xrcd = (struct va_xrcd *)attr->xrcd;
        q->s->xrcd = q->xrcd->domain;
        q->s->number = vm_number_take(&va_engine.w, q->at);
        __atomic_fetch_add(&q->xrcd->users, 1, __ATOMIC_RELAXED);
        if (!q->s->number) {
            ibv_destroy_srq(&q->srq);
            errno = ENOMEM;
            return NULL;
        }
    } else if (va_make_tags(q->s, attr->tm_cap.max_num_tags)) {
        ibv_destroy_srq(&q->srq);
        errno = ENOMEM;
        return NULL;
    }
    return &q->srq;
}

int va_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    const struct va_srq *q = (const struct va_srq *)srq;

    if (q->type != IBV_SRQT_XRC)
        return errno = EOPNOTSUPP;
    *number = q->s->number;
    return 0;
}

VA_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct va_srq *q = (struct va_srq *)srq;

    if (__atomic_load_n(&q->users, __ATOMIC_ACQUIRE))
        return errno = EBUSY;
    va_dismiss(q);
    if (q->s->number)
        vm_number_give(&va_engine.w, q->s->number);
    vm_quiesce(&va_engine.w);
    pthread_mutex_lock(&srq->mutex);
    while (srq->events_completed != q->events)
        pthread_cond_wait(&srq->cond, &srq->mutex);
    pthread_mutex_unlock(&srq->mutex);
    if (q->xrcd)
        __atomic_fetch_sub(&q->xrcd->users, 1, __ATOMIC_RELEASE);
    if (q->cq)
        __atomic_fetch_sub(&q->cq->users, 1, __ATOMIC_RELEASE);
    va_pd_leave(va_pd(srq->pd));
    q->s->is = 0;
    va_free_tags(q->s);
    va_uncount(srq->context, VA_SRQ);
    vm_free(&va_engine.w, q->s->ring, ring_octets(q->s->size, q->s->sges));
    vm_free(&va_engine.w, q->at, sizeof *q->s);
    free(q);
    return 0;
}

/* Move the posted receives to a ring of `size` entries. */
static int resize(struct va_srq *q, uint32_t size)
{
    struct softib_srq *s = q->s;
    size_t one = ring_octets(1, s->sges);
    uint64_t ring = vm_alloc(&va_engine.w, ring_octets(size, s->sges)), unused;
    uint32_t old;
    int error = 0;

    if (!ring)
        return errno = ENOMEM;
    ve_spin_lock(&q->lock);
    vm_lock(&va_engine.w, &s->lock);
    old = s->size;
    unused = s->ring;
    if (s->tail - s->head > size) {
        error = EINVAL;
        unused = ring;
        old = size;
    } else {
        for (uint32_t i = s->head; i != s->tail; i++)
            memcpy((char *)vm_at(&va_engine.w, ring) + (i & (size - 1)) * one,
                   (char *)vm_at(&va_engine.w, s->ring) + (i & (s->size - 1)) * one, one);
        s->ring = ring;
        s->size = size;
        q->there = (uint32_t)ring_octets(size, s->sges);
    }
    vm_unlock(&s->lock);
    ve_spin_unlock(&q->lock);
    vm_free(&va_engine.w, unused, ring_octets(old, s->sges));
    return error;
}

VA_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    struct va_srq *q = (struct va_srq *)srq;
    int error = 0;

    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) || (mask & IBV_SRQ_MAX_WR && (!attr->max_wr || attr->max_wr >= VA_MAX_SEND)) ||
        (mask & IBV_SRQ_LIMIT && attr->srq_limit > (mask & IBV_SRQ_MAX_WR ? attr->max_wr : q->s->size)))
        return errno = EINVAL;
    if (mask & IBV_SRQ_MAX_WR)
        error = resize(q, va_power_of_two(attr->max_wr));
    if (!error && mask & IBV_SRQ_LIMIT) {
        vm_lock(&va_engine.w, &q->s->lock);
        q->s->limit = attr->srq_limit;
        vm_unlock(&q->s->lock);
    }
    return error;
}

VA_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    const struct softib_srq *s = ((struct va_srq *)srq)->s;

    *attr = (struct ibv_srq_attr){ .max_wr = s->size, .max_sge = s->sges, .srq_limit = s->limit };
    return 0;
}

/* Wake the initiator that waits for a receive. */
void va_wake_waiter(uint16_t *waiter)
{
    uint16_t who;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!__atomic_load_n(waiter, __ATOMIC_RELAXED))
        return;
    who = __atomic_exchange_n(waiter, 0, __ATOMIC_SEQ_CST);
    if (who)
        vm_wake(&va_engine.w, who);
}

int va_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct va_srq *q = (struct va_srq *)srq;
    struct softib_srq *s = q->s;
    int error = 0;

    ve_spin_lock(&q->lock);
    for (; wr; wr = wr->next) {
        if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->sges)
            error = EINVAL;
        else if (s->tail - __atomic_load_n(&q->freed, __ATOMIC_RELAXED) >= s->size)
            error = ENOMEM;
        else if (!va_write_receive(s->ring, s->size, s->sges, &q->there, s->tail, wr))
            error = ENOMEM;
        if (error)
            break;
        __atomic_store_n(&s->tail, s->tail + 1, __ATOMIC_RELEASE);
    }
    ve_spin_unlock(&q->lock);
    if (error)
        *bad = wr;
    if (error == ENOMEM && ve_is_strict())
        ve_strict_no_place("ibv_post_srq_recv", s->number, s->size, s->tail - __atomic_load_n(&s->head, __ATOMIC_RELAXED));
    va_wake_waiter(&s->waiter);
    return error;
}
