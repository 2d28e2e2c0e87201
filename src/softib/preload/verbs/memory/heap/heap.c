/*
 * The heap: chunks of SOFTIB_VERBS_CHUNK bytes, each owned by one process. An object larger than a chunk gets several
 * chunks. Smaller ones come from slabs: chunks with objects of one size, whose head counts the objects in use. When the
 * last object of a slab is freed, its chunk is released and its pages are returned to the system. One slab of each size
 * is kept, so that a program that alternately creates and destroys one object does not allocate each time.
 */
#include "shared_heap.h"

#include <fcntl.h>
#include <string.h>

#define CHUNKS ((SOFTIB_VERBS_SIZE - SOFTIB_VERBS_HEAP) / SOFTIB_VERBS_CHUNK)

static uint64_t chunks_of(size_t octets)
{
    return (octets + SOFTIB_VERBS_CHUNK - 1) / SOFTIB_VERBS_CHUNK;
}

static uint32_t *owner_of(struct vm_heap *w, uint64_t chunk)
{
    return (uint32_t *)vm_at(w, SOFTIB_VERBS_OWNERS) + chunk;
}

/* Return whether these entries of `owners` have pages. Those above chunk_high do not, and reading them would allocate
 * memory. */
static bool owners_exist(struct vm_heap *w, uint64_t first, uint64_t n)
{
    return vm_reserve_entries(w, SOFTIB_VERBS_OWNERS, sizeof(uint32_t), __atomic_load_n(&vm_head(w)->chunk_high, __ATOMIC_RELAXED),
                              first, n);
}

/* Claim chunks first .. first + n - 1. Returns the number of free chunks before the first one of another process;
 * if it is less than n, none is claimed. */
