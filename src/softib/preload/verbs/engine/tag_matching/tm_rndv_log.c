/*
 * A log, next to the tag list, of matched rendezvous that their senders must still complete. If a sender is killed
 * between the match and the FIN, the receiver completes the request itself, as an HCA does if its READ is no longer
 * answered.
 */
#include "../completion/complete.h"
#include "../receive.h"
#include "tag_matching.h"
#include "../scheduling/timer.h"
#include "../../memory/hazards.h"
#include "../../memory/locks.h"
#include "../../memory/heap/number_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ve_tagged_srq { /* of this process */
    uint64_t at;
    struct ve_tagged_srq *next;
};

static struct softib_rndv_record *record(struct ve_engine *e, const struct softib_tags *tags, uint32_t i)
{
    return (struct softib_rndv_record *)vm_at(&e->w, tags->rndv_log) + i;
}

/* -- the sender: the SRQ's lock is held on open, the receiver's process on close -- */

struct softib_rndv_record *ve_rndv_log_open(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *what)
{
    struct softib_tags *tags = vm_at(&e->w, srq->tags);

    for (uint32_t i = 0; i < tags->size; i++) {
        struct softib_rndv_record *o = record(e, tags, i);

        if (i >= tags->rndv_log_high && !vm_ring_reaches(&e->w, tags->rndv_log, tags->size * sizeof *o, &tags->rndv_log_there,
                                                         (i + 1) * sizeof *o))
            return NULL;
        if (i >= tags->rndv_log_high)
            tags->rndv_log_high = i + 1; /* first: must be visible if this process is killed */
        if (__atomic_load_n(&o->owner, __ATOMIC_ACQUIRE))
            continue;
        memcpy((char *)o + sizeof o->owner, (const char *)what + sizeof o->owner, sizeof *o - sizeof o->owner);
        __atomic_store_n(&o->owner, e->w.owner, __ATOMIC_RELEASE);
        return o;
    }
    return NULL; /* the log is full: if this process is killed, this rendezvous is lost */
}

void ve_rndv_log_settling(struct ve_engine *e, const struct softib_srq *srq, struct softib_rndv_record *o)
{
    if (!o)
        return;
    o->producer = __atomic_load_n(&ve_cq(e, srq->cq)->producer, __ATOMIC_ACQUIRE);
    __atomic_store_n(&o->settling, 1, __ATOMIC_RELEASE);
}

void ve_rndv_log_close(struct softib_rndv_record *o)
{
    if (o)
        __atomic_store_n(&o->owner, 0, __ATOMIC_RELEASE);
}

/* -- the receiver -- */

/* Return whether the sender completed the rendezvous, and was killed before it closed the record. */
static bool is_completed(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *o)
{
    struct softib_cq *cq = ve_cq(e, srq->cq);
    const struct softib_cqe *ring;
    bool found = false;
    uint32_t from = o->producer;

    if (!o->settling)
        return false;
    ve_lock_cq(e, cq);
    ring = vm_at(&e->w, cq->ring);
    if (cq->producer - from > cq->size)
        from = cq->producer - cq->size;
    for (; from != cq->producer && !found; from++) {
        const struct softib_cqe *cqe = &ring[from & (cq->size - 1)];

        found = cqe->wr_id == o->wr_id && cqe->opcode == IBV_WC_TM_RECV && cqe->owner == o->qpn && !(cqe->flags & IBV_WC_TM_MATCH);
    }
    vm_unlock(&cq->lock);
    return found;
}

/* Return whether the sender was killed after it wrote the record and before it took the tag, so that no message
 * arrived. */
static bool is_still_in_the_list(struct ve_engine *e, const struct softib_tags *tags, uint32_t handle)
{
    for (uint32_t i = tags->head; i != tags->tail; i++) {
        const struct softib_tag *entry = ve_tag_entry(e, tags, i);

        if (entry->handle == handle)
            return !entry->taken;
    }
    return false;
}

/* Complete the request for the sender. An unanswered READ ends its connection (9.9.2.4.2). */
static void complete_for(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *o)
{
    uint64_t *hazard;
    struct softib_qp *s = vm_number_hold(&e->w, o->qpn, &hazard);
    struct softib_cqe cqe = {
        .wr_id = o->wr_id, .status = IBV_WC_TM_RNDV_INCOMPLETE, .opcode = IBV_WC_TM_RECV, .byte_len = o->length, .qpn = o->qpn,
        .owner = o->qpn, .src_qp = o->src_qp, .flags = IBV_WC_TM_DATA_VALID,
    };

    if (s && s->is == SOFTIB_IS_QP && s->process == e->w.process && s->dest_qpn == o->src_qp && s->state != IBV_QPS_RESET) {
        ve_complete(e, srq->cq, &cqe, false);
        vm_lock(&e->w, &s->lock);
        ve_break_receiver(e, s);
        vm_unlock(&s->lock);
    }
    if (s)
        vm_hazard_end(hazard);
}

static bool look_at(struct ve_engine *e, struct softib_srq *srq)
{
    struct softib_tags *tags = vm_at(&e->w, srq->tags);
    bool open = false;

    for (uint32_t i = 0; i < __atomic_load_n(&tags->rndv_log_high, __ATOMIC_ACQUIRE) && i < tags->size; i++) {
        struct softib_rndv_record *o = record(e, tags, i);
        uint32_t owner = __atomic_load_n(&o->owner, __ATOMIC_ACQUIRE);
        bool came;

        if (!owner)
            continue;
        if (vm_owner_lives(&e->w, owner)) {
            open = true;
            continue;
        }
        vm_lock(&e->w, &srq->lock);
        came = !is_still_in_the_list(e, tags, o->handle);
        vm_unlock(&srq->lock);
        if (came && !is_completed(e, srq, o))
            complete_for(e, srq, o);
        ve_rndv_log_close(o);
    }
    return open;
}

bool ve_rndv_log_look(struct ve_engine *e)
{
    bool open = false;

    for (const struct ve_tagged_srq *t = e->tagged; t; t = t->next)
        open = look_at(e, vm_at(&e->w, t->at)) || open;
    return open;
}

int ve_tagged_begin(struct ve_engine *e, uint64_t srq)
{
    struct ve_tagged_srq *t = malloc(sizeof *t);

    if (!t)
        return ENOMEM;
    pthread_mutex_lock(&e->lock);
    *t = (struct ve_tagged_srq){ .at = srq, .next = e->tagged };
    e->tagged = t;
    ve_timer_begin(e);
    pthread_mutex_unlock(&e->lock);
    return 0;
}

void ve_tagged_end(struct ve_engine *e, uint64_t srq)
{
    pthread_mutex_lock(&e->lock);
    for (struct ve_tagged_srq **at = &e->tagged, *t; (t = *at); at = &t->next) {
        if (t->at == srq) {
            *at = t->next;
            free(t);
            break;
        }
    }
    pthread_mutex_unlock(&e->lock);
}
