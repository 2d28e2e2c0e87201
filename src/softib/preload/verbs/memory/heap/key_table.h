/* L_Keys and R_Keys, unique in the fabric. Lookup: engine/keys.h. */
#ifndef SOFTIB_VERBS_MEMORY_KEY_TABLE_H
#define SOFTIB_VERBS_MEMORY_KEY_TABLE_H

#include "shared_heap.h"

static inline struct softib_key *vm_key(const struct vm_heap *w, uint32_t key)
{
    return (struct softib_key *)(w->base + SOFTIB_VERBS_KEYS) + (key >> 8);
}

/* Return whether the key's block belongs to a process. If not, reading the entry would allocate pages of the sparse
 * file, for which there may be no room. */
static inline bool vm_key_is_there(const struct vm_heap *w, uint32_t key)
{
    const uint32_t *owners = (const uint32_t *)vm_at(w, SOFTIB_VERBS_BLOCKS);
    uint32_t block = (key >> 8) / SOFTIB_VERBS_BLOCK_KEYS;

    return block < __atomic_load_n(&vm_head(w)->block_high, __ATOMIC_RELAXED) && __atomic_load_n(&owners[block], __ATOMIC_ACQUIRE);
}

/* Return the entry of a free key; NULL: none left. vm_key_publish sets `key` last. The entry is
 * free again when `process` is 0. */
struct softib_key *vm_key_take(struct vm_heap *w, uint32_t *key);
void vm_key_publish(struct softib_key *entry, uint32_t key);
/* Remove the key, so that lookups fail; see vm_quiesce. */
void vm_key_give(struct softib_key *entry);
/* Called when a key of this process is free again. From time to time blocks of free keys are released, and their
 * pages returned to the system. */
void vm_key_left(struct vm_heap *w, struct softib_key *entry);

#endif
