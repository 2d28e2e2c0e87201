/* A hazard marks objects of another process as in use until its slot is cleared. */
#ifndef SOFTIB_VERBS_MEMORY_HAZARDS_H
#define SOFTIB_VERBS_MEMORY_HAZARDS_H

#include "heap/shared_heap.h"

/* A thread that holds a hazard raises only hazards of a later level. Each level has separate slots, so there is no
 * deadlock. */
enum vm_level { VM_FIRST, VM_SECOND, VM_THIRD };
uint64_t *vm_hazard(struct vm_heap *w, uint32_t target, enum vm_level level);

static inline void vm_hazard_end(uint64_t *slot)
{
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

/* Wait until no process uses objects that this or another process removed before the call. */
void vm_quiesce(struct vm_heap *w);
void vm_quiesce_of(struct vm_heap *w, uint32_t process);

#endif
