/* Completion queues: adding, polling, and notification. */
#ifndef SOFTIB_VERBS_ENGINE_COMPLETE_H
#define SOFTIB_VERBS_ENGINE_COMPLETE_H

#include "../engine.h"

static inline struct softib_cq *ve_cq(struct ve_engine *e, uint64_t at)
{
    return vm_at(&e->w, at);
}

/* `seq` of completion number `at`. */
static inline uint32_t ve_cqe_seq(uint32_t at)
{
    return (at + 1) | SOFTIB_CQE_THERE;
}

/* The lock is held to add or read completions. It may have been taken over from a process killed while adding. */
void ve_lock_cq(struct ve_engine *e, struct softib_cq *cq);
/* The next completion; NULL: there is none. `polling` is held. */
static inline const struct softib_cqe *ve_next_completion(struct ve_engine *e, const struct softib_cq *cq)
{
    const struct softib_cqe *ring = vm_at(&e->w, cq->ring), *cqe = &ring[cq->consumer & (cq->size - 1)];

    return __atomic_load_n(&cqe->seq, __ATOMIC_ACQUIRE) == ve_cqe_seq(cq->consumer) ? cqe : NULL;
}
/* Adds a completion. False: the CQ has overrun, which is its end, and the completion is lost: its QP must break (11.6.3.2). */
bool ve_complete(struct ve_engine *e, uint64_t cq, const struct softib_cqe *cqe, bool solicited);
/* A completion will be added: prefetch its entry from the processor that read it last. */
void ve_complete_soon(struct ve_engine *e, uint64_t cq);
/* Send a datagram to socket `number` of `process`. False: the socket is full. A closed socket accepts everything. */
bool ve_notify(struct ve_engine *e, uint32_t process, uint32_t number, const void *message, size_t octets);
/* A datagram for an event of `cq` that is pending: now, or when its owner has made room by reading (ve_owes_notification). */
void ve_notify_channel(struct ve_engine *e, struct softib_cq *cq);
/* An event of `cq` has no datagram, and it is the caller's now to send one. */
bool ve_owes_notification(struct softib_cq *cq);
/* Completions of `qpn` in `cq` do not exist any more, and no one is polling one. No lock of a QP is held. */
void ve_purge(struct ve_engine *e, uint64_t cq, uint32_t qpn);

#endif
