/* Locks in shared memory: who finds one that its owner died with takes it over. */
#ifndef SOFTIB_VERBS_MEMORY_LOCKS_H
#define SOFTIB_VERBS_MEMORY_LOCKS_H

#include "heap/shared_heap.h"

bool vm_lives(struct vm_heap *w, uint32_t process);
/* Of who holds a lock. */
bool vm_owner_lives(struct vm_heap *w, uint32_t owner);
bool vm_lock_slow(struct vm_heap *w, uint32_t *lock);

/* True: it was taken over from one that died with it, who may have done half of what it guards. */
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
