/* Completion queues: create, resize, destroy. Polling: poll.c; channels: channel.c. */
#include "abi.h"
#include "../engine/completion/complete.h"
#include "../engine/completion/poll_batch.h"
#include "../engine/queue_pair/strict.h"
#include "../memory/locks.h"

#include <errno.h>
#include <stdlib.h>

static struct va_cq *create(struct ibv_context *context, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel,
                            int vector)
{
    struct va_cq *c;
    struct softib_cq *s;

    if (!cqe || cqe > VA_MAX_CQE || vector < 0 || vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    c = va_pages_there("MLX_CQ_ALLOC_TYPE") ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        errno = ENOMEM;
        return NULL;
    }
    c->at = vm_alloc(&va_engine.w, sizeof *s);
    s = c->at ? vm_at(&va_engine.w, c->at) : NULL;
    if (s) {
        s->size = s->room = va_power_of_two(cqe + 1);
        s->ring = vm_alloc_ring(&va_engine.w, s->size * sizeof(struct softib_cqe), &s->there);
    }
    if (!s || !s->ring) {
        vm_free(&va_engine.w, c->at, sizeof *s);
        free(c);
        errno = ENOMEM;
        return NULL;
    }
    c->s = s;
    c->ex.context = context;
    c->ex.channel = channel;
    c->ex.cq_context = cq_context;
    c->ex.cqe = (int)s->size - 1;
    pthread_mutex_init(&c->ex.mutex, NULL);
    pthread_cond_init(&c->ex.cond, NULL);
    s->process = (uint16_t)va_engine.w.process;
    s->async = va_context(context)->async;
    s->user = (uintptr_t)c;
    va_channel_join(c, (struct va_channel *)channel);
    va_enroll(c);
    return c;
}

static struct va_cq *make(struct ibv_context *context, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel,
                          int vector)
{
    struct va_cq *c;

    if (!va_count(context, VA_CQ))
        return NULL;
    c = create(context, cqe, cq_context, channel, vector);
    return c ? c : va_uncount(context, VA_CQ);
}

VA_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                       struct ibv_comp_channel *channel, int vector)
{
    struct va_cq *c = make(context, cqe < 0 ? 0 : (uint32_t)cqe, cq_context, channel, vector);

    return c ? ibv_cq_ex_to_cq(&c->ex) : NULL;
}

#define STANDARD (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |   \
                  IBV_WC_EX_WITH_TM_INFO)

struct ibv_cq_ex *va_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct va_cq *c;

    if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) {
        errno = EINVAL;
        return NULL;
    }
    if (attr->wc_flags & ~(uint64_t)STANDARD ||
        (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
         attr->flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && !va_pd(attr->parent_domain)->parent) {
        errno = EINVAL;
        return NULL;
    }
    c = make(context, attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector);
    if (!c)
        return NULL;
    if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
        c->pd = va_pd(attr->parent_domain);
        va_pd_hold(c->pd);
    }
    c->s->ignores_overrun = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    va_fill_cq_ex(&c->ex, attr->wc_flags);
    c->s->stamps = !!(attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK));
    return &c->ex;
}

VA_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct va_cq *c = (struct va_cq *)cq;

    if (__atomic_load_n(&c->users, __ATOMIC_ACQUIRE))
        return errno = EBUSY;
    if (ve_is_strict())
        ve_strict_cq_ends(&va_engine, c->at);
    va_dismiss(c);
    va_channel_leave(c);
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != c->events || cq->async_events_completed != c->async_events)
        pthread_cond_wait(&cq->cond, &cq->mutex);
    pthread_mutex_unlock(&cq->mutex);
    vm_free(&va_engine.w, c->s->ring, c->s->room * sizeof(struct softib_cqe));
    vm_free(&va_engine.w, c->at, sizeof *c->s);
    if (c->pd)
        va_pd_leave(c->pd);
    va_uncount(cq->context, VA_CQ);
    free(c);
    return 0;
}

VA_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    struct va_cq *c = (struct va_cq *)cq;
    struct softib_cq *s = c->s;
    uint32_t size = cqe > 0 && cqe <= VA_MAX_CQE ? va_power_of_two((uint32_t)cqe + 1) : 0, old;
    uint64_t ring = size ? vm_alloc(&va_engine.w, size * sizeof(struct softib_cqe)) : 0, unused;
    struct softib_cqe *to, *from;
    bool mine = ve_in_batch(s);
    int error = 0;

    if (!ring)
        return errno = size ? ENOMEM : EINVAL;
    if (ve_modes)
        ve_settle(&va_engine); /* completions of recently posted requests may still arrive */
    to = vm_at(&va_engine.w, ring);
    if (!mine)
        vm_lock(&va_engine.w, &s->polling);
    ve_lock_cq(&va_engine, s);
    from = vm_at(&va_engine.w, s->ring);
    if (s->producer - s->consumer >= size) { /* the CQ's pending completions must fit (11.2.8.3) */
        error = EINVAL;
        unused = ring;
        old = size;
    } else {
        for (uint32_t i = s->consumer; i != s->producer; i++)
            to[i & (size - 1)] = from[i & (s->size - 1)];
        unused = s->ring;
        old = s->room;
        s->ring = ring;
        s->size = s->room = size;
        s->there = size * (uint32_t)sizeof *to;
        cq->cqe = (int)size - 1;
    }
    vm_unlock(&s->lock);
    if (!mine)
        vm_unlock(&s->polling);
    vm_free(&va_engine.w, unused, old * sizeof(struct softib_cqe));
    return error ? (errno = error) : 0;
}

int va_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    (void)cq, (void)attr;
    return errno = EOPNOTSUPP; /* moderation has no effect: every completion sends its event at once */
}
