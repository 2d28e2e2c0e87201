/*
 * Local repair: a switch whose port towards a LID is down uses another port of the LID's adaptive
 * routing group, before the subnet manager reacts (ARInfo.fr_enabled; softib.agents.kernels.route
 * does the same for MADs).
 *
 * The tables of adaptive routing are lazy columns: they are in a memfd of the daemon. Access through a mapping would
 * allocate pages, so entries are read from the descriptor passed by the daemon, and only in walks that meet a port
 * that is down.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "path.h"

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

/* Ports of the group that the switch `row` has for `lid`; false: local repair is off, or there is
 * no group. */
static bool group_of(const struct sv_shared_fabric *b, int fd, uint64_t row, unsigned lid, uint64_t ports[4])
{
    uint8_t flags;
    uint16_t group;

    return entry(fd, &b->ar_info, row, SV_FR_ENABLED_AT, 1, &flags) && (flags & SV_FR_ENABLED) &&
           entry(fd, &b->ar_lft, row, 2 * (uint64_t)lid, 2, &group) && (group & SV_AR_GROUP_MASK) &&
           entry(fd, &b->ar_group, row, 32 * (uint64_t)(group & SV_AR_GROUP_MASK), 32, ports);
}

static uint32_t first_up(const struct sv_shared_fabric *b, uint32_t node, const uint64_t ports[4], uint32_t egress)
{
    for (unsigned num = 1; num <= b->node_nports[node]; num++) {
        uint32_t port = (uint32_t)b->node_base[node] + num;

        if (ports[num / 64] >> num % 64 & 1 && link_up(b, port) && sv_state(b, port) == SV_PORT_ACTIVE)
            return port;
    }
    return egress;
}

uint32_t sv_repaired(const struct sv_shared_fabric *b, uint32_t node, unsigned lid, uint32_t egress)
{
    uint64_t ports[4];
    struct stat info;
    int before = errno;

    if (!b->ar_group.row_octets || link_up(b, egress))
        return egress;
    /* A program that closes all descriptors has closed this one too; the number may now belong to
     * another file. */
    if (!fstat(b->lazy_fd, &info) && info.st_ino == b->lazy_inode && S_ISREG(info.st_mode) &&
        group_of(b, b->lazy_fd, (uint64_t)b->switch_of_node[node], lid, ports))
        egress = first_up(b, node, ports, egress);
    errno = before;
    return egress;
}
