/* Tag matching at the responder, and the rendezvous that follow from it. */
#ifndef SOFTIB_VERBS_ENGINE_TAG_MATCHING_H
#define SOFTIB_VERBS_ENGINE_TAG_MATCHING_H

#include <sys/uio.h>

#include "../outcome.h"
#include "../queue_pair/qp.h"

/* -- tag_matching.c; the SRQ is locked -- */

enum ve_tagged { VE_NO_TAG, VE_UNEXPECTED, VE_MATCHED };

/* Entry `index` of the list, which ends as a softib_receive: what ve_receive_parts takes. */
struct softib_tag *ve_tag_entry(struct ve_engine *e, const struct softib_tags *tags, uint32_t index);
/*
 * A message of `iov` reaches the list of `srq`. MATCHED: it was delivered, or refused, and `outcome` says so. Else it is for
 * an ordinary receive.
 */
enum ve_tagged ve_match(struct ve_qp *q, const struct ve_wr *wr, struct softib_qp *peer, struct softib_srq *srq,
                        const struct iovec *iov, unsigned n, uint64_t length, struct ve_outcome *outcome);
/* An unexpected message is about to take the next receive. */
void ve_unexpected(struct ve_engine *e, struct softib_srq *srq);
/* How many have, modulo 2^16. */
uint16_t ve_unexpected_n(struct ve_engine *e, struct softib_srq *srq);

/* -- tm_rendezvous.c: the responder's part of a matched rendezvous, executed by the requester; `q->lock` is held -- */

/* The data of `header` will be fetched to the buffer of `entry`, which `peer` takes from `srq`'s list. ENOMEM. */
int ve_rndv_begin(struct ve_qp *q, const struct softib_qp *peer, struct softib_srq *srq, const struct softib_tag *entry,
           const char header[32]);
/* Fetches, answers with FIN and completes, as far as it can go now. */
void ve_rndv_fetch(struct ve_qp *q);
/* The connection ended before: what is open is completed as incomplete. */
void ve_rndv_abort(struct ve_qp *q);

/* -- tm_rndv_log.c: log of a rendezvous for the case that its sender is killed -- */

/* A record of `what` (but its owner); NULL: there is no room. */
struct softib_rndv_record *ve_rndv_log_open(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *what);
/* It will be completed now, and then closed. Nothing happens without a record. */
void ve_rndv_log_settling(struct ve_engine *e, const struct softib_srq *srq, struct softib_rndv_record *record);
void ve_rndv_log_close(struct softib_rndv_record *record);
/* Completes what the dead owe to this process; true: the living owe some. `e->lock` is held. */
bool ve_rndv_log_look(struct ve_engine *e);
/* An SRQ of this process has a list of tags; the timer thread looks after it. ENOMEM. */
int ve_tagged_begin(struct ve_engine *e, uint64_t srq);
void ve_tagged_end(struct ve_engine *e, uint64_t srq);

#endif
