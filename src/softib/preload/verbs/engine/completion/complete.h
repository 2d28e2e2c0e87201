/* Completion queues: adding, polling, and notification. */
#ifndef SOFTIB_VERBS_ENGINE_COMPLETE_H
#define SOFTIB_VERBS_ENGINE_COMPLETE_H

#include "../engine.h"

static inline struct softib_cq *ve_cq(struct ve_engine *e, uint64_t at)
{
    return vm_at(&e->w, at);
}

/* Return `seq` of completion number `at`. */
static inline uint32_t ve_cqe_seq(uint32_t at)
{
    return (at + 1) | SOFTIB_CQE_THERE;
}

/* Take the lock to add or read completions. It may be taken over from a process killed while
 * adding. */
void ve_lock_cq(struct ve_engine *e, struct softib_cq *cq);
/* Return the next completion; NULL: none. `polling` is held. */
static inline const struct softib_cqe *ve_next_completion(struct ve_engine *e, const struct softib_cq *cq)
{
    const struct softib_cqe *ring = vm_at(&e->w, cq->ring), *cqe = &ring[cq->consumer & (cq->size - 1)];

    return __atomic_load_n(&cqe->seq, __ATOMIC_ACQUIRE) == ve_cqe_seq(cq->consumer) ? cqe : NULL;
}
/* Add a completion. False: the CQ overran and is in error, and the completion is lost: its QP must
 * fail (11.6.3.2). */
bool ve_complete(struct ve_engine *e, uint64_t cq, const struct softib_cqe *cqe, bool solicited);
/* A completion will be added: prefetch its entry from the processor that read it last. */
void ve_complete_soon(struct ve_engine *e, uint64_t cq);
/* Send a datagram to socket `number` of `process`. False: the socket is full. A closed socket
 * counts as success. */
bool ve_notify(struct ve_engine *e, uint32_t process, uint32_t number, const void *message, size_t octets);
/* Send a datagram for a pending event of `cq` now, or as soon as its owner has made room by reading other datagrams
 * (ve_owes_notification). */
void ve_notify_channel(struct ve_engine *e, struct softib_cq *cq);
/* Return whether an event of `cq` has no datagram yet; the caller must then send one. */
bool ve_owes_notification(struct softib_cq *cq);
/* Purge the completions of `qpn` from `cq`, and wait until no thread is polling one. No lock of a
 * QP may be held. */
void ve_purge(struct ve_engine *e, uint64_t cq, uint32_t qpn);

#endif
