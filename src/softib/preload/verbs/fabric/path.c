/* The walk of one packet's path, hop by hop. */
#include "path.h"

#include <math.h>

#include "roce.h"
#include "traffic.h"

bool sv_port_has_pkey(const struct sv_shared_fabric *b, uint32_t port, unsigned pkey)
{
    const uint16_t *entry = b->pkeys + b->pkey_base[port];

    for (unsigned i = 0; i < b->pkey_cap[port]; i++)
        if (sv_pkeys_match(entry[i], pkey))
            return true;
    return false;
}

bool sv_port_has_gid(const struct sv_shared_fabric *b, uint32_t port, const uint8_t gid[16])
{
    const uint8_t *info = sv_port_info(b, port);

    if (sv_is_ethernet(b, port))
        return sv_roce_port(gid) == port;
    uint64_t prefix = sv_get64(gid), guid = sv_get64(gid + 8);
    unsigned n = info[SV_GUID_CAP_AT] ? info[SV_GUID_CAP_AT] : 1;

    /* Every port also accepts the default subnet prefix (IBA 4.1.1). */
    if (!guid || (prefix != sv_get64(info + SV_GID_PREFIX_AT) && prefix != 0xFE80000000000000ull))
        return false;
    for (unsigned i = 0; i < n && (uint64_t)b->guid_base[port] + i < b->guids_n; i++)
        if (b->guids[b->guid_base[port] + i] == guid)
            return true;
    return false;
}

static bool lost(struct sv_path *path, enum sv_reason reason, uint32_t drop, unsigned counter)
{
    path->reason = reason;
    path->drop = drop;
    path->counter = (uint8_t)counter;
    return false;
}

/* Return the number of data VLs from PortInfo.OperationalVLs (14.2.5.6); if that is 0 (not set), from VLCap. */
unsigned sv_data_vls(const uint8_t *info)
{
    static const uint8_t vls[16] = { 1, 1, 2, 4, 8, 15 };
    unsigned code = info[SV_OPERATIONAL_VLS_AT] >> 4;

    return vls[code ? code : info[SV_VL_CAP_AT] >> 4];
}

/* Return the VL of `sl` on the link at `egress`, for a packet that entered a switch through portnum `in` (CA: 0). */
unsigned sv_vl_of(const struct sv_shared_fabric *b, uint32_t egress, unsigned in, unsigned sl)
{
    uint64_t row = (uint64_t)b->sl2vl_base[egress];

    if (sv_is_switch(b, (uint32_t)b->port_node[egress]))
        row += in;
    if (row >= b->sl2vl_rows)
        return 15;
    unsigned pair = b->sl2vl[8 * row + (sl >> 1 & 7)];
    return sl & 1 ? pair & 15 : pair >> 4;
}

/*
 * Return whether a switch port that enforces partitions on `route` rejects `pkey`. Subnet managers copy a host's
 * table to its switch port: packets of a limited member arrive with exactly that limited entry. So membership is
 * compared only on egress (as softib.agents.kernels.pkey does for MADs).
 */
static bool refuses(const struct sv_shared_fabric *b, uint32_t port, unsigned pkey, unsigned enforcement)
{
    if (!(sv_port_info(b, port)[SV_OPERATIONAL_VLS_AT] & enforcement) || !b->port_num[port] ||
        !sv_is_switch(b, (uint32_t)b->port_node[port]))
        return false;
    if (enforcement == SV_ENFORCE_IN) /* any entry of the partition matches, as for a packet from a full member */
        return !sv_port_has_pkey(b, port, pkey | SV_PKEY_MEMBER);
    return !sv_port_has_pkey(b, port, pkey);
}

/*
 * Return the maximum time in ps that a packet may wait at `egress` for the receiver's credits. A switch discards it
 * after the time of HOQLife n, 4.096 us times 2^n; with n above 19, never (14.2.5.6, 18.2.5.4). An HCA never discards
 * it.
 */
static double patience(const struct sv_shared_fabric *b, uint32_t egress)
{
    unsigned life = sv_port_info(b, egress)[SV_HOQ_LIFE_AT] & 31;

    if (!sv_is_switch(b, (uint32_t)b->port_node[egress]) || life > 19)
        return HUGE_VAL;
    return 4.096e6 * (double)(1u << life);
}

/* Return whether packets of the path's MTU expire at the head of the queue at `egress`, because the receiving port
 * drains too slowly (fault slow-port). */
static bool too_slow(const struct sv_shared_fabric *b, uint32_t egress, uint32_t peer, struct sv_path *path)
{
    double drain = b->port_drain[peer], most = patience(b, egress);

    if (drain <= 0 || (drain * (double)(128u << path->mtu) <= most && !isinf(drain)))
        return false;
    return !lost(path, SV_SLOW, egress, isinf(most) ? SOFTIB_DROP_HELD : SOFTIB_DROP_HOQ);
}

/* Return whether `port` grants credits although it drains nothing (fault slow-port --overrun: a
 * negative drain). */
static bool overruns(const struct sv_shared_fabric *b, uint32_t port)
{
    return isinf(b->port_drain[port]) && b->port_drain[port] < 0;
}

