/*
 * On-demand paging (ibv_reg_mr(3), IBV_ACCESS_ON_DEMAND). No region here is pinned: a copy goes
 * through the page tables of its process. A region with this access over the whole address space is
 * implicit: its key gives access to all mapped memory.
 */
#include "abi.h"

#include <stdint.h>

bool va_odp_implicit(unsigned access, const void *address, size_t length)
{
    return access & IBV_ACCESS_ON_DEMAND && !address && length == SIZE_MAX;
}

void va_odp_caps(struct ibv_device_attr_ex *all)
{
    all->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    all->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
                                                   IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
    all->odp_caps.per_transport_caps.uc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
    all->odp_caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV;
    all->xrc_odp_caps = all->odp_caps.per_transport_caps.rc_odp_caps;
}
