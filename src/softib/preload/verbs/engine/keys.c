/* Lookup of keys: find the memory to which a key gives access. */
#include "keys.h"
#include "../memory/hazards.h"
#include "../memory/heap/key_table.h"
#include "../memory/locks.h"
#include "../memory/pages/mmap_calls.h"
#include "../memory/heap/number_table.h"
#include "../peers/peer_mappings.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

/* Return where [address, address + length) of another process is mapped here; NULL if not mapped
 * (then the kernel copies). */
static char *here_too(struct vm_heap *w, const struct softib_key *k, uint32_t key, uint64_t address, uint64_t length)
{
    const struct softib_file *file = vm_at(w, k->file);
    char *mapped;

    if (address < file->from || address + length > file->to)
        return NULL;
    mapped = vp_map_of(w, file, key);
    return mapped ? mapped + (address - file->from) : NULL;
}

/*
 * Resolve a region of device memory that another process allocated. The memory is freed when that process ends, so the
 * process is held like the owner of an imported region (the daemon empties such regions when the owner dies). False:
 * the owner is dead.
 */
static bool of_device_memory(struct ve_engine *e, const struct softib_key *k, uint32_t key, struct ve_part *part)
{
    const struct softib_file *file = vm_at(&e->w, k->file);
    uint32_t maker = vm_number_process(__atomic_load_n(vm_number(&e->w, k->qpn), __ATOMIC_SEQ_CST));

    if (!maker || !k->file)
        return false;
    if (maker == k->process)
        return true;
    part->process = maker;
    part->key = key;
    part->here = e->w.base + file->at + (part->address - file->from);
    return true;
}

/*
 * Null memory (ibv_alloc_null_mr(3)): NULL_SIZE zero bytes for reads, and the same number for writes, all mapped to the
 * same few pages. Each process has its own null memory, and also uses it when it copies to or from null memory of a
 * peer.
 */
#define NULL_SIZE (2ul << 30) /* the longest message */
#define SINK_SIZE (16ul << 20)

static char *zeros, *sink;

static void make_null_memory(void)
{
    char *from = vm_mmap(NULL, NULL_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *to = vm_mmap(NULL, NULL_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int fd = memfd_create("softib-null", MFD_CLOEXEC);
    bool made = from != MAP_FAILED && to != MAP_FAILED && fd >= 0 && !ftruncate(fd, SINK_SIZE);

    for (size_t at = 0; made && at < NULL_SIZE; at += SINK_SIZE)
        made = vm_mmap(to + at, SINK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (made) {
        zeros = from;
        sink = to;
    }
}

/* Return this process's null memory, for reads or for writes. NULL: out of memory. */
static char *null_memory(bool to_write)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_null_memory);
    return to_write ? sink : zeros;
}

bool ve_resolve(struct ve_engine *e, uint32_t key, uint64_t address, uint64_t length, unsigned access, uint32_t domain,
                uint32_t process, uint32_t qpn, struct ve_part *part)
{
    const struct softib_key *k = vm_key(&e->w, key);
    uint64_t room, version;
    bool imported;

    if (!key || !vm_key_is_there(&e->w, key) || __atomic_load_n(&k->key, __ATOMIC_SEQ_CST) != key)
        return false;
    version = __atomic_load_n(&k->version, __ATOMIC_ACQUIRE); /* read the version before the rest of the entry */
    if (k->domain != domain || (k->access & access) != access)
        return false;
    if (k->process != process && !(k->access & SOFTIB_ACCESS_IMPORTED))
        return false;
    imported = k->process != process; /* its owner is not held yet; the copy will hold it (ve_hold_part) */
    process = k->process;
    if (k->kind != SOFTIB_KEY_REGION && (!qpn || (k->kind == SOFTIB_KEY_WINDOW_2 && k->qpn != qpn)))
        return false; /* only peers can use windows (10.6.7.2) */
    room = __atomic_load_n(&k->length, __ATOMIC_RELAXED); /* read once: a window may be unbound concurrently */
    if (address < k->iova || length > room || address - k->iova > room - length)
        return false;
    part->address = k->address + (address - k->iova);
    part->length = length;
    part->process = process;
    part->key = imported ? key : 0;
    part->version = version;
    if (process == e->w.process)
        part->here = (char *)(uintptr_t)part->address;
    else
        part->here = k->file && !imported ? here_too(&e->w, k, key, part->address, length) : NULL;
    if (__builtin_expect(k->qpn && k->kind == SOFTIB_KEY_REGION, false))
        return of_device_memory(e, k, key, part);
    if (__builtin_expect(k->access & SOFTIB_ACCESS_NULL, false))
        part->here = null_memory(access & IBV_ACCESS_LOCAL_WRITE);
    return part->here || !(k->access & SOFTIB_ACCESS_NULL);
}

bool ve_hold_part(struct ve_engine *e, const struct ve_part *part, uint64_t **hazard)
{
    const struct softib_key *k = vm_key(&e->w, part->key);

    *hazard = vm_hazard(&e->w, part->process, VM_THIRD);
    if (__atomic_load_n(&k->key, __ATOMIC_SEQ_CST) == part->key && __atomic_load_n(&k->version, __ATOMIC_RELAXED) == part->version &&
        vm_lives(&e->w, part->process))
        return true;
    vm_hazard_end(*hazard);
    return false;
}

/*
 * -- memory windows; struct ibv_mw.handle is its permanent key, the index in the table --
 *
 * A process that looked up a window may still be copying when it is unbound. So the owner waits (vm_quiesce) before it
 * binds the entry again, and before it reports the window as unbound. It reports this with the completion of LOCAL_INV
 * and of a bind, and for SEND_WITH_INV when the completion of the receive is polled.
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
    struct softib_key *k = vm_key(&e->w, mw->handle), *region;
    struct ve_part part;

    key = (mw->handle & ~0xFFu) | (key & 0xFF); /* the last byte belongs to the consumer, the index to the library
                                                 * (10.6.2.1) */

    if (k->domain != q->s->domain || (mw->type == IBV_MW_TYPE_2 && k->length))
        return IBV_WC_MW_BIND_ERR;
    if (!info->length) { /* a bind of type 1 with length 0 unbinds */
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
    if (part.key) /* imported: the window would belong to this process, but its memory to another */
        return IBV_WC_MW_BIND_ERR;
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
