/*
 * Tag matching at the responder (rdma-core's Documentation/tag_matching.md, ibv_post_srq_ops(3)):
 * the first entry of the list with TMH.tag & mask == tag gets the message, without its header. An
 * unmatched message goes to an ordinary receive of the SRQ, including its header, and is counted:
 * entries added later do not match until the owner confirms that it has seen all unexpected
 * messages.
 */
#include "tag_matching.h"
#include "../completion/complete.h"
#include "../receive.h"
#include "../send.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <string.h>

#define WAITS (1ull << 32)

struct softib_tag *ve_tag_entry(struct ve_engine *e, const struct softib_tags *tags, uint32_t index)
{
    size_t octets = sizeof(struct softib_tag) + tags->sges * sizeof(struct softib_sge);

    return (struct softib_tag *)((char *)vm_at(&e->w, tags->ring) + (index & (tags->size - 1)) * octets);
}

/* Return the count of unexpected messages. Taking a receive and changing the count are two stores; if a process dies
 * between them, the count is corrected here, once the receive is taken. */
uint16_t ve_unexpected_n(struct ve_engine *e, struct softib_srq *srq)
{
    struct softib_tags *tags = vm_at(&e->w, srq->tags);
    uint64_t was = tags->unexpected;

    if (was & WAITS && srq->head - (uint32_t)was < 1u << 31) {
        was = ((was >> 48) + 1) << 48;
        __atomic_store_n(&tags->unexpected, was, __ATOMIC_RELEASE);
    }
    return (uint16_t)(was >> 48);
}

void ve_unexpected(struct ve_engine *e, struct softib_srq *srq)
{
    struct softib_tags *tags = vm_at(&e->w, srq->tags);
    uint64_t n = ve_unexpected_n(e, srq);

    __atomic_store_n(&tags->unexpected, n << 48 | WAITS | (srq->head + 1), __ATOMIC_RELEASE);
}

/* Copy the first bytes of a message to `to`. */
static void peek(const struct iovec *iov, unsigned n, char *to, size_t octets)
{
    for (unsigned i = 0; i < n && octets; i++) {
        size_t some = iov[i].iov_len < octets ? iov[i].iov_len : octets;

        memcpy(to, iov[i].iov_base, some);
        to += some;
        octets -= some;
    }
}

static unsigned without_header(const struct iovec *iov, unsigned n, struct iovec *to)
{
    size_t left = sizeof(struct ibv_tmh);
    unsigned k = 0;

    for (unsigned i = 0; i < n; i++) {
        size_t some = iov[i].iov_len < left ? iov[i].iov_len : left;

        left -= some;
        if (iov[i].iov_len > some)
            to[k++] = (struct iovec){ (char *)iov[i].iov_base + some, iov[i].iov_len - some };
    }
    return k;
}

static struct softib_tag *find(struct ve_engine *e, const struct softib_tags *tags, uint64_t tag)
{
    for (uint32_t i = tags->head; i != tags->armed; i++) {
        struct softib_tag *entry = ve_tag_entry(e, tags, i);

        if (!entry->taken && (tag & entry->mask) == entry->tag)
            return entry;
    }
    return NULL;
}

static void take(struct ve_engine *e, struct softib_tags *tags, struct softib_tag *entry)
{
    __atomic_store_n(&entry->taken, 1, __ATOMIC_RELEASE);
    while (tags->head != tags->armed && ve_tag_entry(e, tags, tags->head)->taken)
        __atomic_store_n(&tags->head, tags->head + 1, __ATOMIC_RELEASE);
}

/* Deliver to the matched buffer. */
static struct ve_outcome deliver(struct ve_qp *q, struct softib_qp *peer, struct softib_srq *srq,
                                 const struct softib_tag *entry, const struct iovec *iov, unsigned n, uint64_t length,
                                 bool rendezvous)
{
    struct ve_engine *e = q->e;
    struct ve_part parts[VE_SGES];
    struct iovec payload[VE_SGES + 2];
    uint64_t room;
    int error;

    if (!ve_receive_parts(e, peer, srq, (const struct softib_receive *)(const void *)&entry->wr_id, length, parts, &room))
        return ve_done(IBV_WC_LOC_PROT_ERR);
    if (length > room)
        return ve_done(IBV_WC_LOC_LEN_ERR);
    if (rendezvous)
        return ve_done(IBV_WC_SUCCESS);
    error = ve_put(e, srq->process, parts, entry->sges, payload, without_header(iov, n, payload));
    if (error && error != -EFAULT)
        return (struct ve_outcome){ .wait = VE_LOST };
    return ve_done(error ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
}

static enum ibv_wc_status requester_status(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? status : status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
}

enum ve_tagged ve_match(struct ve_qp *q, const struct ve_wr *wr, struct softib_qp *peer, struct softib_srq *srq,
                        const struct iovec *iov, unsigned n, uint64_t length, struct ve_outcome *outcome)
{
    struct softib_tags *tags = vm_at(&q->e->w, srq->tags);
    char header[sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh)] = "";
    const struct ibv_tmh *tmh = (const void *)header;
    const struct ibv_rvh *rvh = (const void *)(tmh + 1);
    struct softib_tag *entry;
    struct softib_cqe cqe = { .opcode = IBV_WC_TM_RECV, .owner = peer->qpn, .qpn = peer->qpn, .src_qp = q->s->qpn };
    uint64_t tag;
    bool rendezvous;

    if (length < sizeof *tmh || wr->opcode == IBV_WR_SEND_WITH_INV)
        return VE_NO_TAG;
    peek(iov, n, header, sizeof header);
    if (tmh->opcode != IBV_TMH_EAGER && tmh->opcode != IBV_TMH_RNDV)
        return VE_NO_TAG;
    tag = be64toh(tmh->tag);
    rendezvous = tmh->opcode == IBV_TMH_RNDV;
    entry = rendezvous && length < sizeof header ? NULL : find(q->e, tags, tag);
    if (!entry)
        return VE_UNEXPECTED;
    length = rendezvous ? be32toh(rvh->len) : length - sizeof *tmh;
    *outcome = deliver(q, peer, srq, entry, iov, n, length, rendezvous);
    if (outcome->wait)
        return VE_MATCHED;
    if (rendezvous && outcome->status == IBV_WC_SUCCESS && ve_rndv_begin(q, peer, srq, entry, header))
        *outcome = ve_done(IBV_WC_LOC_QP_OP_ERR); /* out of memory */
    cqe.wr_id = entry->wr_id;
    cqe.status = outcome->status;
    cqe.byte_len = (uint32_t)length;
    cqe.vendor_err = outcome->status == IBV_WC_SUCCESS ? tmh->app_ctx : 0; /* opaque: returned unchanged */
    memcpy((char *)&cqe + offsetof(struct softib_cqe, sl), &tag, sizeof tag);
    cqe.flags = IBV_WC_TM_MATCH | (rendezvous ? 0 : IBV_WC_TM_DATA_VALID);
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        cqe.imm = wr->imm;
        cqe.flags |= IBV_WC_WITH_IMM;
    }
    take(q->e, tags, entry);
    if (outcome->status == IBV_WC_SUCCESS)
        ve_complete_first(q, wr);
    ve_complete_receive(q->e, srq->cq, peer, &cqe, wr->flags & IBV_SEND_SOLICITED);
    if (outcome->status != IBV_WC_SUCCESS) {
        ve_break_receiver(q->e, peer);
        *outcome = ve_done(requester_status(outcome->status));
    }
    return VE_MATCHED;
}
