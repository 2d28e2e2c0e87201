/* The shared memory of verbs, as one process sees it. A struct vm_heap is one process's: a test may have two in one. */
#ifndef SOFTIB_VERBS_MEMORY_H
#define SOFTIB_VERBS_MEMORY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared.h"

_Static_assert(sizeof(struct softib_process) == 256 && offsetof(struct softib_process, hazard) == 64, "the slots have lines");
_Static_assert(sizeof(struct softib_key) == 64, "a key has its size");
_Static_assert(sizeof(struct softib_cqe) == 64, "a completion fills a cache line");
_Static_assert(sizeof(struct softib_cq) == 192 && offsetof(struct softib_cq, lock) == 64 &&
               offsetof(struct softib_cq, consumer) == 128, "three lines: still, adders, owner");
_Static_assert(sizeof(struct softib_srq) == 192 && offsetof(struct softib_srq, lock) == 64 &&
               offsetof(struct softib_srq, tail) == 128, "three lines: still, takers, owner");
_Static_assert(sizeof(struct softib_tag) == offsetof(struct softib_tag, wr_id) + sizeof(struct softib_receive),
               "a tag ends as a receive");
_Static_assert(sizeof(struct softib_qp) == 320 && offsetof(struct softib_qp, lock) == 64 && offsetof(struct softib_qp, rq) == 128 &&
               offsetof(struct softib_qp, rq_tail) == 192 && offsetof(struct softib_qp, copies) == 256,
               "five lines: still, initiators, still, owner, who executes its requests");

#define VM_CLASSES 1024 /* sizes of 64 octets' multiples up to a chunk */

struct vm_map { /* a file of another process, mapped here: softib_file */
    uint32_t key;
    uint64_t from, to, at, device, inode;
    char *address;
};

struct vm_old;

struct vm_heap {
    char *base;
    int fd;
    uint32_t process;
    uint32_t owner;            /* of a lock that this process holds */
    char folder[256];
    pthread_mutex_t lock;
    uint64_t slabs[VM_CLASSES]; /* heap.c: chunks with room for an object of a size */
    uint32_t *blocks;          /* of keys: its own */
    uint32_t blocks_n, blocks_room, key_cursor;
    uint32_t keys_left;        /* since it was last looked which blocks are empty */
    struct vm_map *maps;       /* by key index modulo VM_MAPS */
    uint32_t maps_n, drops;    /* those in use; what of the head's `drops` they know */
    struct vm_old *old;        /* mappings of keys that are gone */
};

#define VM_MAPS 4096

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

static inline uint64_t *vm_number(const struct vm_heap *w, uint32_t number)
{
    return (uint64_t *)(w->base + SOFTIB_VERBS_NUMBERS) + (number & (SOFTIB_VERBS_NUMBERS_N - 1));
}

static inline struct softib_key *vm_key(const struct vm_heap *w, uint32_t key)
{
    return (struct softib_key *)(w->base + SOFTIB_VERBS_KEYS) + (key >> 8);
}

/* Was its place ever anybody's? Behind that a look alone would take memory: the file is sparse. */
static inline bool vm_key_is_there(const struct vm_heap *w, uint32_t key)
{
    return (key >> 8) / SOFTIB_VERBS_BLOCK_KEYS < __atomic_load_n(&vm_head(w)->block_high, __ATOMIC_RELAXED);
}

static inline struct softib_member *vm_members(const struct vm_heap *w)
{
    return (struct softib_member *)(w->base + SOFTIB_VERBS_MEMBERS);
}

/* Maps `folder`/verbs, making it where it is not, as process `number`. 0 or -errno. */
int vm_open(struct vm_heap *w, const char *folder, uint32_t number, uint64_t started);
/* The version that the head of `folder`/verbs names; 0: it cannot be read. */
uint32_t vm_version(const char *folder);
/* After a fork: the child is `number` and owns nothing of what is there. */
void vm_renumber(struct vm_heap *w, uint32_t number, uint64_t started);
void vm_close(struct vm_heap *w);

/* Zeroed memory in the heap; 0: none left. */
uint64_t vm_alloc(struct vm_heap *w, size_t octets);
void vm_free(struct vm_heap *w, uint64_t offset, size_t octets);

/* The table of numbers holds process << 48 | offset: whose hazard to raise is known before the object is looked at. */
#define VM_NUMBER_PROCESS 48

