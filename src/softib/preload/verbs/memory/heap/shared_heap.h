/* The shared memory of verbs as mapped by one process. A struct vm_heap represents one process; a
 * test may have two of them. */
#ifndef SOFTIB_VERBS_MEMORY_SHARED_HEAP_H
#define SOFTIB_VERBS_MEMORY_SHARED_HEAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared.h"

#define VM_CLASSES 1024 /* size classes: multiples of 64 bytes up to a chunk */

#define VM_MAPS 4096

struct vm_map { /* peers/peer_mappings.h: a file of another process, mapped here */
    uint32_t key;
    uint64_t from, to, at, device, inode;
    char *address;
};

struct vm_old;

struct vm_heap {
    char *base;
    int fd;
    uint32_t process;
    uint32_t owner;            /* word of a lock that this process holds */
    char folder[256];
    pthread_mutex_t lock;
    uint64_t slabs[VM_CLASSES]; /* heap.c: for each size, the first slab with room */
    uint32_t *blocks;          /* blocks of keys owned by this process */
    uint32_t blocks_n, blocks_room, key_cursor;
    uint32_t keys_left;        /* keys released since the last search for empty blocks */
    struct vm_map *maps;       /* by key index modulo VM_MAPS */
    uint32_t maps_n, drops;    /* mappings in use; value of the head's `drops` at the last check */
    struct vm_old *old;        /* mappings of removed keys */
};

static inline void *vm_at(const struct vm_heap *w, uint64_t offset)
{
    return w->base + offset;
}

static inline struct softib_verbs *vm_head(const struct vm_heap *w)
{
    return (struct softib_verbs *)w->base;
}

static inline struct softib_process *vm_process(const struct vm_heap *w, uint32_t number)
{
    return (struct softib_process *)(w->base + SOFTIB_VERBS_PROCESSES) + number;
}

static inline struct softib_member *vm_members(const struct vm_heap *w)
{
    return (struct softib_member *)(w->base + SOFTIB_VERBS_MEMBERS);
}

/* Raise `high` to at least `to`; other processes may raise it concurrently. */
static inline void vm_raise(uint32_t *high, uint32_t to)
{
    uint32_t now = __atomic_load_n(high, __ATOMIC_RELAXED);

    while (now < to && !__atomic_compare_exchange_n(high, &now, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

/* -- mapping.c -- */

/* Map `fd`, the file `folder`/verbs, as process `number`; with -1, open the file, and create it if
 * it does not exist. 0 or -errno. */
int vm_open(struct vm_heap *w, const char *folder, int fd, uint32_t number);
/* Version in the head of `folder`/verbs; 0: it cannot be read. */
uint32_t vm_version(const char *folder);
/* After a fork: the child is process `number` and owns none of the existing objects. */
void vm_renumber(struct vm_heap *w, uint32_t number);
void vm_close(struct vm_heap *w);

/* -- reserve.c -- */

/* Allocate the pages of these bytes of the file. False: no room, which is reported once on stderr. */
bool vm_reserve(const struct vm_heap *w, uint64_t at, uint64_t octets);

/* Allocate the pages of entries first .. first + n - 1 of the table at `table`, except those below `high`, which have
 * pages already. */
static inline bool vm_reserve_entries(const struct vm_heap *w, uint64_t table, uint64_t size, uint64_t high, uint64_t first, uint64_t n)
{
    return first + n <= high || vm_reserve(w, table + high * size, (first + n - high) * size);
}

/* -- heap.c -- */

/* Allocate zeroed memory in the heap; 0: none left. */
uint64_t vm_alloc(struct vm_heap *w, size_t octets);
/* Allocate more than a chunk, without pages: the caller reserves them. */
uint64_t vm_alloc_sparse(struct vm_heap *w, size_t octets);
void vm_free(struct vm_heap *w, uint64_t offset, size_t octets);

/* -- ring.c: queues, whose entries are used in order. A queue longer than a chunk gets its pages as it fills -- */

/* Like vm_alloc; `there`: number of bytes that have pages. */
uint64_t vm_alloc_ring(struct vm_heap *w, size_t octets, uint32_t *there);
/* Allocate the pages up to `end`, and a few more, of the ring of `octets` bytes at `ring`. False: no room. */
bool vm_extend_ring(const struct vm_heap *w, uint64_t ring, size_t octets, uint32_t *there, size_t end);

/* Return whether the bytes before `end` have pages. Call it before the first access, with the lock
 * for adding. */
static inline bool vm_ring_reaches(const struct vm_heap *w, uint64_t ring, size_t octets, uint32_t *there, size_t end)
{
    return end <= *there || vm_extend_ring(w, ring, octets, there, end);
}

#endif
