/*
 * Adaptive routing: a switch may use any port of a LID's group (softib/iba/vendor/ar.py). Each path has a number, which
 * determines the port at every switch that may choose; the sender numbers its messages so that they spread
 * (engine/queue_pair/flows.h). With local repair (ARInfo.fr_enabled), a switch whose port towards a LID is down uses
 * another port of the group before the subnet manager reacts (softib.agents.kernels.route does the same for MADs).
 *
 * The tables of adaptive routing are lazy columns: they are in a memfd of the daemon. Access through a mapping would
 * allocate pages, so entries are read (pread) from the descriptor that the daemon passed. They are read only for
 * packets that may be routed adaptively, or whose path has a port that is down.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "path.h"

enum { BOUNDED, FREE, STATIC }; /* states of a LID */

static bool entry(int fd, const struct sv_lazy_column *column, uint64_t row, uint64_t index, size_t octets, void *to)
{
    uint64_t at = row * column->row_octets + index;

    return index + octets <= column->row_octets && pread(fd, to, octets, (off_t)(column->offset + at)) == (ssize_t)octets;
}

/* Return whether the link of `port` is up at both ends. */
static bool link_up(const struct sv_shared_fabric *b, uint32_t port)
{
    int32_t peer = b->port_peer[port];

    return peer >= 0 && sv_phys_state(b, port) == SV_PHYS_LINK_UP && sv_phys_state(b, (uint32_t)peer) == SV_PHYS_LINK_UP;
}

/* Write the ports of `node` in `group` that carry packets, ascending; return their number. */
static unsigned usable(const struct sv_shared_fabric *b, uint32_t node, const uint64_t group[4], uint32_t ports[255])
{
    unsigned n = 0;

    for (unsigned num = 1; num <= b->node_nports[node]; num++) {
        uint32_t port = (uint32_t)b->node_base[node] + num;

        if (group[num / 64] >> num % 64 & 1 && link_up(b, port) && sv_state(b, port) == SV_PORT_ACTIVE)
            ports[n++] = port;
    }
    return n;
}

/* Return whether the switch with this ARInfo chooses ports for packets of `route`. */
static bool chooses(const uint8_t info[SV_AR_INFO_OCTETS], const struct sv_route_key *route)
{
    return info[SV_FR_ENABLED_AT] & SV_AR_ENABLED && route->transport && !(info[SV_AR_TRANSPORTS_AT] & route->transport) &&
           (!(info[0] & SV_AR_BY_SL) || sv_get16(info + SV_AR_SLS_AT) >> route->sl & 1);
}

/* Return the port that the path's number selects. If the LID's state is BOUNDED, a flow keeps its path for the ageing
 * time of the switch. */
static uint32_t spread(const uint8_t info[SV_AR_INFO_OCTETS], unsigned state, const struct sv_route_key *route, struct sv_path *path,
                       const uint32_t *ports, unsigned n)
{
    uint32_t keep_us = state == FREE ? 0 : sv_get32(info + SV_AR_AGEING_AT);

    if (state != FREE && !keep_us)
        keep_us = UINT32_MAX;
    if (keep_us > path->keep_us)
        path->keep_us = keep_us;
    /* The sum depends on the pair of ports, so that even a few path numbers use different ports of later switches. */
    uint32_t port = ports[(path->rest + route->port + route->dlid) % n];

    path->rest /= n;
    path->choices = path->choices * n < SV_PATH_CHOICES ? path->choices * n : SV_PATH_CHOICES;
    return port;
}

static uint32_t choose(const struct sv_shared_fabric *b, uint32_t node, const struct sv_route_key *route, struct sv_path *path,
                       uint32_t egress)
{
    uint64_t row = (uint64_t)b->switch_of_node[node], group[4];
    uint8_t info[SV_AR_INFO_OCTETS];
    uint32_t ports[255];
    uint16_t of_lid;

    if (!entry(b->lazy_fd, &b->ar_info, row, 0, sizeof info, info) ||
        !entry(b->lazy_fd, &b->ar_lft, row, 2 * (uint64_t)route->dlid, 2, &of_lid) || !(of_lid & SV_AR_GROUP_MASK) ||
        !entry(b->lazy_fd, &b->ar_group, row, 32 * (uint64_t)(of_lid & SV_AR_GROUP_MASK), 32, group))
        return egress;
    unsigned state = of_lid >> SV_AR_STATE_SHIFT, n = usable(b, node, group, ports);

    if (state < STATIC && chooses(info, route)) {
        if (n)
            return spread(info, state, route, path, ports, n);
        if (info[0] & SV_AR_NO_FALLBACK && (group[0] | group[1] | group[2] | group[3]))
            return SV_NO_PORT;
    }
    return info[SV_FR_ENABLED_AT] & SV_FR_ENABLED && n && !link_up(b, egress) ? ports[0] : egress;
}

uint32_t sv_adapted(const struct sv_shared_fabric *b, uint32_t node, const struct sv_route_key *route, struct sv_path *path, uint32_t egress)
{
    struct stat info;
    int before = errno;

    if (!b->ar_group.row_octets || (!route->transport && link_up(b, egress)))
        return egress;
    /* If the program closed all descriptors, this one is closed too, and its number may now belong to another file. */
    if (!fstat(b->lazy_fd, &info) && info.st_ino == b->lazy_inode && S_ISREG(info.st_mode))
        egress = choose(b, node, route, path, egress);
    errno = before;
    return egress;
}
