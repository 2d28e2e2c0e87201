/* Memory regions. Windows: memory_windows.c; device memory: dm.c. */
#include "abi.h"
#include "../engine/keys.h"
#include "../engine/scheduling/quiesce.h"
#include "../engine/send.h"
#include "../engine/queue_pair/strict.h"
#include "../memory/hazards.h"
#include "../memory/heap/key_table.h"
#include "../memory/locks.h"
#include "../memory/pages/mmap_calls.h"
#include "../memory/pages/vma.h"
#include "../peers/orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The mappings of [from, to). */
struct mapped_range {
    uint64_t from, to, covered;
    bool mapped, writable;
    bool shared;            /* all of it is in one file mapping that other processes can map */
    uint64_t file_at, inode, device;
    char path[236];
};

static bool look_at(const struct vm_vma *of, void *to_fill)
{
    struct mapped_range *g = to_fill;

    if (of->end <= g->covered)
        return true;
    if (of->start > g->covered)
        return false;
    g->writable = g->writable && of->rights[1] == 'w';
    if (of->start <= g->from && of->end >= g->to && of->rights[3] == 's' && of->path[0] == '/' &&
        !strstr(of->path, " (deleted)") && strlen(of->path) < sizeof g->path) {
        g->shared = true;
        g->file_at = of->offset + (g->from - of->start);
        g->inode = of->inode;
        g->device = of->device;
        snprintf(g->path, sizeof g->path, "%s", of->path);
    }
    g->covered = of->end;
    return g->covered < g->to;
}

static struct mapped_range look(uint64_t from, uint64_t to)
{
    struct mapped_range g = { .from = from, .to = to, .covered = from, .writable = true };

    g.mapped = !vm_vmas_between(from, to, look_at, &g) || g.covered >= to;
    return g;
}

/* SOFTIB_REMAP=0: private memory stays private. SOFTIB_REMAP=1: it is moved to a shared file, even if I/O of the
 * program to this memory could be in flight. */
static enum vm_moves moves(void)
{
    const char *value = getenv("SOFTIB_REMAP");

    if (!value)
        return VM_MOVES;
    return strcmp(value, "0") == 0 ? VM_STAYS : strcmp(value, "1") == 0 ? VM_MOVES_ALWAYS : VM_MOVES;
}

static struct ibv_mr *fail(int error)
{
    errno = error;
    return NULL;
}

/* Access flags that Linux accepts or may ignore; remote writes and atomics need local write (IBA
 * 10.6.3.1). */
static bool sensible(unsigned access)
{
    const unsigned known = (IBV_ACCESS_HUGETLB << 1) - 1;

    return !(access & ~(known | IBV_ACCESS_OPTIONAL_RANGE)) &&
           (access & IBV_ACCESS_LOCAL_WRITE || !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)));
}

/* The timer thread executes requests under this lock, so while another thread holds it, the timer thread writes no
 * memory. */
static void add_region(struct va_mr *m, uint64_t from, uint64_t to, unsigned access, bool may_move)
{
    pthread_mutex_lock(&va_engine.lock);
    vm_region_add(&m->region, from, to, access & IBV_ACCESS_LOCAL_WRITE,
                  may_move && !(access & IBV_ACCESS_ON_DEMAND) ? moves() : VM_STAYS,
                  va_engine.timer_runs + vp_serve_threads());
    pthread_mutex_unlock(&va_engine.lock);
    if (ve_is_strict() && m->region.holder == VM_HELD_BY_IO)
        ve_warn("registered memory stays private, because the program has O_DIRECT files, an AIO context or an io_uring: peers copy to it "
                "by system calls; set SOFTIB_REMAP=1 to move it anyway");
}

/* The file through which peers access the region: the file that the application mapped, or the one to which its
 * pages were moved. */
static void name_file(struct softib_key *k, const struct vm_region *r, const struct mapped_range *g)
{
    struct softib_file *file;

    k->file = g->shared || r->moved ? vm_alloc(&va_engine.w, sizeof *file) : 0;
    if (!k->file)
        return;
    file = vm_at(&va_engine.w, k->file);
    if (r->moved) {
        *file = (struct softib_file){ .from = r->shared_from, .to = r->shared_to, .at = r->file_at, .device = r->device,
                                      .inode = r->inode, .fd = r->fd };
    } else {
        *file = (struct softib_file){ .from = k->address, .to = k->address + k->length, .at = g->file_at,
                                      .device = g->device, .inode = g->inode, .fd = -1 };
        memcpy(file->path, g->path, sizeof file->path);
    }
}

static void forget_file(struct softib_key *k)
{
    if (k->process == va_engine.w.process) /* otherwise the entry is in the heap of the registering process, and freed with it */
        vm_free(&va_engine.w, k->file, sizeof(struct softib_file));
    if (k->file)
        __atomic_fetch_add(&vm_head(&va_engine.w)->drops, 1, __ATOMIC_RELEASE);
    k->file = 0;
}

