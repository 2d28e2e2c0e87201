/* The function tables that libibverbs' inline functions call. A missing function stays NULL: the
 * header then returns EOPNOTSUPP. */
#include "abi.h"
#include "../engine/record.h"
#include "../engine/scheduling/timer.h"

#include <errno.h>
#include <time.h>

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    uint64_t now = ve_now_ns();

    (void)context;
    if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)
        values->raw_clock = (struct timespec){ .tv_nsec = (long)now }; /* cycles of hca_core_clock, as drivers fill it */
    return 0;
}

void va_fill_ops(struct verbs_context *v)
{
    struct ibv_context_ops *ops = &v->context.ops;

    ops->_compat_query_device = ibv_query_device;
    ops->_compat_query_port = ibv_query_port;
    ops->alloc_mw = va_alloc_mw;
    ops->bind_mw = va_bind_mw;
    ops->dealloc_mw = va_dealloc_mw;
    ops->poll_cq = va_poll_cq;
    ops->req_notify_cq = va_req_notify_cq;
    ops->post_srq_recv = va_post_srq_recv;
    ops->post_send = va_post_send;
    ops->post_recv = va_post_recv;
    if (ve_recording)
        va_record_ops(ops);
    v->query_port = va_query_port;
    v->advise_mr = va_advise_mr;
    v->alloc_null_mr = va_alloc_null_mr;
    v->reg_dm_mr = va_reg_dm_mr;
    v->alloc_dm = va_alloc_dm;
    v->free_dm = va_free_dm;
    v->alloc_parent_domain = va_alloc_parent_domain;
    v->alloc_td = va_alloc_td;
    v->dealloc_td = va_dealloc_td;
    v->modify_cq = va_modify_cq;
    v->query_rt_values = query_rt_values;
    v->create_cq_ex = va_create_cq_ex;
    v->query_device_ex = va_query_device_ex;
    v->open_qp = va_open_qp;
    v->create_qp_ex = va_create_qp_ex;
    v->get_srq_num = va_get_srq_num;
    v->create_srq_ex = va_create_srq_ex;
    v->post_srq_ops = va_post_srq_ops;
    v->open_xrcd = va_open_xrcd;
    v->close_xrcd = va_close_xrcd;
}

/* -- functions outside of InfiniBand, or without effect here -- */

VA_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
    (void)context, (void)attr, (void)mac, (void)vid;
    return errno = EOPNOTSUPP, -1; /* InfiniBand, not Ethernet */
}

VA_EXPORT int ibv_dontfork_range(void *base, size_t size)
{
    (void)base, (void)size;
    return 0;
}

VA_EXPORT int ibv_dofork_range(void *base, size_t size)
{
    (void)base, (void)size;
    return 0;
}
