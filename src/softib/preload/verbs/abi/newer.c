/*
 * Functions of libibverbs since rdma-core 45 (IBVERBS_1.15 and later). A program linked to them
 * calls them with softib's contexts, for which libibverbs' functions would need a provider. The
 * structures are declared here because the installed headers may be older. In the source, the functions have other
 * names than in the object file, because newer headers declare libibverbs' names.
 */
#include "abi.h"
#include "link_rates.h" /* softib/iba/link_speeds.py */

#include <errno.h>

struct mr_init_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
};
enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_FD = 4, MASK_FD_OFFSET = 8 }; /* IBV_REG_MR_MASK_*; no DMA handles, no buffers */

#define EXPORTED_AS(name) __asm__(#name) VA_EXPORT

struct ibv_mr *va_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr) EXPORTED_AS(ibv_reg_mr_ex);
int va_query_port_speed(struct ibv_context *context, uint32_t portnum, uint64_t *speed) EXPORTED_AS(ibv_query_port_speed);

struct ibv_mr *va_reg_mr_ex(struct ibv_pd *pd, struct mr_init_attr *attr)
{
    unsigned access = (unsigned)attr->access;
    uint64_t mask = attr->comp_mask, iova = mask & MASK_IOVA ? attr->iova : (uintptr_t)attr->addr;

    if (mask & ~(uint64_t)(MASK_IOVA | MASK_ADDR | MASK_FD | MASK_FD_OFFSET)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if ((mask & MASK_FD) == (mask & MASK_ADDR) << 1 || (mask & MASK_FD_OFFSET && !(mask & MASK_FD)) ||
        (mask & MASK_FD && !(mask & MASK_IOVA && mask & MASK_FD_OFFSET))) { /* either the address, or the descriptor
                                                                             * with all its fields */
        errno = EINVAL;
        return NULL;
    }
    if (mask & MASK_FD)
        return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
    return va_make_mr(pd, attr->addr, attr->length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
}

/* In units of 100 Mb/s, as in the kernel (ib_port_attr_to_speed_info). Speed codes are bits, in the
 * order of the table. */
int va_query_port_speed(struct ibv_context *context, uint32_t portnum, uint64_t *speed)
{
    struct ibv_port_attr port;
    unsigned row, lanes, width;

    if (portnum > 255 || va_query_port(context, (uint8_t)portnum, &port, sizeof port))
        return errno = EINVAL;
    row = port.active_speed ? (unsigned)__builtin_ctz(port.active_speed) : 0;
    width = port.active_width ? port.active_width : 1;
    lanes = width < sizeof lanes_of_width ? lanes_of_width[width] : 0;
    *speed = row < sizeof link_speeds / sizeof *link_speeds ? (uint64_t)link_speeds[row].kernel_rate * lanes : 0;
    return 0;
}

/* -- not supported: DMA handles, buffers of a device, completion counters -- */

#define NO_POINTER(name)                                                                                                     \
    void *va_no_##name(void) EXPORTED_AS(name);                                                                              \
    void *va_no_##name(void)                                                                                                 \
    {                                                                                                                        \
        errno = EOPNOTSUPP;                                                                                                  \
        return NULL;                                                                                                         \
    }
#define NO(name, result)                                                                                                     \
    int va_no_##name(void) EXPORTED_AS(name);                                                                                \
    int va_no_##name(void)                                                                                                   \
    {                                                                                                                        \
        errno = EOPNOTSUPP;                                                                                                  \
        return result;                                                                                                       \
    }

NO_POINTER(ibv_alloc_dmah)
NO(ibv_dealloc_dmah, EOPNOTSUPP)
NO(ibv_dm_export_dmabuf_fd, -1)
NO_POINTER(ibv_alloc_buf)
NO_POINTER(ibv_free_buf)
NO_POINTER(ibv_reg_buf_mr)
NO(ibv_export_buf_dmabuf_fd, -1)
NO(_ibv_query_comp_cntr_caps, EOPNOTSUPP)
NO_POINTER(ibv_create_comp_cntr)
NO(ibv_destroy_comp_cntr, EOPNOTSUPP)
NO(ibv_set_comp_cntr, EOPNOTSUPP)
NO(ibv_set_err_comp_cntr, EOPNOTSUPP)
NO(ibv_inc_comp_cntr, EOPNOTSUPP)
NO(ibv_inc_err_comp_cntr, EOPNOTSUPP)
NO(ibv_read_comp_cntr, EOPNOTSUPP)
NO(ibv_read_err_comp_cntr, EOPNOTSUPP)
NO(ibv_qp_attach_comp_cntr, EOPNOTSUPP)
