/* Device memory: here memory of the process, by words of 4 octets as mlx5 has it. */
#include "abi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct va_dm *all;   /* by handle, for import */
static uint32_t last;

/* Access is by words of 4 octets, as mlx5's device memory has it. */
static bool reaches(const struct va_dm *d, uint64_t offset, size_t length)
{
    return offset % 4 == 0 && length % 4 == 0 && offset <= d->length && length <= d->length - offset;
}

static int dm_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
    struct va_dm *d = (struct va_dm *)dm;

    if (!reaches(d, offset, length))
        return EINVAL;
    memcpy(d->memory + offset, from, length);
    return 0;
}

static int dm_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
    struct va_dm *d = (struct va_dm *)dm;

    if (!reaches(d, offset, length))
        return EINVAL;
    memcpy(to, d->memory + offset, length);
    return 0;
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
    if (!d || posix_memalign((void **)&d->memory, 4096, attr->length)) {
        free(d);
        errno = ENOMEM;
        return NULL;
    }
    memset(d->memory, 0, attr->length);
    d->length = attr->length;
    d->dm = (struct ibv_dm){ .context = context, .memcpy_to_dm = dm_to, .memcpy_from_dm = dm_from };
    c->dm_used += d->length;
    pthread_mutex_lock(&lock);
    d->dm.handle = ++last;
    d->next = all;
    all = d;
    pthread_mutex_unlock(&lock);
    return &d->dm;
}

/* In the process that made it; another process has no way to that memory. */
VA_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
    struct va_dm *of, *d = calloc(1, sizeof *d);

    pthread_mutex_lock(&lock);
    for (of = all; of && of->dm.handle != handle; of = of->next)
        ;
    if (d && of) {
        *d = *of;
        d->dm.context = context;
    }
    pthread_mutex_unlock(&lock);
    if (d && of)
        return &d->dm;
    free(d);
    errno = of ? ENOMEM : EINVAL;
    return NULL;
}

VA_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    free(dm);
}

int va_free_dm(struct ibv_dm *dm)
{
    struct va_dm *d = (struct va_dm *)dm;

    pthread_mutex_lock(&lock);
    for (struct va_dm **at = &all; *at; at = &(*at)->next) {
        if (*at == d) {
            *at = d->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    va_context(dm->context)->dm_used -= d->length;
    free(d->memory);
    free(d);
    return 0;
}

struct ibv_mr *va_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
    struct va_dm *d = (struct va_dm *)dm;
    struct ibv_mr *mr;

    if (offset > d->length || length > d->length - offset || !(access & IBV_ACCESS_ZERO_BASED))
        {
        errno = EINVAL;
        return NULL;
    }
    mr = va_make_mr(pd, d->memory + offset, length, 0, access);
    if (mr)
        mr->addr = NULL;
    return mr;
}

struct ibv_mr *va_alloc_null_mr(struct ibv_pd *pd)
{
    (void)pd;
    errno = EOPNOTSUPP;
    return NULL;
}
