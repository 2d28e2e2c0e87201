/* The receive side of a QP, used by an initiator that holds `peer->lock`. */
#include "receive.h"
#include "completion/complete.h"
#include "completion/events.h"
#include "keys.h"
#include "send.h"
#include "queue_pair/strict.h"

#include <string.h>

struct softib_srq *ve_srq_of(struct ve_engine *e, const struct softib_qp *peer)
{
    return peer->srq ? vm_at(&e->w, peer->srq) : NULL;
}

static struct softib_receive *entry(struct ve_engine *e, uint64_t ring, uint32_t sges, uint32_t place)
{
    size_t octets = sizeof(struct softib_receive) + sges * sizeof(struct softib_sge);

    return (struct softib_receive *)((char *)vm_at(&e->w, ring) + place * octets);
}

/* Return whether a receive is posted. The owner writes its cache line with every receive that it posts, so the line is
 * read only when all receives seen at the last read have been used. */
static bool has_receive(uint32_t head, uint32_t *seen, const uint32_t *tail)
{
    if (head == *seen)
        *seen = __atomic_load_n(tail, __ATOMIC_ACQUIRE);
    return head != *seen;
}

struct softib_receive *ve_next_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq)
{
    if (srq && srq->shuffles && !srq->tags)
        ve_shuffle(e, srq);
    if (srq)
        return has_receive(srq->head, &srq->seen, &srq->tail) ? entry(e, srq->ring, srq->sges, srq->head & (srq->size - 1)) : NULL;
    return peer->rq_size && has_receive(peer->rq_head, &peer->rq_seen, &peer->rq_tail)
               ? entry(e, peer->rq, peer->rq_sges, peer->rq_head & (peer->rq_size - 1)) : NULL;
}

void ve_complete_receive(struct ve_engine *e, uint64_t cq, struct softib_qp *peer, const struct softib_cqe *cqe, bool solicited)
{
    if (ve_complete(e, cq, cqe, solicited) || peer->state == IBV_QPS_ERR)
        return;
    ve_event(e, peer->process, peer->async, IBV_EVENT_QP_FATAL, peer->user);
    ve_break_receiver(e, peer);
}

void ve_take_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq, struct softib_cqe *cqe,
                     bool solicited)
{
    const struct softib_receive *receive = ve_next_receive(e, peer, srq);
    uint64_t freed = srq ? srq->freed | VE_SHARED_COUNT : peer->freed;
    bool reached = false;

    cqe->wr_id = receive->wr_id;
    cqe->qpn = cqe->owner = peer->qpn;
    memcpy(cqe->freed, &freed, sizeof cqe->freed);
    if (srq) {
        __atomic_store_n(&srq->head, srq->head + 1, __ATOMIC_RELEASE);
        reached = srq->limit && srq->tail - srq->head < srq->limit;
        if (reached)
            srq->limit = 0;
    } else {
        __atomic_store_n(&peer->rq_head, peer->rq_head + 1, __ATOMIC_RELEASE);
    }
    ve_complete_receive(e, srq && srq->cq ? srq->cq : peer->recv_cq, peer, cqe, solicited);
    if (reached)
        ve_event(e, srq->process, srq->async, IBV_EVENT_SRQ_LIMIT_REACHED, srq->user);
}

bool ve_receive_parts(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq,
                      const struct softib_receive *receive, uint64_t length, struct ve_part *parts, uint64_t *room)
{
    const struct softib_sge *sge = (const void *)(receive + 1);
    uint64_t left = length;

    *room = 0;
    for (uint32_t i = 0; i < receive->sges; i++) {
        uint64_t reached = left < sge[i].length ? left : sge[i].length;

        *room += sge[i].length;
        left -= reached;
        parts[i] = (struct ve_part){ 0 };
        if (reached && !ve_resolve(e, sge[i].lkey, sge[i].address, reached, IBV_ACCESS_LOCAL_WRITE,
                                   srq ? srq->domain : peer->domain, srq ? srq->process : peer->process, 0, &parts[i]))
            return false;
    }
    return true;
}

void ve_break_receiver(struct ve_engine *e, struct softib_qp *peer)
{
    struct softib_srq *srq = ve_srq_of(e, peer);

    if (peer->state == IBV_QPS_ERR)
        return;
    __atomic_store_n(&peer->state, IBV_QPS_ERR, __ATOMIC_RELEASE);
    if (srq) {
        ve_event(e, peer->process, peer->async, IBV_EVENT_QP_LAST_WQE_REACHED, peer->user);
        return;
    }
    while (ve_next_receive(e, peer, NULL)) {
        struct softib_cqe cqe = { .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV };

        ve_take_receive(e, peer, NULL, &cqe, false);
    }
}
