/* Hazards say that objects of another process are in use until their slot is cleared. */
#ifndef SOFTIB_VERBS_MEMORY_HAZARDS_H
#define SOFTIB_VERBS_MEMORY_HAZARDS_H

#include "heap/shared_heap.h"

/* Who holds one takes one of a later level only: each has slots of its own, so no one waits for those behind him. */
enum vm_level { VM_FIRST, VM_SECOND, VM_THIRD };
uint64_t *vm_hazard(struct vm_heap *w, uint32_t target, enum vm_level level);

static inline void vm_hazard_end(uint64_t *slot)
{
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

/* Returns when no one uses any more what was taken out of reach before the call: of this process, or of another. */
void vm_quiesce(struct vm_heap *w);
void vm_quiesce_of(struct vm_heap *w, uint32_t process);

#endif
