/*
 * Rendezvous (rdma-core's Documentation/tag_matching.md): the responder of a matched request reads the data, answers
 * with a FIN message and completes again. Here the requester executes all three steps, since it holds the data: a list
 * of outstanding steps, in order. A FIN needs a receive on the requester, and waits for one.
 */
#include "../completion/complete.h"
#include "../completion/events.h"
#include "../keys.h"
#include "../scheduling/quiesce.h"
#include "../receive.h"
#include "../send.h"
#include "tag_matching.h"
#include "../scheduling/timer.h"
#include "../../memory/hazards.h"
#include "../../memory/locks.h"
#include "../../memory/heap/number_table.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>

struct ve_rendezvous {
    struct ve_rendezvous *next;
    struct ibv_tmh fin;
    uint64_t address;               /* remote address of the data */
    uint32_t rkey, length;
    bool fetched;
    struct softib_rndv_record *record;     /* record for the receiver, in case this process is killed */
    struct softib_receive receive;  /* destination: the tag's buffer */
    struct softib_sge sge[];
};

int ve_rndv_begin(struct ve_qp *q, const struct softib_qp *peer, struct softib_srq *srq, const struct softib_tag *entry,
           const char header[32])
{
    struct ve_rendezvous *rendezvous = malloc(sizeof *rendezvous + entry->sges * sizeof rendezvous->sge[0]), **end = &q->rendezvous;
    struct ibv_rvh rvh;

    if (!rendezvous)
        return ENOMEM;
    memcpy(&rendezvous->fin, header, sizeof rendezvous->fin);
    memcpy(&rvh, header + sizeof rendezvous->fin, sizeof rvh);
    rendezvous->fin.opcode = IBV_TMH_FIN; /* tag and application context are returned unchanged */
    rendezvous->address = be64toh(rvh.va);
    rendezvous->rkey = be32toh(rvh.rkey);
    rendezvous->length = be32toh(rvh.len);
    rendezvous->fetched = false;
    rendezvous->record = ve_rndv_log_open(q->e, srq, &(struct softib_rndv_record){ .handle = entry->handle, .wr_id = entry->wr_id, .qpn = peer->qpn,
                                                                  .src_qp = q->s->qpn, .length = rendezvous->length });
    rendezvous->next = NULL;
    rendezvous->receive = (struct softib_receive){ .wr_id = entry->wr_id, .sges = entry->sges };
    memcpy(rendezvous->sge, entry + 1, entry->sges * sizeof rendezvous->sge[0]);
    while (*end)
        end = &(*end)->next;
    *end = rendezvous;
    return 0;
}

static struct ve_rendezvous *done(struct ve_qp *q)
{
    struct ve_rendezvous *rendezvous = q->rendezvous;

    q->rendezvous = rendezvous->next;
    free(rendezvous);
    return q->rendezvous;
}

/* Add the second completion of the responder. */
static void settle(struct ve_qp *q, const struct softib_qp *peer, const struct softib_srq *srq, enum ibv_wc_status status)
{
    struct softib_cqe cqe = {
        .wr_id = q->rendezvous->receive.wr_id, .status = status, .opcode = IBV_WC_TM_RECV, .byte_len = q->rendezvous->length,
        .qpn = peer->qpn, .owner = peer->qpn, .src_qp = q->s->qpn, .flags = IBV_WC_TM_DATA_VALID,
    };

    ve_rndv_log_settling(q->e, srq, q->rendezvous->record);
    ve_complete(q->e, srq->cq, &cqe, false);
    ve_rndv_log_close(q->rendezvous->record);
}

/* Execute the responder's RDMA READ. Its packets are counted on the reverse path. */
static enum ibv_wc_status fetch(struct ve_qp *q, struct softib_qp *peer, struct softib_srq *srq)
{
    struct ve_rendezvous *rendezvous = q->rendezvous;
    struct ve_part source, parts[VE_SGES];
    struct iovec from;
    uint64_t room;
    uint32_t mtu = 128u << q->route.mtu;
    unsigned flags = q->route.is_global ? SV_WIRE_GRH : 0;

    sv_flow_count(&q->flow, 1, sv_wire_size_of(SV_MSG_READ_REQUEST, flags, rendezvous->length, mtu));
    if (!(q->s->access & IBV_ACCESS_REMOTE_READ) || !q->s->dest_reads ||
        (rendezvous->length && !ve_resolve(q->e, rendezvous->rkey, rendezvous->address, rendezvous->length, IBV_ACCESS_REMOTE_READ, q->s->domain,
                                     q->e->w.process, q->s->qpn, &source)))
        return IBV_WC_REM_ACCESS_ERR;
    if (!ve_receive_parts(q->e, peer, srq, &rendezvous->receive, rendezvous->length, parts, &room) || rendezvous->length > room)
        return IBV_WC_LOC_PROT_ERR;
    if (rendezvous->length && (!source.here || source.key))
        return IBV_WC_REM_ACCESS_ERR; /* an imported key: the memory belongs to another process */
    from = (struct iovec){ rendezvous->length ? source.here : NULL, rendezvous->length };
    if (rendezvous->length && ve_put(q->e, srq->process, parts, rendezvous->receive.sges, &from, 1))
        return IBV_WC_LOC_PROT_ERR;
    sv_flow_count(&q->flow, 0, sv_wire_size_of(SV_MSG_READ_RESPONSE, flags, rendezvous->length, mtu));
    return IBV_WC_SUCCESS;
}

