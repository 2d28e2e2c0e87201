/* Locks in shared memory, and the check that their owners live. */
#include "locks.h"
#include "identity.h"
#include "processor.h"

#include <sched.h>

#ifndef SPINS /* tests that explore every order of steps do not spin */
#define SPINS 1000 /* spins before it yields the processor, for which the owner may be waiting */
#endif

bool vm_owner_lives(struct vm_heap *w, uint32_t owner)
{
    return __atomic_load_n(&vm_process(w, owner & 0xFFFF)->generation, __ATOMIC_ACQUIRE) == owner >> 16 &&
           vm_lives(w, owner & 0xFFFF);
}

bool vm_lives(struct vm_heap *w, uint32_t process)
{
    struct softib_process *p = vm_process(w, process);

    if (!__atomic_load_n(&p->alive, __ATOMIC_ACQUIRE))
        return false;
    return !vm_same_namespace(w, process) || vm_runs(p); /* only the daemon sees a death in another namespace */
}

bool vm_lock_slow(struct vm_heap *w, uint32_t *lock)
{
    for (uint32_t spins = 1;; spins++) {
        uint32_t owner = __atomic_load_n(lock, __ATOMIC_RELAXED);

        if (owner && spins % SPINS == 0) {
            sched_yield();
            if (spins % (2 * SPINS) == 0 && !vm_owner_lives(w, owner) && /* a yield takes long on a busy machine */
                __atomic_compare_exchange_n(lock, &owner, w->owner, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return true;
        }
        owner = 0;
        if (__atomic_compare_exchange_n(lock, &owner, w->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return false;
        vm_relax();
    }
}