struct ibv_mr *va_make_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
    struct mapped_range g = { .mapped = true, .writable = true };
    bool implicit = va_odp_implicit(access, address, length);
    struct softib_key *k;
    struct va_mr *m;
    uint32_t key;

    if (!sensible(access) || (!implicit && (uint64_t)(uintptr_t)address + length < length))
        return fail(EINVAL);
    if (!implicit && length)
        g = look((uintptr_t)address, (uintptr_t)address + length);
    if (!g.mapped || (access & IBV_ACCESS_LOCAL_WRITE && !g.writable))
        return fail(EFAULT);
    if (!va_count(pd->context, VA_MR))
        return NULL;
    m = calloc(1, sizeof *m);
    k = m ? vm_key_take(&va_engine.w, &key) : NULL;
    if (!k) {
        free(m);
        va_uncount(pd->context, VA_MR);
        return fail(ENOMEM);
    }
    k->access = access | (access & IBV_ACCESS_LOCAL_WRITE);
    k->address = (uintptr_t)address;
    k->iova = iova;
    k->length = length;
    k->domain = va_domain(pd);
    k->kind = SOFTIB_KEY_REGION;
    k->users = k->qpn = 0;
    add_region(m, implicit ? 0 : (uintptr_t)address, implicit ? UINT64_MAX - 65536 : (uintptr_t)address + length, access,
               length && !implicit && !g.shared);
    name_file(k, &m->region, &g);
    vm_key_publish(k, key);
    m->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = address, .length = length, .handle = key, .lkey = key,
                             .rkey = key };
    va_pd_hold(va_pd(pd));
    return &m->mr;
}

VA_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return va_make_mr(pd, address, length, access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)address, (unsigned)access);
}

/* Both addresses have the same offset in their page, since the adapter translates pages (Linux,
 * ib_uverbs_reg_mr). */
static bool translates(const void *address, uint64_t iova)
{
    return !(((uintptr_t)address ^ iova) & (uint64_t)(sysconf(_SC_PAGESIZE) - 1));
}

VA_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access)
{
    if (!translates(address, iova))
        return fail(EINVAL);
    return va_make_mr(pd, address, length, iova, (unsigned)access);
}

VA_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
    if (!(access & IBV_ACCESS_ZERO_BASED) && !translates(address, iova))
        return fail(EINVAL);
    return va_make_mr(pd, address, length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
}

/*
 * Register a buffer by descriptor: a dma-buf of memory (udmabuf), or the memory file itself. It is
 * mapped while it is registered. A buffer that cannot be mapped (GPU memory) is not supported.
 */
VA_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
    int rights = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0), error;
    uint64_t from = offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
    off_t at = lseek(fd, 0, SEEK_CUR), size = lseek(fd, 0, SEEK_END);
    struct ibv_mr *mr;
    char *mapped;

    if (at >= 0) /* a dma-buf has no file offset */
        lseek(fd, at, SEEK_SET);
    if (!length || offset + length < length || (size >= 0 && offset + length > (uint64_t)size))
        return fail(EINVAL);
    mapped = vm_mmap(NULL, offset - from + length, rights, MAP_SHARED, fd, (off_t)from);
    if (mapped == MAP_FAILED)
        return fail(errno == ENODEV ? EOPNOTSUPP : errno);
    mr = va_make_mr(pd, mapped + (offset - from), length, iova, (unsigned)access);
    if (!mr) {
        error = errno;
        vm_munmap(mapped, offset - from + length);
        return fail(error);
    }
    ((struct va_mr *)mr)->mapped = mapped;
    ((struct va_mr *)mr)->mapped_n = offset - from + length;
    mr->addr = (void *)(uintptr_t)offset; /* libibverbs has this error too */
    return mr;
}

/* Register null memory (engine/keys.c): any address is valid, for local use only. It has no R_Key; windows and rereg_mr
 * are refused. */
struct ibv_mr *va_alloc_null_mr(struct ibv_pd *pd)
{
    struct ibv_mr *mr = va_make_mr(pd, NULL, 0, 0, IBV_ACCESS_LOCAL_WRITE);
    struct softib_key *k;

    if (!mr)
        return NULL;
    k = vm_key(&va_engine.w, mr->lkey);
    k->access |= SOFTIB_ACCESS_NULL;
    __atomic_store_n(&k->length, UINT64_MAX, __ATOMIC_RELEASE);
    mr->length = SIZE_MAX;
    mr->rkey = 0;
    return mr;
}

