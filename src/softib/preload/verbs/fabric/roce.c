/* RoCE: the GID table of Ethernet ports, and the port that a GID leads to. */
#include "internal.h"

#include <errno.h>
#include <string.h>

#define LINK_LOCAL 0xFE80000000000000ull
#define LOCAL_MAC 0x02           /* first octet: locally administered, unicast */
#define EUI64_LOCAL 0x02         /* the bit that EUI-64 inverts (RFC 4291, appendix A) */
#define EUI64_MIDDLE 0xFFFEull   /* bytes 3 and 4 of an EUI-64 made from a MAC */
#define IPV4_MULTICAST 14        /* high four bits of an address */

void sv_roce_read(struct sv_port *p)
{
    p->is_ethernet = true;
    p->lid = p->sm_lid = 0;
    p->lmc = p->sm_sl = p->subnet_timeout = p->init_type_reply = p->max_vl_num = 0;
    p->pkey_tbl_len = SV_ROCE_PKEYS;
    p->gid_tbl_len = SV_ROCE_GIDS;
    p->cap_mask = SV_ROCE_CAP_MASK;
    p->cap_mask2 = 0;
}

static uint64_t interface_of(uint32_t port)
{
    uint64_t mac = (uint64_t)(LOCAL_MAC ^ EUI64_LOCAL) << 40 | port;

    return (mac >> 24) << 40 | EUI64_MIDDLE << 24 | (mac & 0xFFFFFF);
}

int sv_roce_gid(uint32_t port, unsigned index, uint8_t gid[16])
{
    uint64_t high = __builtin_bswap64(LINK_LOCAL), low = __builtin_bswap64(interface_of(port));
    uint32_t address = __builtin_bswap32(sv_addr_of_port(port));

    memset(gid, 0, 16);
    if (index < 2) {
        memcpy(gid, &high, 8);
        memcpy(gid + 8, &low, 8);
    } else if (index < 4) {
        memset(gid + 10, 0xFF, 2);
        memcpy(gid + 12, &address, 4);
    }
    return index < SV_ROCE_GIDS ? 0 : -EINVAL;
}

bool sv_gid_is_ipv4(const uint8_t gid[16])
{
    static const uint8_t mapped[12] = { [10] = 0xFF, [11] = 0xFF };

    return !memcmp(gid, mapped, sizeof mapped);
}

bool sv_gid_is_group(const uint8_t gid[16])
{
    return gid[0] == 0xFF || (sv_gid_is_ipv4(gid) && gid[12] >> 4 == IPV4_MULTICAST);
}

uint32_t sv_roce_port(const uint8_t gid[16])
{
    uint64_t low = sv_get64(gid + 8);
    uint32_t port = sv_gid_is_ipv4(gid) ? sv_port_of_addr(sv_get32(gid + 12)) : (uint32_t)(low >> 40 << 24 | (low & 0xFFFFFF));

    if (port >= sv_shared_fabric.ports || !sv_is_ethernet(&sv_shared_fabric, port) ||
        (!sv_gid_is_ipv4(gid) && (sv_get64(gid) != LINK_LOCAL || low != interface_of(port))))
        return SV_NO_PORT;
    return port;
}

int sv_address_error(uint32_t port, bool is_global, unsigned sgid_index, const uint8_t dgid[16], uint16_t dlid)
{
    uint8_t sgid[16];

    if (!sv_is_ethernet(&sv_shared_fabric, port))
        return 0;
    if (!is_global || sv_roce_gid(port, sgid_index, sgid) || sv_gid_is_ipv4(sgid) != sv_gid_is_ipv4(dgid))
        return EINVAL;
    if (sv_gid_is_group(dgid))
        return dlid >= SV_LID_MCAST_MIN ? 0 : EINVAL;
    return sv_roce_port(dgid) == SV_NO_PORT ? ETIMEDOUT : 0;
}

uint16_t sv_address_lid(uint32_t port, const uint8_t dgid[16], uint16_t dlid)
{
    uint32_t dest;

    if (!sv_is_ethernet(&sv_shared_fabric, port) || sv_gid_is_group(dgid))
        return dlid;
    dest = sv_roce_port(dgid);
    return dest == SV_NO_PORT ? 0 : sv_lid(&sv_shared_fabric, dest);
}
