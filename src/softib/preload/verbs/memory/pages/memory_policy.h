/* Keep locks and NUMA policies of private memory when its pages are moved to a file. */
#ifndef SOFTIB_VERBS_KEEP_H
#define SOFTIB_VERBS_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#define VM_LOCKS 64 /* mappings of one region; further ones lose their locks */

struct vm_locks {
    uint64_t from, to;
    unsigned n;
    struct {
        uint64_t from, to;
        bool all; /* true: all pages are locked (mlock); false: pages are locked at the first access (MLOCK_ONFAULT) */
    } at[VM_LOCKS];
};

/* Collect the locked parts of [from, to). */
void vm_keep_locks(struct vm_locks *locks, uint64_t from, uint64_t to);
/* Lock the same parts again, up to `to`. */
void vm_relock(const struct vm_locks *locks, uint64_t to);

/* Return whether the memory has its own policy (mbind), in addition to that of its process. */
bool vm_has_policy(uint64_t address);
/* Apply the policies of [from, to) to the file `fd` from `at` on. Call it before the file has
 * pages. */
void vm_keep_policies(uint64_t from, uint64_t to, int fd, uint64_t at);

#endif
