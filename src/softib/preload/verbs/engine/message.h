/* A message in transit between request.c, which sends it, and respond.c, which receives it. */
#ifndef SOFTIB_VERBS_MESSAGE_H
#define SOFTIB_VERBS_MESSAGE_H

#include "copy.h"
#include "queue_pair/qp.h"

/* Properties of an opcode. */
struct kind {
    uint8_t message, recv_opcode;
    bool receives, writes, reads, atomic, imm, invalidates;
};

/* The message in transit: data for both sides. */
struct message {
    struct ve_qp *q;
    const struct ve_wr *wr;
    const struct kind *kind;
    struct softib_qp *peer;
    struct softib_srq *srq;
    struct iovec iov[VE_SGES + 2];
    uint16_t process;               /* whose memory it reaches, and in which protection domain: */
    uint32_t domain;                /* the responder's; XRC: its SRQ's */
    unsigned iov_n;
    bool unwelcome;                 /* READ, atomic: what comes back is dropped here (a local key is wrong) */
    bool unexpected;                /* tag matching: it has a tag, and no entry takes it */
    uint64_t length;
};

static inline struct ve_outcome ve_lost(void)
{
    return (struct ve_outcome){ .wait = VE_LOST };
}

/* A write of `part` is done; the next may go there again (ve_write_fast). m->peer is locked. */
void ve_write_target_keep(struct message *m, const struct ve_part *part);
/* What the responder's HCA does with it: moves the bytes, completes the receive. m->peer and m->srq are locked. */
struct ve_outcome ve_respond(struct message *m);
/* Atomic with respect to all requests to this HCA (9.4.5): under the lock of its node. */
struct ve_outcome ve_atomic(struct message *m);
/* May the request of `length` bytes reach remote memory (of WRITE, READ, atomics), and which part of it? */
bool ve_reach(struct message *m, unsigned access, uint64_t length, struct ve_part *part);
/* A copy failed: the peer's memory is not there, or the peer is not, or it can neither be reached nor does it serve. */
struct ve_outcome ve_copy_failed(int error, enum ibv_wc_status status);
/* The responder finds the request wrong: its QP breaks, the requester gets `status`. */
struct ve_outcome ve_refuse(struct message *m, enum ibv_wc_status status, uint32_t event);

#endif
