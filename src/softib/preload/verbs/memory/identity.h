/* Which process a softib_process is, and whether it is one whose pid means something here. */
#ifndef SOFTIB_VERBS_MEMORY_IDENTITY_H
#define SOFTIB_VERBS_MEMORY_IDENTITY_H

#include "heap/shared_heap.h"

/* Inode of this process's PID namespace; 0: not known. */
uint64_t vm_pid_ns(void);
/* Which process this is, among those that forked from one another: a child in a new PID namespace may have its parent's pid. */
uint64_t vm_self(void);
/* Writes who this process is. */
void vm_identify(struct softib_process *self);
/* The process that `p` names still runs; in this PID namespace. */
bool vm_runs(const struct softib_process *p);

/*
 * It is in this process's PID namespace, so that its pid is its own here, too; and in its user namespace, in which alone the system
 * lets one process copy from and to another (ptrace(2), "Ptrace access mode checking").
 */
static inline bool vm_same_namespace(const struct vm_heap *w, uint32_t process)
{
    const struct softib_process *mine = vm_process(w, w->process), *p = vm_process(w, process);

    return mine->pid_ns && mine->pid_ns == p->pid_ns && mine->user_ns == p->user_ns;
}

#endif
