/* Tag matching: the owner's changes to the list of an SRQ (ibv_post_srq_ops(3)). The matching itself is in
 * engine/tag_matching/tag_matching.c. */
#include "abi.h"
#include "../engine/completion/complete.h"
#include "../engine/tag_matching/tag_matching.h"
#include "../memory/locks.h"

#include <errno.h>
#include <string.h>

static size_t ring_octets(const struct softib_tags *tags)
{
    return tags->size * (sizeof(struct softib_tag) + tags->sges * sizeof(struct softib_sge));
}

int va_make_tags(struct softib_srq *s, uint32_t max)
{
    uint64_t at = vm_alloc(&va_engine.w, sizeof(struct softib_tags));
    struct softib_tags *tags = at ? vm_at(&va_engine.w, at) : NULL;

    if (!tags)
        return ENOMEM;
    tags->max = max;
    tags->size = va_power_of_two(max);
    tags->sges = VA_MAX_TAG_SGES;
    tags->ring = vm_alloc_ring(&va_engine.w, ring_octets(tags), &tags->there);
    tags->rndv_log = vm_alloc_ring(&va_engine.w, tags->size * sizeof(struct softib_rndv_record), &tags->rndv_log_there);
    s->tags = at; /* no QP has the SRQ yet */
    if (tags->ring && tags->rndv_log && !ve_tagged_begin(&va_engine, (uint64_t)((char *)s - va_engine.w.base)))
        return 0;
    va_free_tags(s);
    return ENOMEM;
}

void va_free_tags(struct softib_srq *s)
{
    struct softib_tags *tags = s->tags ? vm_at(&va_engine.w, s->tags) : NULL;

    if (!tags)
        return;
    ve_tagged_end(&va_engine, (uint64_t)((char *)s - va_engine.w.base));
    vm_free(&va_engine.w, tags->rndv_log, tags->size * sizeof(struct softib_rndv_record));
    vm_free(&va_engine.w, tags->ring, ring_octets(tags));
    vm_free(&va_engine.w, s->tags, sizeof *tags);
    s->tags = 0;
}

/* -- the list; the SRQ is locked -- */

/* Move the remaining entries over those that messages have taken. Only the owner does this, so no other process can die
 * in the middle of it. */
static void compact(struct softib_tags *tags)
{
    size_t octets = sizeof(struct softib_tag) + tags->sges * sizeof(struct softib_sge);
    uint32_t to = tags->head, armed = tags->head;

    for (uint32_t from = tags->head; from != tags->tail; from++) {
        const struct softib_tag *entry = ve_tag_entry(&va_engine, tags, from);

        if (entry->taken)
            continue;
        if (from != to)
            memcpy(ve_tag_entry(&va_engine, tags, to), entry, octets);
        to++;
        if (tags->armed - from - 1 < 1u << 31) /* from < armed */
            armed = to;
    }
    tags->tail = to;
    tags->armed = armed;
}

static int add(struct softib_tags *tags, struct ibv_ops_wr *wr)
{
    struct softib_tag *entry;
    struct softib_sge *sge;
    size_t end;

    if (wr->tm.add.num_sge < 0 || (uint32_t)wr->tm.add.num_sge > tags->sges)
        return EINVAL;
    if (tags->tail - tags->head >= tags->max)
        compact(tags);
    if (tags->tail - tags->head >= tags->max)
        return ENOMEM;
    entry = ve_tag_entry(&va_engine, tags, tags->tail);
    end = (size_t)((char *)entry - (char *)vm_at(&va_engine.w, tags->ring)) + ring_octets(tags) / tags->size;
    if (!vm_ring_reaches(&va_engine.w, tags->ring, ring_octets(tags), &tags->there, end))
        return ENOMEM;
    sge = (void *)(entry + 1);
    *entry = (struct softib_tag){
        .tag = wr->tm.add.tag, .mask = wr->tm.add.mask, .handle = ++tags->handles, .wr_id = wr->tm.add.recv_wr_id,
        .sges = (uint32_t)wr->tm.add.num_sge,
    };
    for (int i = 0; i < wr->tm.add.num_sge; i++)
        sge[i] = (struct softib_sge){ wr->tm.add.sg_list[i].addr, wr->tm.add.sg_list[i].length, wr->tm.add.sg_list[i].lkey };
    wr->tm.handle = entry->handle;
    tags->tail++;
    return 0;
}

/* Remove an entry from the list. False: a message took the entry first. */
static bool delete(struct softib_tags *tags, uint32_t handle)
{
    for (uint32_t i = tags->head; i != tags->tail; i++) {
        struct softib_tag *entry = ve_tag_entry(&va_engine, tags, i);

        if (entry->handle == handle && !entry->taken) {
            entry->taken = 1;
            return true;
        }
    }
    return false;
}

/* If the owner has seen all unexpected messages, make all entries match. */
static bool synchronized(struct softib_srq *s, struct softib_tags *tags, const struct ibv_ops_wr *wr)
{
    if (wr->flags & IBV_OPS_TM_SYNC || wr->opcode == IBV_WR_TAG_SYNC)
        tags->handled = wr->tm.unexpected_cnt & 0xFFFF;
    if (tags->handled != ve_unexpected_n(&va_engine, s))
        return false;
    tags->armed = tags->tail;
    return true;
}

static int one(struct va_srq *q, struct ibv_ops_wr *wr)
{
    static const uint8_t opcodes[] = {
        [IBV_WR_TAG_ADD] = IBV_WC_TM_ADD, [IBV_WR_TAG_DEL] = IBV_WC_TM_DEL, [IBV_WR_TAG_SYNC] = IBV_WC_TM_SYNC,
    };
    struct softib_tags *tags = vm_at(&va_engine.w, q->s->tags);
    struct softib_cqe cqe = { .wr_id = wr->wr_id, .status = IBV_WC_SUCCESS };
    int error = 0;

    if (wr->opcode > IBV_WR_TAG_SYNC)
        return EINVAL;
    cqe.opcode = opcodes[wr->opcode];
    vm_lock(&va_engine.w, &q->s->lock);
    if (wr->opcode == IBV_WR_TAG_ADD)
        error = add(tags, wr);
    else if (wr->opcode == IBV_WR_TAG_DEL && !delete(tags, wr->tm.handle))
        cqe.status = IBV_WC_TM_ERR;
    if (!error && !synchronized(q->s, tags, wr))
        cqe.flags = IBV_WC_TM_SYNC_REQ;
    if (!error && (wr->flags & IBV_OPS_SIGNALED || cqe.status != IBV_WC_SUCCESS))
        ve_complete(&va_engine, q->s->cq, &cqe, false);
    vm_unlock(&q->s->lock);
    return error;
}

/* Each operation is complete when the call returns, so there are never too many outstanding. */
int va_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
    struct va_srq *q = (struct va_srq *)srq;
    int error = q->s->tags ? 0 : EOPNOTSUPP;

    for (; wr; wr = wr->next) {
        error = error ? error : one(q, wr);
        if (error) {
            *bad = wr;
            break;
        }
    }
    return error;
}
