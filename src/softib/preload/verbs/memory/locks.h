/* Locks in shared memory: a process that meets the lock of a dead owner takes it over. */
#ifndef SOFTIB_VERBS_MEMORY_LOCKS_H
#define SOFTIB_VERBS_MEMORY_LOCKS_H

#include "heap/shared_heap.h"

bool vm_lives(struct vm_heap *w, uint32_t process);
/* Return whether the process that holds a lock is alive; `owner` is the word of the lock. */
bool vm_owner_lives(struct vm_heap *w, uint32_t owner);
bool vm_lock_slow(struct vm_heap *w, uint32_t *lock);

/* Take the lock. True: it was taken over from a dead owner, which may have left an incomplete change. */
static inline bool vm_lock(struct vm_heap *w, uint32_t *lock)
{
    uint32_t none = 0;

    return !__atomic_compare_exchange_n(lock, &none, w->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) && vm_lock_slow(w, lock);
}

static inline void vm_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