bool sv_cross(const struct sv_shared_fabric *b, const struct sv_route_key *route, uint32_t egress, uint32_t in, struct sv_path *path)
{
    int64_t peer = b->port_peer[egress];
    bool from_switch = sv_is_switch(b, (uint32_t)b->port_node[egress]);
    const uint8_t *info = sv_port_info(b, egress);
    /* Only a switch counts packets that it cannot send; an HCA stops its send queue instead. */
    uint32_t here = from_switch ? egress : SV_NO_PORT;

    if (peer < 0 || info[SV_PHYS_STATE_AT] >> 4 != SV_PHYS_LINK_UP ||
        sv_phys_state(b, (uint32_t)peer) != SV_PHYS_LINK_UP)
        return lost(path, SV_LINK_DOWN, here, SOFTIB_DROP_INACTIVE);
    if ((info[SV_STATE_AT] & 15) < SV_PORT_ACTIVE || sv_state(b, (uint32_t)peer) < SV_PORT_ARMED)
        return lost(path, SV_PORT_NOT_ACTIVE, here, SOFTIB_DROP_INACTIVE);
    unsigned vl = sv_vl_of(b, egress, in == SV_NO_PORT ? 0 : b->port_num[in], route->sl);
    if (vl == 15 || vl >= sv_data_vls(info))
        return lost(path, SV_NO_VL, in != SV_NO_PORT && from_switch ? in : SV_NO_PORT, SOFTIB_DROP_VL_MAPPING);
    unsigned mtu = info[SV_NEIGHBOR_MTU_AT] >> 4;
    if (mtu && mtu < path->mtu)
        path->mtu = (uint8_t)mtu;
    if (route->mtu > path->mtu)
        return lost(path, SV_MTU, here, SOFTIB_DROP_MTU);
    if (refuses(b, egress, route->pkey, SV_ENFORCE_OUT))
        return lost(path, SV_PKEY_SWITCH, egress, SOFTIB_DROP_XMIT_CONSTRAINT);
    if (too_slow(b, egress, (uint32_t)peer, path))
        return false;
    if (!path->links)
        path->vl = (uint8_t)vl;
    if (path->links == SV_PATH_LINKS)
        return lost(path, SV_LOOP, SV_NO_PORT, SOFTIB_DROP_NONE);
    path->egress[path->links++] = egress;
    if (overruns(b, (uint32_t)peer))
        return lost(path, SV_OVERRUN, (uint32_t)peer, SOFTIB_DROP_OVERRUN);
    if (refuses(b, (uint32_t)peer, route->pkey, SV_ENFORCE_IN))
        return lost(path, SV_PKEY_SWITCH, (uint32_t)peer, SOFTIB_DROP_RCV_CONSTRAINT);
    return true;
}

/* Return the port through which switch `node` forwards packets of `route`; SV_NO_PORT: none. */
static uint32_t lookup(const struct sv_shared_fabric *b, uint32_t node, const struct sv_route_key *route, struct sv_path *path)
{
    uint32_t row = (uint32_t)b->switch_of_node[node];
    unsigned out, lid = route->dlid;

    if (lid > sv_get16(b->switch_info + 64 * (size_t)row + SV_LINEAR_FDB_TOP_AT) || lid >= b->lft_cap)
        return SV_NO_PORT;
    out = b->lft[row * b->lft_cap + lid];
    if (out > b->node_nports[node])
        return SV_NO_PORT;
    uint32_t egress = (uint32_t)b->node_base[node] + out;
    return out ? sv_adapted(b, node, route, path, egress) : egress;
}

/* Walk the path from `route->port` to the port that owns the DLID. */
static bool travel(const struct sv_shared_fabric *b, const struct sv_route_key *route, struct sv_path *path)
{
    uint32_t at = route->port, node = (uint32_t)b->port_node[at], in = SV_NO_PORT, egress = at;

    if (!route->dlid || route->dlid >= SV_LID_MCAST_MIN)
        return lost(path, SV_NO_ROUTE, SV_NO_PORT, SOFTIB_DROP_NONE);
    if (sv_state(b, at) < SV_PORT_ACTIVE)
        return lost(path, SV_PORT_NOT_ACTIVE, SV_NO_PORT, SOFTIB_DROP_NONE);
    if (sv_owns(b, at, route->dlid)) {
        path->dest = at;
        return true;
    }
    if (sv_is_switch(b, node))
        egress = lookup(b, node, route, path);
    for (;;) {
        if (egress == SV_NO_PORT)
            return lost(path, SV_NO_ROUTE, in, SOFTIB_DROP_DLID_MAPPING);
        if (!sv_cross(b, route, egress, in, path))
            return false;
        in = (uint32_t)b->port_peer[egress];
        node = (uint32_t)b->port_node[in];
        if (!sv_is_switch(b, node)) {
            if (!sv_owns(b, in, route->dlid))
                return lost(path, SV_NO_ROUTE, SV_NO_PORT, SOFTIB_DROP_NONE);
            path->dest = in;
            return true;
        }
        egress = lookup(b, node, route, path);
        if (egress == (uint32_t)b->node_base[node]) {
            if (!sv_owns(b, egress, route->dlid))
                return lost(path, SV_NO_ROUTE, in, SOFTIB_DROP_DLID_MAPPING);
            path->dest = egress;
            return true;
        }
    }
}

enum sv_reason sv_path_walk(const struct sv_shared_fabric *b, const struct sv_route_key *route, struct sv_path *path)
{
    path->epoch = sv_shared_fabric_epoch(b);
    path->reason = SV_OK;
    path->dest = path->drop = SV_NO_PORT;
    path->counter = SOFTIB_DROP_NONE;
    path->mtu = 5;
    path->vl = 0;
    path->links = 0;
    path->choices = 1;
    path->rest = route->number;
    path->keep_us = 0;
    if (!travel(b, route, path))
        return path->reason;
    if (route->is_global && !sv_port_has_gid(b, path->dest, route->dgid))
        lost(path, SV_GID, SV_NO_PORT, SOFTIB_DROP_NONE);
    else if (route->dest_pkey ? !sv_pkeys_match(route->dest_pkey, route->pkey) : !sv_port_has_pkey(b, path->dest, route->pkey))
        lost(path, SV_PKEY, path->dest, SOFTIB_DROP_PKEY);
    return path->reason;
}
