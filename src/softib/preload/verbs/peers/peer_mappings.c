/*
 * Mappings of the files that belong to other processes' keys. If a key was removed, its mapping is unmapped after the
 * last copy; until then the owner's memory is not freed.
 */
#include "peer_mappings.h"
#include "orders.h"
#include "../memory/identity.h"
#include "../memory/heap/key_table.h"
#include "../memory/libc_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct vm_old {                     /* a mapping that lookups no longer return */
    char *address;
    uint64_t length;
    uint64_t seen[SOFTIB_VERBS_HAZARDS]; /* hazards of threads that may have looked up the mapping before */
    struct vm_old *next;
};

/* Return whether the mapping is of this file. (A key may have been reused for other memory.) */
static bool is_of(const struct vm_map *map, const struct softib_file *file)
{
    return map->from == file->from && map->to == file->to && map->at == file->at && map->device == file->device &&
           map->inode == file->inode;
}

static bool is_the_file(const struct stat *info, const struct softib_file *file)
{
    return S_ISREG(info->st_mode) && info->st_dev == file->device && info->st_ino == file->inode &&
           (uint64_t)info->st_size >= file->at + (file->to - file->from);
}

/*
 * Open the file of a key by its name, or through the owner's descriptor in /proc if the owner's pid is valid here. In
 * another namespace names and pids differ, so get the descriptor from the owner. -1: not available.
 */
static int open_file(struct vm_heap *w, const struct softib_file *file, uint32_t process, uint32_t key)
{
    char link[40];
    const char *path = file->fd < 0 ? file->path : link;
    struct stat info;

    snprintf(link, sizeof link, "/proc/%u/fd/%d", vm_process(w, process)->pid, file->fd);
    /* The path is checked before it is opened, because the descriptor number may now belong to a device or a pipe. */
    if ((file->fd < 0 || vm_same_namespace(w, process)) && !stat(path, &info) && is_the_file(&info, file)) {
        int fd = open(path, O_RDWR | O_CLOEXEC | (file->fd < 0 ? O_NOFOLLOW : 0));

        if (fd >= 0)
            return fd;
    }
    return vp_order_file(w, process, key);
}

/* Map the file; the first byte is the owner's memory at `from`. NULL: not available. */
static char *map_file(struct vm_heap *w, const struct softib_file *file, uint32_t process, uint32_t key)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = file->at / page * page;
    int fd = open_file(w, file, process, key);
    char *address = MAP_FAILED;
    struct stat info;

    if (fd >= 0 && !fstat(fd, &info) && is_the_file(&info, file))
        address = mmap(NULL, file->at + (file->to - file->from) - start, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
    if (fd >= 0)
        close(fd);
    return address == MAP_FAILED ? NULL : address + (file->at - start);
}

/* -- unused mappings; `w->lock` is held -- */

static void retire(struct vm_heap *w, struct vm_map *map)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), before = map->at % page;
    struct vm_old *old = map->address ? malloc(sizeof *old) : NULL;

    __atomic_store_n(&map->key, 0, __ATOMIC_SEQ_CST);
    w->maps_n--;
    if (!old)
        return;
    old->address = map->address - before;
    old->length = map->to - map->from + before;
    for (unsigned i = 0; i < SOFTIB_VERBS_HAZARDS; i++)
        old->seen[i] = __atomic_load_n(&vm_process(w, w->process)->hazard[i], __ATOMIC_SEQ_CST);
    old->next = w->old;
    w->old = old;
}

static void unmap_old(struct vm_heap *w)
{
    const uint64_t *hazard = vm_process(w, w->process)->hazard;

    for (struct vm_old **at = &w->old, *old; (old = *at);) {
        bool used = false;

        for (unsigned i = 0; i < SOFTIB_VERBS_HAZARDS; i++)
            used = used || (old->seen[i] && __atomic_load_n(&hazard[i], __ATOMIC_ACQUIRE) == old->seen[i]);
        if (used) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        munmap(old->address, old->length);
        free(old);
    }
}

static bool is_closed(struct vm_heap *w, uint32_t key)
{
    return !vm_key_is_there(w, key) || __atomic_load_n(&vm_key(w, key)->key, __ATOMIC_ACQUIRE) != key;
}

void vp_maps_tidy_slow(struct vm_heap *w)
{
    uint64_t drops = __atomic_load_n(&vm_head(w)->drops, __ATOMIC_ACQUIRE);
    VM_KEEP_ERRNO;

    if (pthread_mutex_trylock(&w->lock))
        return; /* another thread is mapping or unmapping */
    for (unsigned i = 0; drops != w->drops && w->maps_n && i < VM_MAPS; i++)
        if (w->maps[i].key && is_closed(w, w->maps[i].key))
            retire(w, &w->maps[i]);
    w->drops = (uint32_t)drops;
    unmap_old(w);
    pthread_mutex_unlock(&w->lock);
}

/* -- lookup -- */

static void fill(struct vm_heap *w, struct vm_map *map, const struct softib_file *file, uint32_t key)
{
    map->address = map_file(w, file, vm_key(w, key)->process, key);
    map->from = file->from;
    map->to = file->to;
    map->at = file->at;
    map->device = file->device;
    map->inode = file->inode;
    __atomic_store_n(&map->key, key, __ATOMIC_RELEASE);
    w->maps_n++;
}

static char *map_slow(struct vm_heap *w, struct vm_map *map, const struct softib_file *file, uint32_t key)
{
    VM_KEEP_ERRNO;
    char *address;

    pthread_mutex_lock(&w->lock);
    if (map->key && (map->key != key ? is_closed(w, map->key) : !is_of(map, file)))
        retire(w, map); /* a live key keeps its slot; copies through the other key use the kernel */
    if (!map->key)
        fill(w, map, file, key);
    address = map->key == key ? map->address : NULL;
    unmap_old(w);
    pthread_mutex_unlock(&w->lock);
    return address;
}

char *vp_map_of(struct vm_heap *w, const struct softib_file *file, uint32_t key)
{
    struct vm_map *map = &w->maps[(key >> 8) % VM_MAPS];

    if (__atomic_load_n(&map->key, __ATOMIC_SEQ_CST) == key && is_of(map, file)) {
        char *address = map->address;

        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&map->key, __ATOMIC_RELAXED) == key) /* it has not been reused by another key in between */
            return address;
    }
    return map_slow(w, map, file, key);
}