/* Deliver the responder's FIN, which takes a receive of this QP. False: no receive is posted. */
static bool answer(struct ve_qp *q, const struct softib_qp *peer)
{
    struct softib_qp *s = q->s;
    struct softib_srq *srq = ve_srq_of(q->e, s);
    struct softib_receive *receive;
    struct ve_part parts[VE_SGES];
    struct iovec from = { &q->rendezvous->fin, sizeof q->rendezvous->fin };
    struct softib_cqe cqe = {
        .opcode = srq && srq->tags ? IBV_WC_TM_NO_TAG : IBV_WC_RECV, .byte_len = sizeof q->rendezvous->fin, .src_qp = peer->qpn,
        .pkey_index = s->pkey_index,
    };
    uint64_t room;
    unsigned flags = q->route.is_global ? SV_WIRE_GRH : 0;

    vm_lock(&q->e->w, &s->lock);
    if (srq)
        vm_lock(&q->e->w, &srq->lock);
    __atomic_store_n(srq ? &srq->waiter : &s->waiter, (uint16_t)q->e->w.process, __ATOMIC_SEQ_CST);
    receive = ve_next_receive(q->e, s, srq);
    if (receive) {
        if (!ve_receive_parts(q->e, s, srq, receive, sizeof q->rendezvous->fin, parts, &room))
            cqe.status = IBV_WC_LOC_PROT_ERR;
        else if (room < sizeof q->rendezvous->fin)
            cqe.status = IBV_WC_LOC_LEN_ERR;
        else if (ve_put(q->e, s->process, parts, receive->sges, &from, 1))
            cqe.status = IBV_WC_LOC_PROT_ERR;
        ve_take_receive(q->e, s, srq, &cqe, false);
        if (cqe.status != IBV_WC_SUCCESS)
            ve_break_receiver(q->e, s);
        sv_flow_count(&q->flow, 1, sv_wire_size_of(SV_MSG_SEND, flags, sizeof q->rendezvous->fin, 128u << q->route.mtu));
        sv_flow_count(&q->flow, 0, sv_wire_size_of(SV_MSG_ACK, flags, 0, 4096));
    }
    if (srq)
        vm_unlock(&srq->lock);
    vm_unlock(&s->lock);
    return receive != NULL;
}

/* A rendezvous fails like its READ: the requester's QP fails, and if a key is wrong, the responder's QP fails too. */
static void fail(struct ve_qp *q, struct softib_qp *peer, struct softib_srq *srq)
{
    settle(q, peer, srq, IBV_WC_TM_RNDV_INCOMPLETE);
    done(q);
    vm_lock(&q->e->w, &peer->lock);
    ve_break_receiver(q->e, peer);
    vm_unlock(&peer->lock);
}

/* Return the peer QP, held, if it still belongs to this connection. */
static struct softib_qp *hold_peer(struct ve_qp *q, uint64_t **hazard)
{
    struct softib_qp *peer = vm_number_hold(&q->e->w, q->s->dest_qpn, hazard);

    if (peer && (peer->is != SOFTIB_IS_QP || peer->type != IBV_QPT_RC || peer->dest_qpn != q->s->qpn || !peer->srq)) {
        vm_hazard_end(*hazard);
        return NULL;
    }
    return peer;
}

void ve_rndv_fetch(struct ve_qp *q)
{
    uint64_t *hazard;
    struct softib_qp *peer = hold_peer(q, &hazard);
    struct softib_srq *srq = peer ? ve_srq_of(q->e, peer) : NULL;
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    if (!peer || __atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) == IBV_QPS_ERR) {
        if (peer)
            vm_hazard_end(hazard);
        ve_rndv_abort(q);
        return;
    }
    while (q->rendezvous) {
        if (!q->rendezvous->fetched) {
            ve_copies_begin(q);
            status = fetch(q, peer, srq);
            ve_copies_end(q);
            if (status != IBV_WC_SUCCESS) {
                fail(q, peer, srq);
                break;
            }
            q->rendezvous->fetched = true;
        }
        if (!answer(q, peer))
            break;
        settle(q, peer, srq, IBV_WC_SUCCESS);
        done(q);
    }
    vm_hazard_end(hazard);
    if (status == IBV_WC_REM_ACCESS_ERR) {
        ve_event(q->e, q->s->process, q->s->async, IBV_EVENT_QP_ACCESS_ERR, q->s->user);
        ve_break(q);
    }
    if (q->rendezvous)
        ve_list(q);
}

void ve_rndv_abort(struct ve_qp *q)
{
    uint64_t *hazard;
    struct softib_qp *peer;

    if (!q->rendezvous)
        return;
    peer = hold_peer(q, &hazard);
    do {
        if (peer)
            settle(q, peer, ve_srq_of(q->e, peer), IBV_WC_TM_RNDV_INCOMPLETE);
    } while (done(q));
    if (peer)
        vm_hazard_end(hazard);
}
