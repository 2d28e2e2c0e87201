/* The table of keys: every process claims blocks of keys, and releases empty blocks. */
#include "key_table.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_OCTETS (SOFTIB_VERBS_BLOCK_KEYS * sizeof(struct softib_key))

/* Continue the tags and versions of the block, so that keys of its previous owner stay invalid for a while and
 * cached versions do not match. */
static void begin_block(struct vm_heap *w, uint32_t block)
{
    struct softib_key *keys = vm_key(w, block * SOFTIB_VERBS_BLOCK_KEYS << 8);
    uint64_t sequence = __atomic_add_fetch(&vm_head(w)->block_sequence, 1, __ATOMIC_RELAXED);

    for (int i = 0; i < SOFTIB_VERBS_BLOCK_KEYS; i++) {
        keys[i].tag = (uint8_t)sequence;
        keys[i].version = sequence << 32;
    }
}

/* Claim another block for this process. False: none left, or out of memory. */
static bool take_block(struct vm_heap *w)
{
    struct softib_verbs *head = vm_head(w);
    uint32_t *owners = vm_at(w, SOFTIB_VERBS_BLOCKS), hint = __atomic_load_n(&head->block_hint, __ATOMIC_ACQUIRE);

    if (w->blocks_n == w->blocks_room) {
        uint32_t room = w->blocks_room ? 2 * w->blocks_room : 16;
        uint32_t *more = realloc(w->blocks, room * sizeof *more);

        if (!more)
            return false;
        w->blocks = more;
        w->blocks_room = room;
    }
    for (uint32_t tries = 0; tries < SOFTIB_VERBS_BLOCKS_N; tries++) {
        uint32_t block = (hint + tries) % SOFTIB_VERBS_BLOCKS_N, none = 0;

        if (!vm_reserve_entries(w, SOFTIB_VERBS_BLOCKS, sizeof none, __atomic_load_n(&head->block_high, __ATOMIC_RELAXED), block, 1))
            return false;
        if (__atomic_load_n(&owners[block], __ATOMIC_RELAXED))
            continue;
        if (!vm_reserve(w, SOFTIB_VERBS_KEYS + block * BLOCK_OCTETS, BLOCK_OCTETS))
            return false;
        vm_raise(&head->block_high, block + 1);
        if (!__atomic_compare_exchange_n(&owners[block], &none, w->process, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        __atomic_compare_exchange_n(&head->block_hint, &hint, block + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
        begin_block(w, block);
        w->key_cursor = w->blocks_n * SOFTIB_VERBS_BLOCK_KEYS;
        w->blocks[w->blocks_n++] = block;
        return true;
    }
    return false;
}

/* Find a free key, round robin over this process's blocks: a released key is not reused at once. */
static struct softib_key *free_key(struct vm_heap *w, uint32_t *index)
{
    uint32_t n = w->blocks_n * SOFTIB_VERBS_BLOCK_KEYS;

    for (uint32_t tries = 0; tries < SOFTIB_VERBS_BLOCK_KEYS && tries < n; tries++) {
        uint32_t at = w->key_cursor++ % n;
        struct softib_key *entry;

        *index = w->blocks[at / SOFTIB_VERBS_BLOCK_KEYS] * SOFTIB_VERBS_BLOCK_KEYS + at % SOFTIB_VERBS_BLOCK_KEYS;
        entry = vm_key(w, *index << 8);
        if (*index && !__atomic_load_n(&entry->process, __ATOMIC_ACQUIRE))
            return entry;
    }
    return NULL;
}

struct softib_key *vm_key_take(struct vm_heap *w, uint32_t *key)
{
    struct softib_key *entry;
    uint32_t index = 0;

    pthread_mutex_lock(&w->lock);
    entry = free_key(w, &index);
    if (!entry && take_block(w))
        entry = free_key(w, &index);
    if (entry) {
        __atomic_store_n(&entry->process, (uint16_t)w->process, __ATOMIC_RELAXED);
        *key = index << 8 | (uint8_t)(entry->tag + 1);
    }
    pthread_mutex_unlock(&w->lock);
    return entry;
}

void vm_key_publish(struct softib_key *entry, uint32_t key)
{
    entry->tag = (uint8_t)key; /* binding of windows has advanced it */
    __atomic_store_n(&entry->version, entry->version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->key, key, __ATOMIC_SEQ_CST);
}

void vm_key_give(struct softib_key *entry)
{
    __atomic_store_n(&entry->key, 0, __ATOMIC_SEQ_CST);
}

#define KEPT 16     /* empty blocks that a process keeps */
#define LOOKS 4096  /* empty blocks are released after this many released keys, or half of all */

static bool is_empty(struct vm_heap *w, uint32_t block)
{
    const struct softib_key *keys = vm_key(w, block * SOFTIB_VERBS_BLOCK_KEYS << 8);

    for (int i = 0; i < SOFTIB_VERBS_BLOCK_KEYS; i++)
        if (__atomic_load_n(&keys[i].process, __ATOMIC_ACQUIRE))
            return false;
    return true;
}

static void give_block(struct vm_heap *w, uint32_t block)
{
    uint32_t *owners = vm_at(w, SOFTIB_VERBS_BLOCKS), *at = &vm_head(w)->block_hint, hint;

    if (fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(SOFTIB_VERBS_KEYS + block * BLOCK_OCTETS),
                  BLOCK_OCTETS))
        memset(vm_key(w, block * SOFTIB_VERBS_BLOCK_KEYS << 8), 0, BLOCK_OCTETS);
    __atomic_store_n(&owners[block], 0, __ATOMIC_RELEASE);
    hint = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (hint > block && !__atomic_compare_exchange_n(at, &hint, block, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* Release the empty blocks of this process, except a few. `w->lock` is held. */
static void give_empty_blocks(struct vm_heap *w)
{
    uint32_t stay = 0, empty = 0;

    for (uint32_t i = 0; i < w->blocks_n; i++) {
        if (is_empty(w, w->blocks[i]) && empty++ >= KEPT)
            give_block(w, w->blocks[i]);
        else
            w->blocks[stay++] = w->blocks[i];
    }
    w->blocks_n = stay;
    w->key_cursor = 0;
}

void vm_key_left(struct vm_heap *w, struct softib_key *entry)
{
    __atomic_store_n(&entry->process, 0, __ATOMIC_RELEASE);
    pthread_mutex_lock(&w->lock);
    if (++w->keys_left >= LOOKS && w->keys_left >= w->blocks_n * SOFTIB_VERBS_BLOCK_KEYS / 2) {
        w->keys_left = 0;
        give_empty_blocks(w);
    }
    pthread_mutex_unlock(&w->lock);
}
