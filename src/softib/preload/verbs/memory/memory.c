/* The mapping and what it holds: heap, numbers, keys. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[8] = "SOFTIBq";

/* Waits until who made the file has written its head. */
static int wait_for_head(const struct softib_verbs *head)
{
    for (int i = 0; i < 2000; i++) {
        if (!memcmp(head->magic, magic, sizeof magic))
            return head->version == SOFTIB_VERBS_VERSION && head->size == SOFTIB_VERBS_SIZE ? 0 : -EPROTO;
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    return -EPROTO;
}

static void make_head(struct softib_verbs *head)
{
    head->version = SOFTIB_VERBS_VERSION;
    head->size = SOFTIB_VERBS_SIZE;
    head->number_next = 2;
    head->key_next = 1;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(head->magic, magic, sizeof magic);
}

static void enter(struct vm_world *w, uint32_t number, uint64_t started)
{
    struct softib_process *p = vm_process(w, number);
    uint32_t high = __atomic_load_n(&vm_head(w)->process_high, __ATOMIC_RELAXED);

    w->process = number;
    memset(p, 0, sizeof *p);
    p->pid = (uint32_t)getpid();
    p->started = started;
    __atomic_store_n(&p->alive, 1, __ATOMIC_RELEASE);
    while (high < number && !__atomic_compare_exchange_n(&vm_head(w)->process_high, &high, number, false,
                                                         __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

int vm_open(struct vm_world *w, const char *folder, uint32_t number, uint64_t started)
{
    char path[300];
    bool made;
    int error;

    if (number == 0 || number >= SOFTIB_VERBS_PROCESSES_N)
        return -EINVAL;
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/verbs", w->folder);
    w->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    made = w->fd >= 0;
    if (!made)
        w->fd = open(path, O_RDWR | O_CLOEXEC);
    if (w->fd < 0)
        return -errno;
    if (made && ftruncate(w->fd, SOFTIB_VERBS_SIZE)) {
        error = -errno;
        close(w->fd);
        return error;
    }
    for (int i = 0; !made && i < 2000; i++) { /* a page of a file without length is SIGBUS */
        struct stat info;

        if (!fstat(w->fd, &info) && info.st_size == SOFTIB_VERBS_SIZE)
            break;
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    w->base = mmap(NULL, SOFTIB_VERBS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, w->fd, 0);
    if (w->base == MAP_FAILED) {
        error = -errno;
        close(w->fd);
        return error;
    }
    madvise(w->base, SOFTIB_VERBS_SIZE, MADV_DONTDUMP);
    if (made)
        make_head(vm_head(w));
    error = wait_for_head(vm_head(w));
    w->maps = calloc(VM_MAPS, sizeof *w->maps);
    if (error || !w->maps) {
        munmap(w->base, SOFTIB_VERBS_SIZE);
        close(w->fd);
        return error ? error : -ENOMEM;
    }
    pthread_mutex_init(&w->lock, NULL);
    enter(w, number, started);
    return 0;
}

void vm_renumber(struct vm_world *w, uint32_t number, uint64_t started)
{
    memset(w->free, 0, sizeof w->free);
    w->chunk = w->chunk_used = 0;
    pthread_mutex_init(&w->lock, NULL);
    enter(w, number, started);
}

void vm_close(struct vm_world *w)
{
    __atomic_store_n(&vm_process(w, w->process)->alive, 0, __ATOMIC_RELEASE);
    munmap(w->base, SOFTIB_VERBS_SIZE);
    close(w->fd);
    free(w->maps);
}

/* -- heap -- */

static uint64_t take_chunks(struct vm_world *w, uint64_t n)
{
    uint64_t first = __atomic_fetch_add(&vm_head(w)->chunk_next, n, __ATOMIC_RELAXED);
    uint32_t *owners = vm_at(w, SOFTIB_VERBS_OWNERS);

    if (SOFTIB_VERBS_HEAP + (first + n) * SOFTIB_VERBS_CHUNK > SOFTIB_VERBS_SIZE)
        return 0;
    for (uint64_t i = 0; i < n; i++)
        __atomic_store_n(&owners[first + i], w->process, __ATOMIC_RELEASE);
    return SOFTIB_VERBS_HEAP + first * SOFTIB_VERBS_CHUNK;
}

uint64_t vm_alloc(struct vm_world *w, size_t octets)
{
    size_t class = (octets + 63) / 64;
    uint64_t at;

    if (class >= VM_CLASSES) {
        uint64_t n = (octets + SOFTIB_VERBS_CHUNK - 1) / SOFTIB_VERBS_CHUNK;

        return take_chunks(w, n);
    }
    pthread_mutex_lock(&w->lock);
    at = w->free[class];
    if (at) {
        w->free[class] = *(uint64_t *)vm_at(w, at);
    } else {
        if (!w->chunk || w->chunk_used + class * 64 > SOFTIB_VERBS_CHUNK) {
            w->chunk = take_chunks(w, 1);
            w->chunk_used = 0;
        }
        at = w->chunk ? w->chunk + w->chunk_used : 0;
        w->chunk_used += class * 64;
    }
    pthread_mutex_unlock(&w->lock);
    if (at)
        memset(vm_at(w, at), 0, class * 64);
    return at;
}

void vm_free(struct vm_world *w, uint64_t offset, size_t octets)
{
    size_t class = (octets + 63) / 64;

    if (!offset)
        return;
    if (class >= VM_CLASSES) { /* its pages go back; its place in the file is not used again */
        uint64_t n = (octets + SOFTIB_VERBS_CHUNK - 1) / SOFTIB_VERBS_CHUNK;
        uint32_t *owners = vm_at(w, SOFTIB_VERBS_OWNERS);

        fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)(n * SOFTIB_VERBS_CHUNK));
        for (uint64_t i = 0, c = (offset - SOFTIB_VERBS_HEAP) / SOFTIB_VERBS_CHUNK; i < n; i++)
            owners[c + i] = 0;
        return;
    }
    pthread_mutex_lock(&w->lock);
    *(uint64_t *)vm_at(w, offset) = w->free[class];
    w->free[class] = offset;
    pthread_mutex_unlock(&w->lock);
}

/* -- numbers -- */

/* The table holds process << 48 | offset: whose hazard to raise is known before the object is looked at. */
#define PROCESS_AT 48

uint32_t vm_number_take(struct vm_world *w, uint64_t object)
{
    uint64_t value = (uint64_t)w->process << PROCESS_AT | object;
    uint32_t number = __atomic_fetch_add(&vm_head(w)->number_next, 1, __ATOMIC_RELAXED);

    for (uint32_t tries = 0; tries < SOFTIB_VERBS_NUMBERS_N; tries++, number++) {
        uint64_t none = 0;

        number &= SOFTIB_VERBS_NUMBERS_N - 1;
        if (number < 2 || number == SOFTIB_VERBS_NUMBERS_N - 1) /* QP0, QP1, multicast */
            continue;
        if (__atomic_compare_exchange_n(vm_number(w, number), &none, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return number;
    }
    return 0;
}

void *vm_number_hold(struct vm_world *w, uint32_t number, uint64_t **hazard)
{
    uint64_t *at = vm_number(w, number), value = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    uint32_t process = (uint32_t)(value >> PROCESS_AT);

    if (!value || !__atomic_load_n(&vm_process(w, process)->alive, __ATOMIC_RELAXED))
        return NULL;
    *hazard = vm_hazard(w, process);
    if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) {
        vm_hazard_end(*hazard);
        return NULL;
    }
    return vm_at(w, value & ((1ull << PROCESS_AT) - 1));
}

void vm_number_give(struct vm_world *w, uint32_t number)
{
    __atomic_store_n(vm_number(w, number), 0, __ATOMIC_SEQ_CST);
}

/* -- keys -- */

struct softib_key *vm_key_take(struct vm_world *w, uint32_t *key)
{
    uint32_t index = __atomic_fetch_add(&vm_head(w)->key_next, 1, __ATOMIC_RELAXED);

    for (uint32_t tries = 0; tries < SOFTIB_VERBS_KEYS_N; tries++, index++) {
        struct softib_key *entry;
        uint16_t none = 0;

        index &= SOFTIB_VERBS_KEYS_N - 1;
        entry = vm_key(w, index << 8);
        if (index == 0 || __atomic_load_n(&entry->process, __ATOMIC_RELAXED))
            continue;
        if (!__atomic_compare_exchange_n(&entry->process, &none, (uint16_t)w->process, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_RELAXED))
            continue;
        *key = index << 8 | ++entry->tag;
        return entry;
    }
    return NULL;
}

void vm_key_publish(struct softib_key *entry, uint32_t key)
{
    __atomic_store_n(&entry->key, key, __ATOMIC_RELEASE);
}

void vm_key_give(struct softib_key *entry)
{
    __atomic_store_n(&entry->key, 0, __ATOMIC_SEQ_CST);
}
