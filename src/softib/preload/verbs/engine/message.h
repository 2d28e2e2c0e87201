/* A message in transit between request.c, its sender, and respond.c, its receiver. */
#ifndef SOFTIB_VERBS_MESSAGE_H
#define SOFTIB_VERBS_MESSAGE_H

#include "copy.h"
#include "queue_pair/qp.h"

/* Properties of an opcode. */
struct kind {
    uint8_t message, recv_opcode;
    bool receives, writes, reads, atomic, imm, invalidates;
};

/* A message in transit: the data that both sides use. */
struct message {
    struct ve_qp *q;
    const struct ve_wr *wr;
    const struct kind *kind;
    struct softib_qp *peer;
    struct softib_srq *srq;
    struct iovec iov[VE_SGES + 2];
    uint16_t process;               /* the process that owns the target memory, */
    uint32_t domain;                /* and the protection domain: the responder's, for XRC its SRQ's */
    unsigned iov_n;
    bool unwelcome;                 /* READ, atomic: the requester drops the response, because a local key is wrong */
    bool unexpected;                /* tag matching: the message has a tag that matches no entry */
    uint64_t length;
};

static inline struct ve_outcome ve_lost(void)
{
    return (struct ve_outcome){ .wait = VE_LOST };
}

/* Called after a write to `part`: the next one may use the same target (ve_write_fast). m->peer is locked. */
void ve_write_target_keep(struct message *m, const struct ve_part *part);
/* Do the work of the responder's HCA: copy the data and complete the receive. m->peer and m->srq are locked. */
struct ve_outcome ve_respond(struct message *m);
/* Execute an atomic operation. The lock of the node makes it atomic with respect to all requests to this HCA
 * (9.4.5). */
struct ve_outcome ve_atomic(struct message *m);
/* Check that the request of `length` bytes (WRITE, READ, atomic) may access remote memory, and
 * return the part. */
bool ve_reach(struct message *m, unsigned access, uint64_t length, struct ve_part *part);
/* Return the outcome of a failed copy: the peer's memory is not mapped, the peer has ended, or its memory is not
 * accessible and it does not serve copies. */
struct ve_outcome ve_copy_failed(int error, enum ibv_wc_status status);
/* Reject the request at the responder: its QP fails, and the requester gets `status`. */
struct ve_outcome ve_refuse(struct message *m, enum ibv_wc_status status, uint32_t event);

#endif
