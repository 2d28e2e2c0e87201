/* Tag matching at the responder, and the rendezvous that follow from it. */
#ifndef SOFTIB_VERBS_ENGINE_TAG_MATCHING_H
#define SOFTIB_VERBS_ENGINE_TAG_MATCHING_H

#include <sys/uio.h>

#include "../outcome.h"
#include "../queue_pair/qp.h"

/* -- tag_matching.c; the SRQ is locked -- */

enum ve_tagged { VE_NO_TAG, VE_UNEXPECTED, VE_MATCHED };

/* Return entry `index` of the list; its last fields form a softib_receive, for ve_receive_parts. */
struct softib_tag *ve_tag_entry(struct ve_engine *e, const struct softib_tags *tags, uint32_t index);
/*
 * Match a message of `iov` with the list of `srq`. MATCHED: it was delivered or rejected, see
 * `outcome`. Otherwise it needs an ordinary receive.
 */
enum ve_tagged ve_match(struct ve_qp *q, const struct ve_wr *wr, struct softib_qp *peer, struct softib_srq *srq,
                        const struct iovec *iov, unsigned n, uint64_t length, struct ve_outcome *outcome);
/* Called when an unexpected message is about to take the next receive. */
void ve_unexpected(struct ve_engine *e, struct softib_srq *srq);
/* Return the number of unexpected messages so far, modulo 2^16. */
uint16_t ve_unexpected_n(struct ve_engine *e, struct softib_srq *srq);

/* -- tm_rendezvous.c: the responder's part of a matched rendezvous, executed by the requester; `q->lock` is held -- */

/* Prepare to fetch the data of `header` to the buffer of `entry`, which `peer` takes from `srq`'s
 * list. ENOMEM. */
int ve_rndv_begin(struct ve_qp *q, const struct softib_qp *peer, struct softib_srq *srq, const struct softib_tag *entry,
           const char header[32]);
/* Fetch, answer with FIN and complete, as far as possible now. */
void ve_rndv_fetch(struct ve_qp *q);
/* Called when the connection has ended: complete open rendezvous with an error. */
void ve_rndv_abort(struct ve_qp *q);

/* -- tm_rndv_log.c: a log of rendezvous, in case their senders are killed -- */

/* Add a record of `what` (except its owner); NULL: no room. */
struct softib_rndv_record *ve_rndv_log_open(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *what);
/* Mark the record before the completion is added, then close it. No effect without a record. */
void ve_rndv_log_settling(struct ve_engine *e, const struct softib_srq *srq, struct softib_rndv_record *record);
void ve_rndv_log_close(struct softib_rndv_record *record);
/* Complete the rendezvous of dead senders; true: live senders have open ones. `e->lock` is held. */
bool ve_rndv_log_look(struct ve_engine *e);
/* Register an SRQ of this process that has a tag list, for checks by the timer thread. ENOMEM. */
int ve_tagged_begin(struct ve_engine *e, uint64_t srq);
void ve_tagged_end(struct ve_engine *e, uint64_t srq);

#endif
