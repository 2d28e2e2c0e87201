/* What private memory keeps when its pages are moved to a file: locks and NUMA policies. */
#ifndef SOFTIB_VERBS_KEEP_H
#define SOFTIB_VERBS_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#define VM_LOCKS 64 /* mappings of one region; those beyond lose theirs */

struct vm_locks {
    uint64_t from, to;
    unsigned n;
    struct {
        uint64_t from, to;
        bool all; /* every page is in memory: mlock; else those that are touched: MLOCK_ONFAULT */
    } at[VM_LOCKS];
};

/* What is locked of [from, to). */
void vm_keep_locks(struct vm_locks *locks, uint64_t from, uint64_t to);
/* The same is locked again, up to `to`. */
void vm_relock(const struct vm_locks *locks, uint64_t to);

/* The memory there has a policy of its own (mbind), not only its process's. */
bool vm_has_policy(uint64_t address);
/* The policies of [from, to) become those of `fd` from `at` on. Before it has pages. */
void vm_keep_policies(uint64_t from, uint64_t to, int fd, uint64_t at);

#endif
