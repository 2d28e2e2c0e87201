/*
 * A lock for threads of one process, which hold it for less than a microsecond. While the process has only one thread,
 * as most posting processes do, a plain store takes the lock: a locked instruction would wait until earlier stores are
 * visible, which takes as long as fetching a cache line from another processor. The plain store still sets the word, so
 * a thread started meanwhile sees it held.
 */
#ifndef SOFTIB_VERBS_SPIN_H
#define SOFTIB_VERBS_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../memory/processor.h"

/* Defined by glibc 2.32 and later. The reference is weak, so that a library built for an older glibc uses it if it
 * exists. */
extern char __libc_single_threaded __attribute__((weak));
#define VE_ONE_THREAD (&__libc_single_threaded && __libc_single_threaded)

#define VE_SPINS 1000

struct ve_spin {
    uint32_t held;
};

static inline void ve_spin_init(struct ve_spin *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELAXED);
}

/* Take the lock if it is free. False: it is not. */
static inline bool ve_spin_try(struct ve_spin *lock)
{
    if (!VE_ONE_THREAD)
        return !__atomic_exchange_n(&lock->held, 1, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&lock->held, __ATOMIC_ACQUIRE))
        return false;
    __atomic_store_n(&lock->held, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

static inline void ve_spin_lock(struct ve_spin *lock)
{
    for (uint32_t spins = 1; !ve_spin_try(lock); spins++) {
        while (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) && spins++ % VE_SPINS)
            vm_relax();
        if (spins % VE_SPINS == 0)
            sched_yield(); /* its holder may wait for this processor */
    }
}

static inline void ve_spin_unlock(struct ve_spin *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
}

#endif