/* A number (QPN, SRQN) that leads to `object` of this process; 0: none left. Never 0, 1 or the multicast QPN. */
uint32_t vm_number_take(struct vm_heap *w, uint64_t object);
/*
 * The object that `number` leads to, NULL where there is none or its process is dead. Its process's objects are held until
 * vm_hazard_end(*hazard).
 */
void *vm_number_hold(struct vm_heap *w, uint32_t number, uint64_t **hazard);
/* The same for who holds one already. */
void *vm_number_hold_too(struct vm_heap *w, uint32_t number, uint64_t **hazard);
void vm_number_give(struct vm_heap *w, uint32_t number);
/* Whose object an entry of the table leads to. */
static inline uint32_t vm_number_process(uint64_t entry)
{
    return (uint32_t)(entry >> VM_NUMBER_PROCESS);
}

/* A free key's entry with `key` set last by vm_key_publish; NULL: none left. Free again when `process` is 0. */
struct softib_key *vm_key_take(struct vm_heap *w, uint32_t *key);
void vm_key_publish(struct softib_key *entry, uint32_t key);
/* From now on nobody finds it; see vm_quiesce. */
void vm_key_give(struct softib_key *entry);
/* One of this process's own is free again: now and then blocks of free keys go back, and their pages to the system. */
void vm_key_left(struct vm_heap *w, struct softib_key *entry);

/* -- peer_mappings.c: files of other processes -- */

/* `file` of a key of another process, mapped here, from its `from` on; NULL where that cannot be. The process is held. */
char *vm_map_of(struct vm_heap *w, const struct softib_file *file, uint32_t key);
void vm_maps_tidy_slow(struct vm_heap *w);

/* Unmaps what belongs to keys that are gone. */
static inline void vm_maps_tidy(struct vm_heap *w)
{
    if ((w->maps_n && w->drops != __atomic_load_n(&vm_head(w)->drops, __ATOMIC_RELAXED)) || w->old)
        vm_maps_tidy_slow(w);
}

/* -- locks -- */

bool vm_lives(struct vm_heap *w, uint32_t process);
/* Of who holds a lock. */
bool vm_owner_lives(struct vm_heap *w, uint32_t owner);
bool vm_lock_slow(struct vm_heap *w, uint32_t *lock);

/* True: it was taken over from one that died with it, who may have done half of what it guards. */
static inline bool vm_lock(struct vm_heap *w, uint32_t *lock)
{
    uint32_t none = 0;

    return !__atomic_compare_exchange_n(lock, &none, w->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) && vm_lock_slow(w, lock);
}

static inline void vm_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static inline void vm_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The line that holds `at` will be written soon: it is asked for, whoever has it. Any address may be given. */
static inline void vm_soon(uintptr_t at)
{
#if defined(__x86_64__) /* the compiler makes a read of __builtin_prefetch, for want of -mprfchw */
    __asm__ volatile("prefetchw (%0)" : : "r"(at));
#else
    __builtin_prefetch((const void *)at, 1);
#endif
}

/* -- hazards: objects of `target` are in use until the slot is cleared -- */

/* Who holds one takes one of a later level only: each has slots of its own, so nobody waits for those behind him. */
enum vm_level { VM_FIRST, VM_SECOND, VM_THIRD };
uint64_t *vm_hazard(struct vm_heap *w, uint32_t target, enum vm_level level);

static inline void vm_hazard_end(uint64_t *slot)
{
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}

/* Returns when nobody uses any more what was taken out of reach before the call: of this process, or of another. */
void vm_quiesce(struct vm_heap *w);
void vm_quiesce_of(struct vm_heap *w, uint32_t process);

/* -- waking -- */

/* Work that waits in `process` may go on. */
void vm_wake(struct vm_heap *w, uint32_t process);
/* The same in this process, also where it dozes. */
void vm_rouse(struct vm_heap *w);
/* What vm_wake moves. Read it before looking for work, and nothing is missed. */
uint32_t vm_wakes(struct vm_heap *w);
/* Sleeps until they are not `seen` any more, or until `ns` have passed. */
void vm_sleep(struct vm_heap *w, uint32_t seen, uint64_t ns, const bool *stop);
/* The same, but nobody takes the trouble to wake it: another thread does its work. */
void vm_doze(struct vm_heap *w, uint32_t seen, uint64_t ns);

#endif
