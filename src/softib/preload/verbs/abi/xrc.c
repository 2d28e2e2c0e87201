/* XRC domains: one to all who open the same file (IBA 10.2.3, ibv_open_xrcd(3)). */
#include "abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Two processes get the same number from the same inode without asking each other. */
static uint32_t domain_of(const struct stat *file)
{
    uint64_t x = (uint64_t)file->st_ino * 0x9E3779B97F4A7C15u ^ (uint64_t)file->st_dev * 0xC2B2AE3D27D4EB4Fu;

    return (uint32_t)(x >> 32) | 0x80000000u; /* apart from those that are counted up */
}

struct ibv_xrcd *va_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    struct va_xrcd *x;
    struct stat file;
    bool named = attr->comp_mask & IBV_XRCD_INIT_ATTR_FD && attr->fd != -1;

    if ((attr->comp_mask & (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)) !=
        (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) || (!named && !(attr->oflags & O_CREAT)) ||
        (named && fstat(attr->fd, &file))) {
        errno = EINVAL;
        return NULL;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->xrcd.context = context;
    x->domain = named ? domain_of(&file)
                      : __atomic_add_fetch(&vm_head(&va_engine.w)->domain_next, 1, __ATOMIC_RELAXED);
    return &x->xrcd;
}

int va_close_xrcd(struct ibv_xrcd *xrcd)
{
    struct va_xrcd *x = (struct va_xrcd *)xrcd;

    if (__atomic_load_n(&x->users, __ATOMIC_ACQUIRE))
        return errno = EBUSY;
    free(x);
    return 0;
}
