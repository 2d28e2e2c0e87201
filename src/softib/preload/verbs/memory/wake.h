/* Sleep and wake of processes with work that waits. */
#ifndef SOFTIB_VERBS_MEMORY_WAKE_H
#define SOFTIB_VERBS_MEMORY_WAKE_H

#include "heap/shared_heap.h"

/* Work that waits in `process` may go on. */
void vm_wake(struct vm_heap *w, uint32_t process);
/* The same in this process, also where it dozes. */
void vm_rouse(struct vm_heap *w);
/* What vm_wake moves. Read it before looking for work, and nothing is missed. */
uint32_t vm_wakes(struct vm_heap *w);
/* Sleeps until they are not `seen` any more, or until `ns` have passed. */
void vm_sleep(struct vm_heap *w, uint32_t seen, uint64_t ns, const bool *stop);
/* The same, but no one takes the trouble to wake it: another thread does its work. */
void vm_doze(struct vm_heap *w, uint32_t seen, uint64_t ns);

#endif
