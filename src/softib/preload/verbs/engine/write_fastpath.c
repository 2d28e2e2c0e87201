/*
 * A small write with the same target as the last one (RC, inline, one packet): the common case for
 * a peer that polls a word in memory. The checks of the last write are cached, with the conditions
 * for their validity: the path (its epoch), the responder's QP (its entry in the table of numbers),
 * the key (its version, which changes whenever it is published again or unbound). All other conditions are checked with
 * each write, under the same hazard and lock as in request.c. If a check fails, nothing has been changed yet, and
 * request.c executes the request.
 */
#include "write_fastpath.h"
#include "loss.h"
#include "message.h"
#include "psn.h"
#include "../memory/hazards.h"
#include "../memory/heap/key_table.h"
#include "../memory/locks.h"
#include "../memory/heap/number_table.h"

/* Cache the range around `part` in which key `k` is mapped; from and to are remote addresses. */
static void whole(struct ve_engine *e, const struct softib_key *k, const struct ve_part *part, struct ve_write_target *a)
{
    uint64_t from = k->address, to = k->address + __atomic_load_n(&k->length, __ATOMIC_RELAXED);

    if (part->process != e->w.process) {
        const struct softib_file *file = vm_at(&e->w, k->file);

        from = from > file->from ? from : file->from;
        to = to < file->to ? to : file->to;
    }
    a->from = from - k->address + k->iova;
    a->length = to - from;
    a->here = part->here - (part->address - from);
}

void ve_write_target_keep(struct message *m, const struct ve_part *part)
{
    struct ve_qp *q = m->q;
    struct ve_write_target *a = &q->write_target;
    const struct softib_key *k = vm_key(&q->e->w, m->wr->rkey);
    uint64_t named = __atomic_load_n(vm_number(&q->e->w, q->s->dest_qpn), __ATOMIC_RELAXED);
    unsigned flags = q->route.is_global ? SV_WIRE_GRH : 0;

    if (a->rkey == m->wr->rkey && a->version == part->version && a->named == named && a->epoch == q->flow.epoch)
        return;
    a->rkey = 0;
    if (q->s->type != IBV_QPT_RC || !part->here || part->key || ve_may_lose(&q->flow, 0) || ve_may_lose(&q->flow, 1))
        return;
    whole(q->e, k, part, a);
    a->version = part->version;
    a->named = named;
    a->epoch = q->flow.epoch;
    a->domain = m->domain;
    a->qpn = m->peer->qpn;
    a->mtu = 128u << q->route.mtu;
    a->request = sv_wire_size_of(SV_MSG_WRITE, flags, 0, a->mtu).dwords;
    a->answer = sv_wire_size_of(SV_MSG_ACK, flags, 0, a->mtu).dwords;
    /* If a window was unbound meanwhile, `version` does not match. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&k->version, __ATOMIC_RELAXED) == a->version && a->length)
        a->rkey = m->wr->rkey;
}

/* Do the checks of accepts and in_partition in request.c, and of reach in respond.c. `peer` is locked. */
static bool still_takes(const struct ve_qp *q, const struct softib_qp *peer)
{
    const struct softib_qp *mine = q->s;
    const struct ve_write_target *a = &q->write_target;

    return peer->is == SOFTIB_IS_QP && peer->type == IBV_QPT_RC && peer->dest_qpn == mine->qpn && peer->qpn == a->qpn &&
           (peer->state == IBV_QPS_RTS || peer->state == IBV_QPS_RTR) && peer->rq_psn == q->sq_psn && !(mine->mig | peer->mig) &&
           peer->port == q->flow.dest && peer->established && peer->domain == a->domain &&
           peer->access & IBV_ACCESS_REMOTE_WRITE && sv_pkeys_match(peer->pkey, mine->pkey);
}

static bool still_opens(struct vm_heap *w, const struct ve_write_target *a)
{
    const struct softib_key *k = vm_key(w, a->rkey);

    return vm_key_is_there(w, a->rkey) && __atomic_load_n(&k->key, __ATOMIC_SEQ_CST) == a->rkey && __atomic_load_n(&k->version, __ATOMIC_ACQUIRE) == a->version;
}

bool ve_write_fast(struct ve_qp *q, const struct ve_wr *wr)
{
    const struct ve_write_target *a = &q->write_target;
    struct vm_heap *w = &q->e->w;
    uint64_t *hazard, length = wr->sge->length, at = wr->remote - a->from;
    struct softib_qp *peer;
    bool right;

    if (!length || length > a->mtu || at >= a->length || length > a->length - at || a->epoch != q->flow.epoch ||
        sv_flow_is_stale(&q->flow) || __atomic_load_n(&q->s->moves, __ATOMIC_RELAXED) != q->moves || q->rendezvous || q->flows_n)
        return false;
    vm_soon((uintptr_t)a->here + at); /* measured: if prefetched earlier, the reader takes the line back; after the lock
                                       * it is too late */
    peer = vm_number_hold(w, q->s->dest_qpn, &hazard);
    if (!peer)
        return false;
    vm_lock(w, &peer->lock);
    right = __atomic_load_n(vm_number(w, q->s->dest_qpn), __ATOMIC_RELAXED) == a->named && still_takes(q, peer) && still_opens(w, a);
    if (right) {
        ve_place(a->here + at, (const char *)(uintptr_t)wr->sge->addr, length);
        q->sq_psn = peer->rq_psn = ve_psn_after(q->sq_psn, 1);
    }
    vm_unlock(&peer->lock);
    vm_hazard_end(hazard);
    if (right) {
        sv_flow_count(&q->flow, 0, (struct sv_wire_size){ 1, a->request + (length + 3) / 4 });
        sv_flow_count(&q->flow, 1, (struct sv_wire_size){ 1, a->answer });
    }
    return right;
}
