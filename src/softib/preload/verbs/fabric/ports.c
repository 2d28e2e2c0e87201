/* The current attributes of a port, read from the shared fabric. */
#include "internal.h"

#include <errno.h>
#include <string.h>

#define NETWORK (127u << 24 | 64u << 16) /* 127.64.0.0/10 */
#define IPOIB_NETWORK (10u << 24 | 64u << 16) /* 10.64.0.0/10: the addresses of the same ports with softib run --net */
#define MASK 0xffc00000u
#define EXTENDED_SPEED_BIT 4             /* FDR's bit in active_speed: FDR 16, EDR 32, HDR 64, NDR 128 */
#define XDR 256

/* Return ibv_port_attr.active_speed, with the kernel's codes (SDR 1, DDR 2, QDR 4, FDR10 8, FDR 16, …, XDR 256). */
static uint32_t speed_of(const uint8_t *info)
{
    uint32_t extended = info[SV_SPEED_EXT_ACTIVE_AT] >> 4;

    if (info[SV_EXT2_AT] >> 5 & 3)
        return XDR;
    return extended ? extended << EXTENDED_SPEED_BIT : info[SV_SPEED_ACTIVE_AT] >> 4;
}

static uint16_t gids_of(const uint8_t *info)
{
    return info[SV_GUID_CAP_AT] ? info[SV_GUID_CAP_AT] : 1;
}

void sv_port_read(uint32_t port, struct sv_port *p)
{
    const uint8_t *info = sv_port_info(&sv_shared_fabric, port);

    memset(p, 0, sizeof *p);
    p->lid = sv_get16(info + SV_LID_AT);
    p->sm_lid = sv_get16(info + SV_MASTER_SM_LID_AT);
    p->pkey_tbl_len = sv_shared_fabric.pkey_cap[port];
    p->gid_tbl_len = gids_of(info);
    p->bad_pkeys = sv_get16(info + SV_PKEY_VIOLATIONS_AT);
    p->bad_qkeys = sv_get16(info + SV_QKEY_VIOLATIONS_AT);
    p->cap_mask = sv_get32(info + SV_CAP_MASK_AT);
    p->cap_mask2 = sv_get16(info + SV_CAP_MASK2_AT);
    p->state = info[SV_STATE_AT] & 15;
    p->phys_state = info[SV_PHYS_STATE_AT] >> 4;
    p->lmc = info[SV_LMC_AT] & 7;
    p->sm_sl = info[SV_NEIGHBOR_MTU_AT] & 15;
    p->subnet_timeout = info[SV_SUBNET_TIMEOUT_AT] & 31;
    p->init_type_reply = info[SV_INIT_TYPE_REPLY_AT] >> 4;
    p->max_vl_num = info[SV_VL_CAP_AT] >> 4;
    p->max_mtu = info[SV_INIT_TYPE_REPLY_AT] & 15;
    p->active_mtu = info[SV_NEIGHBOR_MTU_AT] >> 4;
    p->active_width = info[SV_LINK_WIDTH_ACTIVE_AT];
    if (sv_is_ethernet(&sv_shared_fabric, port))
        sv_roce_read(p);
    p->active_speed = sv_shared_fabric.port_mlnx_speed[3 * (size_t)port + 2] & 1 ? 8 : speed_of(info);
}

int sv_port_gid(uint32_t port, unsigned index, uint8_t gid[16])
{
    const uint8_t *info = sv_port_info(&sv_shared_fabric, port);
    uint64_t at = (uint64_t)sv_shared_fabric.guid_base[port] + index;

    memset(gid, 0, 16);
    if (sv_is_ethernet(&sv_shared_fabric, port))
        return sv_roce_gid(port, index, gid);
    if (index >= gids_of(info))
        return -EINVAL;
    if (at >= sv_shared_fabric.guids_n || !sv_shared_fabric.guids[at])
        return 0;
    uint64_t guid = __builtin_bswap64(sv_shared_fabric.guids[at]);

    memcpy(gid, info + SV_GID_PREFIX_AT, 8);
    memcpy(gid + 8, &guid, 8);
    return 0;
}

int sv_port_pkey(uint32_t port, unsigned index, uint16_t *pkey)
{
    if (index >= (sv_is_ethernet(&sv_shared_fabric, port) ? SV_ROCE_PKEYS : sv_shared_fabric.pkey_cap[port]))
        return -EINVAL;
    *pkey = sv_shared_fabric.pkeys[sv_shared_fabric.pkey_base[port] + (int32_t)index];
    return 0;
}

uint32_t sv_addr_of_port(uint32_t port)
{
    return NETWORK + 1 + port;
}

uint32_t sv_port_of_addr(uint32_t address)
{
    uint32_t port = address - ((address & MASK) == IPOIB_NETWORK ? IPOIB_NETWORK : NETWORK) - 1;

    if (port >= sv_shared_fabric.ports || !sv_shared_fabric.port_num[port] ||
        sv_is_switch(&sv_shared_fabric, (uint32_t)sv_shared_fabric.port_node[port]))
        return SV_NO_PORT;
    return port;
}
