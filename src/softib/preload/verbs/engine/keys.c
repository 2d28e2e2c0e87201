/* What a key opens. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A key comes round some day, and then opens something else. */
static bool is_of(const struct vm_map *map, const struct softib_key *k, const struct softib_file *file)
{
    return map->at == k->file_at && map->length == k->length && map->device == file->device && map->inode == file->inode;
}

/* The file behind a key of another process, mapped here; NULL where that cannot be (then the kernel copies). */
static char *map_of(struct vm_world *w, const struct softib_key *k, uint32_t key)
{
    struct vm_map *map = &w->maps[(key >> 8) % VM_MAPS];
    const struct softib_file *file;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = k->file_at / page * page;
    struct stat info;
    char *address = NULL;
    int fd;

    file = vm_at(w, k->file);
    if (__atomic_load_n(&map->key, __ATOMIC_ACQUIRE) == key)
        return is_of(map, k, file) ? map->address : NULL;
    pthread_mutex_lock(&w->lock);
    if (map->key != key && !map->key) { /* a place that is taken stays: somebody may be copying there */
        fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && !fstat(fd, &info) && info.st_dev == file->device && info.st_ino == file->inode &&
            (uint64_t)info.st_size >= k->file_at + k->length) {
            address = mmap(NULL, k->file_at + k->length - start, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
            address = address == MAP_FAILED ? NULL : address + (k->file_at - start);
        }
        if (fd >= 0)
            close(fd);
        map->address = address;
        map->length = k->length;
        map->at = k->file_at;
        map->device = file->device;
        map->inode = file->inode;
        __atomic_store_n(&map->key, key, __ATOMIC_RELEASE);
    }
    address = map->key == key && is_of(map, k, file) ? map->address : NULL;
    pthread_mutex_unlock(&w->lock);
    return address;
}

bool ve_resolve(struct ve_engine *e, uint32_t key, uint64_t address, uint64_t length, unsigned access, uint32_t domain,
                uint32_t process, uint32_t qpn, struct ve_part *part)
{
    const struct softib_key *k = vm_key(&e->w, key);
    uint64_t room;
    char *here;

    if (!key || !vm_key_is_there(&e->w, key) || __atomic_load_n(&k->key, __ATOMIC_SEQ_CST) != key)
        return false;
    if (k->domain != domain || (k->access & access) != access)
        return false;
    if (k->process != process && !(k->access & SOFTIB_ACCESS_IMPORTED))
        return false;
    process = k->process;
    if (k->kind != SOFTIB_KEY_REGION && (!qpn || (k->kind == SOFTIB_KEY_WINDOW_2 && k->qpn != qpn)))
        return false; /* windows are for peers (10.6.7.2) */
    room = __atomic_load_n(&k->length, __ATOMIC_RELAXED); /* once: a window may be unbound at this moment */
    if (address < k->iova || length > room || address - k->iova > room - length)
        return false;
    part->address = k->address + (address - k->iova);
    part->length = length;
    part->process = process;
    if (process == e->w.process) {
        part->here = (char *)(uintptr_t)part->address;
    } else {
        here = k->file ? map_of(&e->w, k, key) : NULL;
        part->here = here ? here + (address - k->iova) : NULL;
    }
    return true;
}

/*
 * -- memory windows; struct ibv_mw.handle is the key that stays its own: the place in the table --
 *
 * Who has looked at a window may still copy when it is unbound. So the owner waits (vm_quiesce) before it binds the place
 * anew, and before it says that the window is unbound: LOCAL_INV and binds in their completion, SEND_WITH_INV where the
 * receive's completion is polled.
 */

static void unbind(struct ve_engine *e, struct softib_key *k, uint32_t next)
{
    uint32_t region = k->users;

    k->length = 0;
    k->access = 0;
    k->users = 0;
    if (region)
        __atomic_fetch_sub(&vm_key(&e->w, region)->users, 1, __ATOMIC_RELAXED);
    vm_key_publish(k, next);
}

enum ibv_wc_status ve_bind(struct ve_qp *q, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info)
{
    struct ve_engine *e = q->e;
    struct softib_key *k = vm_key(&e->w, mw->rkey), *region;
    struct ve_part part;

    if (k->domain != q->s->domain || (mw->type == IBV_MW_TYPE_2 && k->length))
        return IBV_WC_MW_BIND_ERR;
    if (!info->length) { /* type 1: it is unbound */
        if (mw->type == IBV_MW_TYPE_2)
            return IBV_WC_MW_BIND_ERR;
        unbind(e, k, key);
        vm_quiesce(&e->w);
        mw->rkey = key;
        return IBV_WC_SUCCESS;
    }
    if (!info->mr || !ve_resolve(e, info->mr->lkey, info->addr, info->length, IBV_ACCESS_MW_BIND, q->s->domain, e->w.process,
                                 0, &part))
        return IBV_WC_MW_BIND_ERR;
    region = vm_key(&e->w, info->mr->lkey);
    if ((info->mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(region->access & IBV_ACCESS_LOCAL_WRITE))
        return IBV_WC_MW_BIND_ERR;
    if (k->users)
        __atomic_fetch_sub(&vm_key(&e->w, k->users)->users, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&k->key, 0, __ATOMIC_SEQ_CST);
    vm_quiesce(&e->w);
    k->kind = mw->type == IBV_MW_TYPE_2 ? SOFTIB_KEY_WINDOW_2 : SOFTIB_KEY_WINDOW;
    k->qpn = q->s->qpn;
    k->address = part.address;
    k->iova = info->mw_access_flags & IBV_ACCESS_ZERO_BASED ? 0 : info->addr;
    k->length = info->length;
    k->access = info->mw_access_flags & ~IBV_ACCESS_ZERO_BASED;
    k->file = region->file;
    k->file_at = region->file_at + (part.address - region->address);
    k->users = info->mr->lkey;
    __atomic_fetch_add(&region->users, 1, __ATOMIC_RELAXED);
    mw->rkey = key;
    vm_key_publish(k, key);
    return IBV_WC_SUCCESS;
}

bool ve_invalidate(struct ve_engine *e, uint32_t key, uint32_t process, uint32_t domain, uint32_t qpn)
{
    struct softib_key *k = vm_key(&e->w, key);

    if (!key || !vm_key_is_there(&e->w, key) || __atomic_load_n(&k->key, __ATOMIC_ACQUIRE) != key)
        return false;
    if (k->process != process || k->domain != domain || k->kind != SOFTIB_KEY_WINDOW_2 || k->qpn != qpn || !k->length)
        return false;
    unbind(e, k, key);
    return true;
}
