/* Files of other processes, mapped here. */
#ifndef SOFTIB_VERBS_MEMORY_PEER_MAPPINGS_H
#define SOFTIB_VERBS_MEMORY_PEER_MAPPINGS_H

#include "shared_heap.h"

struct vm_map { /* a file of another process, mapped here: softib_file */
    uint32_t key;
    uint64_t from, to, at, device, inode;
    char *address;
};

#define VM_MAPS 4096

/* `file` of a key of another process, mapped here, from its `from` on; NULL where that cannot be. The process is held. */
char *vm_map_of(struct vm_heap *w, const struct softib_file *file, uint32_t key);
void vm_maps_tidy_slow(struct vm_heap *w);

/* Unmaps what belongs to keys that are gone. */
static inline void vm_maps_tidy(struct vm_heap *w)
{
    if ((w->maps_n && w->drops != __atomic_load_n(&vm_head(w)->drops, __ATOMIC_RELAXED)) || w->old)
        vm_maps_tidy_slow(w);
}

#endif
