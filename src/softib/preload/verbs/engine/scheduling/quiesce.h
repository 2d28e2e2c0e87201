/* Wait until removed memory or objects are no longer used. */
#ifndef SOFTIB_VERBS_ENGINE_QUIESCE_H
#define SOFTIB_VERBS_ENGINE_QUIESCE_H

#include "../queue_pair/qp.h"

extern bool ve_fences;

/* Called before the first QP is created, and in a forked child. */
void ve_quiesce_begin(struct ve_engine *e);
void ve_quiesce_add(struct ve_qp *q);
void ve_quiesce_drop(struct ve_qp *q);
/*
 * Wait until no thread of any process uses memory or objects that were removed before the call. Must not be called
 * while executing a request: see vm_quiesce.
 */
void ve_quiesce(struct ve_engine *e);
/* Like ve_quiesce, for an imported region of another `process`: also wait for that process's requests. */
void ve_quiesce_of(struct ve_engine *e, uint32_t process);

/* Between these two calls keys may be looked up and memory copied. `q->lock` is held. */
static inline void ve_copies_begin(struct ve_qp *q)
{
    __atomic_store_n(&q->s->copies, q->s->copies + 1, __ATOMIC_RELAXED);
    if (__builtin_expect(ve_fences, false))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the waiter issues the barrier */
}

static inline void ve_copies_end(struct ve_qp *q)
{
    __atomic_store_n(&q->s->copies, q->s->copies + 1, __ATOMIC_RELEASE);
}

#endif