/* Remove the region's key. False: another process that shares the region has removed it first. */
static bool take_away(struct softib_key *k, uint32_t key)
{
    return __atomic_compare_exchange_n(&k->key, &key, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Wait until no copy uses the key, and free its entry. */
void va_free_key(struct softib_key *k)
{
    ve_quiesce(&va_engine);
    forget_file(k);
    vm_key_left(&va_engine.w, k);
}

/* Like va_free_key, for a region of process `owner`; also wait for that process's requests. If the owner is dead, the
 * daemon frees the entry. */
static void free_key_of(struct softib_key *k, uint16_t owner)
{
    uint64_t *hazard;

    ve_quiesce(&va_engine);
    ve_quiesce_of(&va_engine, owner);
    hazard = vm_hazard(&va_engine.w, owner, VM_FIRST); /* from now on the daemon frees nothing of the owner */
    if (vm_lives(&va_engine.w, owner)) {
        forget_file(k);
        __atomic_store_n(&k->process, 0, __ATOMIC_RELEASE);
    }
    vm_hazard_end(hazard);
}

/* Another process that shares the region may have deregistered it (ibv_import_mr(3)), and its key
 * may now belong to another region. */
static bool is_there(const struct ibv_mr *mr)
{
    return __atomic_load_n(&vm_key(&va_engine.w, mr->lkey)->key, __ATOMIC_ACQUIRE) == mr->lkey;
}

void va_forget_mr(struct ibv_mr *mr)
{
    struct va_mr *m = (struct va_mr *)mr;

    vm_region_drop(&m->region);
    if (m->mapped)
        vm_munmap(m->mapped, m->mapped_n);
    if (!m->imported)
        va_uncount(mr->context, VA_MR);
    va_pd_leave(va_pd(mr->pd));
    free(mr);
}

VA_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct softib_key *k = vm_key(&va_engine.w, mr->lkey);
    uint16_t owner = k->process;

    if (!is_there(mr))
        return errno = ENOENT;
    if (__atomic_load_n(&k->users, __ATOMIC_ACQUIRE))
        return errno = EBUSY; /* windows are bound to it */
    if (ve_is_strict())
        ve_strict_dereg(mr->lkey);
    if (!take_away(k, mr->lkey))
        return errno = ENOENT;
    if (owner == va_engine.w.process)
        va_free_key(k);
    else
        free_key_of(k, owner);
    va_forget_mr(mr);
    return 0;
}

VA_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct va_mr *m = (struct va_mr *)mr;
    struct softib_key *k = vm_key(&va_engine.w, mr->lkey);
    struct mapped_range g = { .mapped = true };
    unsigned rights = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : k->access;

    if (m->imported || m->mapped || !is_there(mr) || k->access & SOFTIB_ACCESS_NULL)
        return errno = EINVAL, IBV_REREG_MR_ERR_INPUT; /* this process cannot resolve its pages */
    if (!flags || flags & ~(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS) ||
        (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!address || !length)))
        return errno = EINVAL, IBV_REREG_MR_ERR_INPUT;
    if (!sensible(rights & ~SOFTIB_ACCESS_IMPORTED)) /* libibverbs leaves these checks to the kernel (libibverbs/verbs.c) */
        return errno = EINVAL, IBV_REREG_MR_ERR_CMD;
    if (k->users)
        return errno = EBUSY, IBV_REREG_MR_ERR_CMD;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        g = look((uintptr_t)address, (uintptr_t)address + length);
        if (!g.mapped || (rights & IBV_ACCESS_LOCAL_WRITE && !g.writable))
            return errno = EFAULT, IBV_REREG_MR_ERR_CMD;
    }
    if (!take_away(k, mr->lkey))
        return errno = EINVAL, IBV_REREG_MR_ERR_INPUT;
    ve_quiesce(&va_engine);
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        forget_file(k);
        vm_region_drop(&m->region);
        k->address = k->iova = (uintptr_t)address;
        k->length = length;
        add_region(m, k->address, k->address + length, rights, !g.shared);
        name_file(k, &m->region, &g);
        mr->addr = address;
        mr->length = length;
    }
    if (flags & IBV_REREG_MR_CHANGE_PD) {
        va_pd_hold(va_pd(pd));
        va_pd_leave(va_pd(mr->pd));
        k->domain = va_domain(pd);
        mr->pd = pd;
    }
    k->access = rights | (k->access & SOFTIB_ACCESS_IMPORTED);
    vm_region_writes(&m->region, rights & IBV_ACCESS_LOCAL_WRITE);
    vm_key_publish(k, mr->lkey);
    return 0;
}

int va_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge, uint32_t n)
{
    struct ve_part part;

    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH)
        return errno = EOPNOTSUPP;
    for (uint32_t i = 0; i < n; i++) {
        if (!ve_resolve(&va_engine, sge[i].lkey, sge[i].addr, sge[i].length, 0, va_domain(pd), va_engine.w.process, 0, &part))
            return errno = EFAULT;
        if (part.here)
            madvise((void *)((uintptr_t)part.here & ~4095ul), sge[i].length, MADV_WILLNEED);
    }
    return 0;
}
