/* The identity of a softib_process, and whether its pid is valid in this process. */
#ifndef SOFTIB_VERBS_MEMORY_IDENTITY_H
#define SOFTIB_VERBS_MEMORY_IDENTITY_H

#include "heap/shared_heap.h"

/* Return the inode of this process's PID namespace; 0: unknown. */
uint64_t vm_pid_ns(void);
/* Return the identity of this process, which differs from that of its parents and children: a child in a new PID
 * namespace may have its parent's pid. */
uint64_t vm_self(void);
/* Store the identity of this process. */
void vm_identify(struct softib_process *self);
/* Return whether process `p`, in this PID namespace, still runs. */
bool vm_runs(const struct softib_process *p);

/*
 * Return whether `process` is in this process's PID namespace and user namespace. The first makes its pid valid here;
 * the system requires the second for copies between processes (ptrace(2), "Ptrace access mode checking").
 */
static inline bool vm_same_namespace(const struct vm_heap *w, uint32_t process)
{
    const struct softib_process *mine = vm_process(w, w->process), *p = vm_process(w, process);

    return mine->pid_ns && mine->pid_ns == p->pid_ns && mine->user_ns == p->user_ns;
}

#endif