static uint64_t claim(struct vm_heap *w, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t none = 0;

        if (__atomic_compare_exchange_n(owner_of(w, first + i), &none, w->process, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        for (uint64_t j = 0; j < i; j++)
            __atomic_store_n(owner_of(w, first + j), 0, __ATOMIC_RELEASE);
        return i;
    }
    return n;
}

static uint64_t claim_between(struct vm_heap *w, uint64_t from, uint64_t to, uint64_t n)
{
    while (from + n <= to && owners_exist(w, from, n)) {
        uint64_t got = __atomic_load_n(owner_of(w, from), __ATOMIC_RELAXED) ? 0 : claim(w, from, n);

        if (got == n)
            return from;
        from += got + 1;
    }
    return CHUNKS;
}

static uint64_t take_chunks(struct vm_heap *w, uint64_t n)
{
    struct softib_verbs *head = vm_head(w);
    uint64_t hint = __atomic_load_n(&head->chunk_hint, __ATOMIC_ACQUIRE), high, first;

    if (n > CHUNKS)
        return 0;
    first = claim_between(w, hint, CHUNKS, n);
    if (first == CHUNKS)
        first = claim_between(w, 0, CHUNKS, n);
    if (first == CHUNKS)
        return 0;
    high = __atomic_load_n(&head->chunk_high, __ATOMIC_RELAXED);
    while (high < first + n &&
           !__atomic_compare_exchange_n(&head->chunk_high, &high, first + n, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    if (n == 1 || first == hint) /* no free chunk was skipped; a concurrent free resets the hint */
        __atomic_compare_exchange_n(&head->chunk_hint, &hint, first + n, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return SOFTIB_VERBS_HEAP + first * SOFTIB_VERBS_CHUNK;
}

/* Free the chunks. Their memory is returned to the system, and is zero for the process that claims them next. */
static void give_chunks(struct vm_heap *w, uint64_t offset, uint64_t n)
{
    struct softib_verbs *head = vm_head(w);
    uint64_t first = (offset - SOFTIB_VERBS_HEAP) / SOFTIB_VERBS_CHUNK, hint;

    if (fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)(n * SOFTIB_VERBS_CHUNK)))
        memset(vm_at(w, offset), 0, n * SOFTIB_VERBS_CHUNK);
    for (uint64_t i = 0; i < n; i++)
        __atomic_store_n(owner_of(w, first + i), 0, __ATOMIC_RELEASE);
    hint = __atomic_load_n(&head->chunk_hint, __ATOMIC_RELAXED);
    while (hint > first &&
           !__atomic_compare_exchange_n(&head->chunk_hint, &hint, first, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* -- slabs: w->lock is held; only the owner of the chunk reads its head -- */

struct slab {
    uint64_t next, before; /* links in the list of slabs of this size that have room */
    uint64_t free;         /* first free object; each links to the next */
    uint32_t used;         /* bytes from the start of the slab that have been allocated at any time */
    uint32_t live;         /* objects in use */
    uint32_t reserved;     /* bytes from the start of the slab whose pages exist */
    uint8_t rest[28];
};
_Static_assert(sizeof(struct slab) == 64, "objects begin with a cache line");
_Static_assert(sizeof(struct slab) + (VM_CLASSES - 1) * 64 <= SOFTIB_VERBS_CHUNK, "one of the largest fits");

static struct slab *slab_at(struct vm_heap *w, uint64_t at)
{
    return vm_at(w, at);
}

static bool has_room(const struct slab *s, size_t octets)
{
    return s->free || s->used + octets <= SOFTIB_VERBS_CHUNK;
}

static void enlist(struct vm_heap *w, uint64_t at, size_t class)
{
    struct slab *s = slab_at(w, at);

    s->before = 0;
    s->next = w->slabs[class];
    if (s->next)
        slab_at(w, s->next)->before = at;
    w->slabs[class] = at;
}

static void strike(struct vm_heap *w, uint64_t at, size_t class)
{
    struct slab *s = slab_at(w, at);

    if (s->before)
        slab_at(w, s->before)->next = s->next;
    else
        w->slabs[class] = s->next;
    if (s->next)
        slab_at(w, s->next)->before = s->before;
}

/* Make the pages of the first `octets` bytes of a slab exist. The reserved size is doubled each time, so that a
 * slab is reserved in a few steps and at most half of it stays unused. */
static bool has_pages(struct vm_heap *w, uint64_t chunk, uint32_t octets)
{
    struct slab *s = slab_at(w, chunk);
    uint32_t to = (octets + 4095) / 4096 * 4096;

    if (octets <= s->reserved)
        return true;
    if (to < 2 * s->reserved)
        to = 2 * s->reserved;
    if (to > SOFTIB_VERBS_CHUNK)
        to = SOFTIB_VERBS_CHUNK;
    if (!vm_reserve(w, chunk + s->reserved, to - s->reserved))
        return false;
    s->reserved = to;
    return true;
}

static uint64_t new_slab(struct vm_heap *w, size_t class)
{
    uint64_t chunk = take_chunks(w, 1);

    if (!chunk)
        return 0;
    if (!vm_reserve(w, chunk, sizeof(struct slab))) {
        give_chunks(w, chunk, 1);
        return 0;
    }
    *slab_at(w, chunk) = (struct slab){ .used = sizeof(struct slab), .reserved = 4096 };
    enlist(w, chunk, class);
    return chunk;
}

static uint64_t take(struct vm_heap *w, size_t class)
{
    uint64_t chunk = w->slabs[class], at;
    struct slab *s;

    if (!chunk) {
        chunk = new_slab(w, class);
        if (!chunk)
            return 0;
    }
    s = slab_at(w, chunk);
    if (!s->free && !has_pages(w, chunk, s->used + (uint32_t)class * 64))
        return 0;
    at = s->free ? s->free : chunk + s->used;
    if (s->free)
        s->free = *(uint64_t *)vm_at(w, at);
    else
        s->used += (uint32_t)(class * 64);
    s->live++;
    if (!has_room(s, class * 64))
        strike(w, chunk, class);
    return at;
}

static void give(struct vm_heap *w, uint64_t at, size_t class)
{
    uint64_t chunk = at / SOFTIB_VERBS_CHUNK * SOFTIB_VERBS_CHUNK;
    struct slab *s = slab_at(w, chunk);
    bool had_room = has_room(s, class * 64);

    *(uint64_t *)vm_at(w, at) = s->free;
    s->free = at;
    s->live--;
    if (!had_room)
        enlist(w, chunk, class);
    if (!s->live && (s->next || s->before)) {
        strike(w, chunk, class);
        give_chunks(w, chunk, 1);
    }
}

uint64_t vm_alloc_sparse(struct vm_heap *w, size_t octets)
{
    return take_chunks(w, chunks_of(octets));
}

uint64_t vm_alloc(struct vm_heap *w, size_t octets)
{
    size_t class = octets ? (octets + 63) / 64 : 1;
    uint64_t at;

    if (class >= VM_CLASSES) {
        at = vm_alloc_sparse(w, octets);
        if (at && !vm_reserve(w, at, octets)) {
            give_chunks(w, at, chunks_of(octets));
            return 0;
        }
        return at;
    }
    pthread_mutex_lock(&w->lock);
    at = take(w, class);
    pthread_mutex_unlock(&w->lock);
    if (at)
        memset(vm_at(w, at), 0, class * 64);
    return at;
}

void vm_free(struct vm_heap *w, uint64_t offset, size_t octets)
{
    size_t class = octets ? (octets + 63) / 64 : 1;

    if (!offset || *owner_of(w, (offset - SOFTIB_VERBS_HEAP) / SOFTIB_VERBS_CHUNK) != w->process)
        return; /* a forked child frees nothing of its parent's */
    if (class >= VM_CLASSES) {
        give_chunks(w, offset, chunks_of(octets));
        return;
    }
    pthread_mutex_lock(&w->lock);
    give(w, offset, class);
    pthread_mutex_unlock(&w->lock);
}
