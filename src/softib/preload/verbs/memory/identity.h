/* Which process a softib_process is, and whether it is one whose pid means something here. */
#ifndef SOFTIB_VERBS_MEMORY_IDENTITY_H
#define SOFTIB_VERBS_MEMORY_IDENTITY_H

#include "shared_heap.h"

/* Writes who this process is. */
void vm_identify(struct softib_process *self);
/* The process that `p` names still runs; in this PID namespace. */
bool vm_runs(const struct softib_process *p);

/* It is in this process's PID namespace: its pid is its own here, too. */
static inline bool vm_is_near(const struct vm_heap *w, uint32_t process)
{
    uint64_t mine = vm_process(w, w->process)->pid_ns;

    return mine && mine == vm_process(w, process)->pid_ns;
}

#endif
