/* Files of other processes, mapped here. */
#ifndef SOFTIB_VERBS_PEERS_PEER_MAPPINGS_H
#define SOFTIB_VERBS_PEERS_PEER_MAPPINGS_H

#include "../memory/heap/shared_heap.h"

/* Return the mapping of `file` of a key of another process, starting at its `from`; NULL if not
 * available. The process is held. */
char *vp_map_of(struct vm_heap *w, const struct softib_file *file, uint32_t key);
void vp_maps_tidy_slow(struct vm_heap *w);

/* Unmap the files of removed keys. */
static inline void vp_maps_tidy(struct vm_heap *w)
{
    if ((w->maps_n && w->drops != __atomic_load_n(&vm_head(w)->drops, __ATOMIC_RELAXED)) || w->old)
        vp_maps_tidy_slow(w);
}

#endif
