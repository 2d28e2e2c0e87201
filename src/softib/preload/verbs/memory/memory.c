/* The mapping and what it holds: numbers, keys. The heap: heap.c. */
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
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(head->magic, magic, sizeof magic);
}

static void raise_to(uint32_t *high, uint32_t to)
{
    uint32_t now = __atomic_load_n(high, __ATOMIC_RELAXED);

    while (now < to && !__atomic_compare_exchange_n(high, &now, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

static void enter(struct vm_heap *w, uint32_t number, uint64_t started)
{
    struct softib_process *p = vm_process(w, number);
    uint32_t generation = p->generation % 0xFFFF + 1;

    w->process = number;
    w->owner = number | generation << 16;
    memset(p, 0, sizeof *p);
    p->generation = generation;
    p->pid = (uint32_t)getpid();
    p->started = started;
    __atomic_store_n(&p->alive, 1, __ATOMIC_RELEASE);
    raise_to(&vm_head(w)->process_high, number);
}

int vm_open(struct vm_heap *w, const char *folder, uint32_t number, uint64_t started)
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

uint32_t vm_version(const char *folder)
{
    struct softib_verbs head = { 0 };
    char path[300];
    int fd;

    snprintf(path, sizeof path, "%s/verbs", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (read(fd, &head, sizeof head) != (ssize_t)sizeof head)
        head.version = 0;
    close(fd);
    return head.version;
}

void vm_renumber(struct vm_heap *w, uint32_t number, uint64_t started)
{
    memset(w->slabs, 0, sizeof w->slabs);
    w->blocks_n = w->key_cursor = 0; /* the parent's */
    pthread_mutex_init(&w->lock, NULL);
    enter(w, number, started);
}

void vm_close(struct vm_heap *w)
{
    __atomic_store_n(&vm_process(w, w->process)->alive, 0, __ATOMIC_RELEASE);
    munmap(w->base, SOFTIB_VERBS_SIZE);
    close(w->fd);
    free(w->maps);
    free(w->blocks);
}

/* -- numbers -- */

/* Numbers go round, so that one is not taken again soon, but in a part of the table: it takes memory where it was used. */
#define ROUND 0x100000

uint32_t vm_number_take(struct vm_heap *w, uint64_t object)
{
    uint64_t value = (uint64_t)w->process << VM_NUMBER_PROCESS | object;
    uint32_t start = __atomic_fetch_add(&vm_head(w)->number_next, 1, __ATOMIC_RELAXED) % ROUND;

    for (uint32_t tries = 0; tries < ROUND + SOFTIB_VERBS_NUMBERS_N; tries++) {
        uint32_t number = tries < ROUND ? (start + tries) % ROUND : tries - ROUND;
        uint64_t none = 0;

        if (number < 2 || number == SOFTIB_VERBS_NUMBERS_N - 1) /* QP0, QP1, multicast */
            continue;
        raise_to(&vm_head(w)->number_high, number + 1); /* first: the daemon must find it when we are killed */
        if (__atomic_compare_exchange_n(vm_number(w, number), &none, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return number;
    }
    return 0;
}

static void *hold(struct vm_heap *w, uint32_t number, uint64_t **hazard, enum vm_level level)
{
    uint64_t *at = vm_number(w, number), value;
    uint32_t process;

    if (number >= __atomic_load_n(&vm_head(w)->number_high, __ATOMIC_RELAXED))
        return NULL; /* nobody's, and a look would take memory: the file is sparse */
    value = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    process = vm_number_process(value);
    if (!value || !__atomic_load_n(&vm_process(w, process)->alive, __ATOMIC_RELAXED))
        return NULL;
    *hazard = vm_hazard(w, process, level);
    if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) {
        vm_hazard_end(*hazard);
        return NULL;
    }
    return vm_at(w, value & ((1ull << VM_NUMBER_PROCESS) - 1));
}

void *vm_number_hold(struct vm_heap *w, uint32_t number, uint64_t **hazard)
{
    return hold(w, number, hazard, VM_FIRST);
}

void *vm_number_hold_too(struct vm_heap *w, uint32_t number, uint64_t **hazard)
{
    return hold(w, number, hazard, VM_SECOND);
}

void vm_number_give(struct vm_heap *w, uint32_t number)
{
    __atomic_store_n(vm_number(w, number), 0, __ATOMIC_SEQ_CST);
}

/* -- keys -- */

/* Keys of who had the block before open nothing for a while, and what remembers a version of theirs sees that it is another. */
static void begin_block(struct vm_heap *w, uint32_t block)
{
    struct softib_key *keys = vm_key(w, block * SOFTIB_VERBS_BLOCK_KEYS << 8);
    uint64_t turn = __atomic_add_fetch(&vm_head(w)->block_turn, 1, __ATOMIC_RELAXED);

    for (int i = 0; i < SOFTIB_VERBS_BLOCK_KEYS; i++) {
        keys[i].tag = (uint8_t)turn;
        keys[i].version = turn << 32;
    }
}

/* One more block for this process. False: none left, or no memory. */
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

        if (__atomic_load_n(&owners[block], __ATOMIC_RELAXED))
            continue;
        raise_to(&head->block_high, block + 1);
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

/* A free one among the next of our own, by turns: what was given back is not taken again at once. */
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
    entry->tag = (uint8_t)key; /* windows have moved it on */
    __atomic_store_n(&entry->version, entry->version + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&entry->key, key, __ATOMIC_SEQ_CST);
}

void vm_key_give(struct softib_key *entry)
{
    __atomic_store_n(&entry->key, 0, __ATOMIC_SEQ_CST);
}

#define BLOCK_OCTETS (SOFTIB_VERBS_BLOCK_KEYS * sizeof(struct softib_key))
#define KEPT 16     /* empty blocks that a process keeps */
#define LOOKS 4096  /* it is looked for empty ones when so many keys were given back, or half of all */

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

/* `w->lock` is held. */
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
