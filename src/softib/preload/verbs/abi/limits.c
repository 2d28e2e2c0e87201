/* Limits on the number of objects per process and device: the values for ibv_query_device, and their enforcement. */
#include "abi.h"

#include <errno.h>
#include <stdlib.h>

/* QPs and SRQs are limited because their numbers wrap at a million. All other objects are limited by the memory of the
 * process. */
static const uint32_t most[VA_KINDS] = {
    [VA_AH] = 1 << 18, [VA_CQ] = 1 << 18, [VA_MR] = 1 << 20, [VA_MW] = 1 << 20, [VA_PD] = 1 << 20, [VA_QP] = 1 << 18,
    [VA_SRQ] = 1 << 18,
};

int va_most(enum va_kind kind)
{
    return (int)most[kind];
}

bool va_count(struct ibv_context *context, enum va_kind kind)
{
    uint32_t *n = &((struct va_device *)context->device)->objects[kind];

    if (__atomic_add_fetch(n, 1, __ATOMIC_RELAXED) <= most[kind])
        return true;
    __atomic_fetch_sub(n, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return false;
}

void *va_counted(struct ibv_context *context, enum va_kind kind, size_t octets)
{
    void *object;

    if (!va_count(context, kind))
        return NULL;
    object = calloc(1, octets);
    if (object)
        return object;
    errno = ENOMEM;
    return va_uncount(context, kind);
}

void *va_uncount(struct ibv_context *context, enum va_kind kind)
{
    __atomic_fetch_sub(&((struct va_device *)context->device)->objects[kind], 1, __ATOMIC_RELAXED);
    return NULL;
}
