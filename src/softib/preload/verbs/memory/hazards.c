/* Hazards: raise them, and wait for them. */
#include "hazards.h"
#include "locks.h"
#include "processor.h"

#include <sched.h>

#ifndef SPINS /* tests that explore every order of steps do not spin */
#define SPINS 1000 /* spins before it yields the processor, for which the holder may be waiting */
#endif

uint64_t *vm_hazard(struct vm_heap *w, uint32_t target, enum vm_level level)
{
    static const struct { uint32_t from, n; } levels[] = { [VM_FIRST] = { 0, 16 }, [VM_SECOND] = { 16, 4 }, [VM_THIRD] = { 20, 4 } };
    static __thread uint64_t sequence;
    static __thread uint32_t mine;
    uint32_t from = levels[level].from, n = levels[level].n;
    uint64_t *slots = vm_process(w, w->process)->hazard, value = ++sequence << 16 | target;

    for (uint32_t tries = 1;; mine++, tries++) { /* usually the slot that this thread used before */
        uint64_t none = 0, *slot = &slots[from + mine % n];

        if (__atomic_compare_exchange_n(slot, &none, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return slot;
        if (tries % SOFTIB_VERBS_HAZARDS == 0)
            sched_yield();
    }
}

void vm_quiesce(struct vm_heap *w)
{
    vm_quiesce_of(w, w->process);
}

void vm_quiesce_of(struct vm_heap *w, uint32_t process)
{
    uint32_t high = __atomic_load_n(&vm_head(w)->process_high, __ATOMIC_SEQ_CST);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t number = 1; number <= high; number++) {
        struct softib_process *p = vm_process(w, number);

        for (unsigned i = 0; __atomic_load_n(&p->alive, __ATOMIC_ACQUIRE) && i < SOFTIB_VERBS_HAZARDS; i++) {
            uint64_t seen = __atomic_load_n(&p->hazard[i], __ATOMIC_SEQ_CST);

            if ((seen & 0xFFFF) != process)
                continue;
            for (uint32_t spins = 1; __atomic_load_n(&p->hazard[i], __ATOMIC_ACQUIRE) == seen; spins++) {
                vm_relax();
                if (spins % SPINS == 0) {
                    sched_yield();
                    if (!vm_lives(w, number))
                        break;
                }
            }
        }
    }
}
