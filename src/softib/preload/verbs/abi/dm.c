/* Device memory: an area of the fabric's shared memory. Its handle is valid in every process. */
#include "abi.h"
#include "../memory/hazards.h"
#include "../memory/heap/key_table.h"
#include "../memory/locks.h"
#include "../memory/heap/number_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

/* Access is in 4-byte words, as in mlx5's device memory. */
static bool reaches(const struct va_dm *d, uint64_t offset, size_t length)
{
    return offset % 4 == 0 && length % 4 == 0 && offset <= d->length && length <= d->length - offset;
}

/* Return whether the memory exists, and keep it from being freed until vm_hazard_end. (Another process that shares it
 * may free it, ibv_import_dm(3).) */
static bool hold(const struct va_dm *d, uint64_t **hazard)
{
    struct softib_dm *s = vm_number_hold(&va_engine.w, d->dm.handle, hazard);

    if (s && (s != d->s || s->is != SOFTIB_IS_DM)) {
        vm_hazard_end(*hazard);
        return false;
    }
    return s;
}

static int dm_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
    struct va_dm *d = (struct va_dm *)dm;
    uint64_t *hazard;

    if (!reaches(d, offset, length) || !hold(d, &hazard))
        return EINVAL;
    memcpy(d->memory + offset, from, length);
    vm_hazard_end(hazard);
    return 0;
}

static int dm_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
    struct va_dm *d = (struct va_dm *)dm;
    uint64_t *hazard;

    if (!reaches(d, offset, length) || !hold(d, &hazard))
        return EINVAL;
    memcpy(to, d->memory + offset, length);
    vm_hazard_end(hazard);
    return 0;
}

/* Allocate the memory. It begins at a page boundary, because the regions in it must. */
static bool make(struct va_dm *d, size_t length)
{
    struct vm_heap *w = &va_engine.w;
    uint64_t at = vm_alloc(w, sizeof *d->s), memory = vm_alloc(w, (length + PAGE - 1) / PAGE * PAGE + PAGE);

    d->s = at ? vm_at(w, at) : NULL;
    if (at && memory) {
        *d->s = (struct softib_dm){ .is = SOFTIB_IS_DM, .memory = memory, .length = length };
        d->s->handle = vm_number_take(w, at);
    }
    if (!at || !memory || !d->s->handle) {
        vm_free(w, at, sizeof *d->s);
        vm_free(w, memory, (length + PAGE - 1) / PAGE * PAGE + PAGE);
        return false;
    }
    d->memory = vm_at(w, (memory + PAGE - 1) / PAGE * PAGE);
    d->length = length;
    return true;
}

struct ibv_dm *va_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    struct va_context *c = va_context(context);
    struct va_dm *d;

    if (attr->comp_mask || !attr->length || attr->length > VA_MAX_DM - c->dm_used) {
        errno = attr->comp_mask || !attr->length ? EINVAL : ENOMEM;
        return NULL;
    }
    d = calloc(1, sizeof *d);
    d = d && make(d, attr->length) ? d : (free(d), NULL);
    if (!d) {
        errno = ENOMEM;
        return NULL;
    }
    d->dm = (struct ibv_dm){ .context = context, .handle = d->s->handle, .memcpy_to_dm = dm_to, .memcpy_from_dm = dm_from };
    c->dm_used += d->length;
    return &d->dm;
}

/* If the importer frees the memory, it is freed for all processes (see the man page). This is refused while regions of
 * it are registered. */
VA_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    uint64_t *hazard;
    struct softib_dm *s = vm_number_hold(&va_engine.w, handle, &hazard);
    struct va_dm *d = s && s->is == SOFTIB_IS_DM ? calloc(1, sizeof *d) : NULL;

    errno = s && s->is == SOFTIB_IS_DM ? ENOMEM : EINVAL;
    if (d) {
        d->s = s;
        d->memory = vm_at(&va_engine.w, (s->memory + PAGE - 1) / PAGE * PAGE);
        d->length = s->length;
        d->imported = true;
        d->dm = (struct ibv_dm){ .context = context, .handle = handle, .memcpy_to_dm = dm_to, .memcpy_from_dm = dm_from };
    }
    if (s)
        vm_hazard_end(hazard);
    return d ? &d->dm : NULL;
}

VA_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    free(dm);
}

/* Return whether live processes have regions of the device memory. */
static bool has_regions(uint32_t handle)
{
    struct vm_heap *w = &va_engine.w;
    const uint32_t *owners = vm_at(w, SOFTIB_VERBS_BLOCKS);
    uint32_t n = __atomic_load_n(&vm_head(w)->block_high, __ATOMIC_SEQ_CST) * SOFTIB_VERBS_BLOCK_KEYS;

    for (uint32_t i = 1; i < n && i < SOFTIB_VERBS_KEYS_N; i++) {
        const struct softib_key *k = vm_key(w, i << 8);

        if (!__atomic_load_n(&owners[i / SOFTIB_VERBS_BLOCK_KEYS], __ATOMIC_SEQ_CST)) {
            i |= SOFTIB_VERBS_BLOCK_KEYS - 1; /* no process owns this block: reading it would allocate pages */
            continue;
        }
        if (__atomic_load_n(&k->key, __ATOMIC_SEQ_CST) && k->kind == SOFTIB_KEY_REGION && k->qpn == handle && vm_lives(w, k->process))
            return true;
    }
    return false;
}

int va_free_dm(struct ibv_dm *dm)
{
    struct va_dm *d = (struct va_dm *)dm;
    uint64_t *hazard, *number = vm_number(&va_engine.w, dm->handle), named = __atomic_load_n(number, __ATOMIC_ACQUIRE);

    if (!hold(d, &hazard))
        return errno = ENOENT; /* another process freed it */
    vm_hazard_end(hazard);
    if (has_regions(dm->handle))
        return errno = EBUSY;
    vm_number_give(&va_engine.w, dm->handle); /* first, so that a concurrent registration notices this, or is noticed
                                               * here */
    if (has_regions(dm->handle)) {
        uint64_t free_number = 0; /* another object may have the number now; then the memory is freed when its process
                                   * ends */

        __atomic_compare_exchange_n(number, &free_number, named, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        return errno = EBUSY;
    }
    vm_quiesce_of(&va_engine.w, vm_number_process(named));
    d->s->is = 0;
    if (!d->imported) { /* imported memory is freed when the process that allocated it ends */
        va_context(dm->context)->dm_used -= d->length;
        vm_free(&va_engine.w, d->s->memory, (d->length + PAGE - 1) / PAGE * PAGE + PAGE);
        vm_free(&va_engine.w, (uint64_t)((char *)d->s - va_engine.w.base), sizeof *d->s);
    }
    free(d);
    return 0;
}

struct ibv_mr *va_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
    struct va_dm *d = (struct va_dm *)dm;
    struct ibv_mr *mr;
    uint64_t *hazard;

    if (offset > d->length || length > d->length - offset || !(access & IBV_ACCESS_ZERO_BASED)) {
        errno = EINVAL;
        return NULL;
    }
    mr = va_make_mr(pd, d->memory + offset, length, 0, access);
    if (!mr)
        return NULL;
    mr->addr = NULL;
    __atomic_store_n(&vm_key(&va_engine.w, mr->lkey)->qpn, dm->handle, __ATOMIC_SEQ_CST);
    if (!hold(d, &hazard)) { /* another process freed it */
        ibv_dereg_mr(mr);
        errno = EINVAL;
        return NULL;
    }
    vm_hazard_end(hazard);
    return mr;
}
