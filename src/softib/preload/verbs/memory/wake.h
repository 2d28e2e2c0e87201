/* Sleep and wake of processes with pending work. */
#ifndef SOFTIB_VERBS_MEMORY_WAKE_H
#define SOFTIB_VERBS_MEMORY_WAKE_H

#include "heap/shared_heap.h"

/* Wake `process`: its pending work may continue. */
void vm_wake(struct vm_heap *w, uint32_t process);
/* Wake this process, even from vm_doze. */
void vm_rouse(struct vm_heap *w);
/* Return the word that vm_wake changes. Call this before checking for work, so that no wakeup is
 * missed. */
uint32_t vm_wakes(struct vm_heap *w);
/* Sleep until the word differs from `seen`, at most for `ns`. */
void vm_sleep(struct vm_heap *w, uint32_t seen, uint64_t ns, const bool *stop);
/* Sleep for `ns` without being woken by vm_wake, because another thread does the work. */
void vm_doze(struct vm_heap *w, uint32_t seen, uint64_t ns);

#endif
