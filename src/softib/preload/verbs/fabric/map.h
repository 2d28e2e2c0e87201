/* A running fabric's arrays (the file `shared_fabric`), mapped read-only. softib/fabric/columns.py documents each
 * array. */
#ifndef SOFTIB_VERBS_MAP_H
#define SOFTIB_VERBS_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "../../shared_fabric.h"
#include "attributes.h"

/* X(C type of an element, name of the column, dtype, the count that is the size of its first dimension). */
#define SV_COLUMNS(X) \
    X(uint8_t, node_type, "|u1", nodes) \
    X(uint8_t, node_nports, "|u1", nodes) \
    X(int32_t, node_base, "<i4", nodes) \
    X(uint64_t, node_guid, "<u8", nodes) \
    X(uint64_t, sys_guid, "<u8", nodes) \
    X(uint32_t, vendor_id, "<u4", nodes) \
    X(uint16_t, device_id, "<u2", nodes) \
    X(uint32_t, revision, "<u4", nodes) \
    X(uint8_t, node_ethernet, "|u1", nodes) \
    X(uint8_t, node_desc, "|u1", nodes) \
    X(int32_t, switch_of_node, "<i4", nodes) \
    X(int32_t, port_node, "<i4", ports) \
    X(uint8_t, port_num, "|u1", ports) \
    X(uint64_t, port_guid, "<u8", ports) \
    X(int32_t, port_peer, "<i4", ports) \
    X(int32_t, port_cable, "<i4", ports) \
    X(uint8_t, port_info, "|u1", ports) \
    X(uint8_t, port_mlnx_speed, "|u1", ports) \
    X(double, port_loss, "<f8", ports) \
    X(double, port_drain, "<f8", ports) \
    X(int32_t, pkey_base, "<i4", ports) \
    X(uint16_t, pkey_cap, "<u2", ports) \
    X(int32_t, guid_base, "<i4", ports) \
    X(int32_t, sl2vl_base, "<i4", ports) \
    X(uint8_t, vl_arb, "|u1", ports) \
    X(float, cable_length_m, "<f4", cables) \
    X(double, cable_ber, "<f8", cables) \
    X(uint8_t, switch_info, "|u1", switches) \
    X(uint8_t, lft, "|u1", switches) \
    X(uint16_t, mft, "<u2", switches) \
    X(uint16_t, pkeys, "<u2", pkeys) \
    X(uint64_t, guids, "<u8", guids) \
    X(uint8_t, sl2vl, "|u1", sl2vl_rows)

/* A lazy column: rows of `row_octets` bytes (0: the fabric has no such column) from `offset` in the
 * daemon's second file. */
struct sv_lazy_column {
    uint64_t offset, row_octets;
};

struct sv_shared_fabric {
    const struct softib_shared_fabric *head;
    int lazy_fd;             /* this process's descriptor of the daemon's second file */
    uint64_t lazy_inode;
    struct sv_lazy_column ar_info, ar_lft, ar_group; /* rows: switches */
    uint64_t nodes, ports, cables, switches, pkeys_n, guids_n, sl2vl_rows;
    uint64_t lft_cap, mlids, mft_positions;
#define X(type, name, dtype, rows) const type *name;
    SV_COLUMNS(X)
#undef X
};

/*
 * Map the file `fd`, and read from `lazy`, which stays open; messages name it `path`. Returns 0, or
 * -errno and one line of error text in `why` (EPROTO: another version).
 */
int sv_shared_fabric_map(struct sv_shared_fabric *fabric, int fd, int lazy, const char *path, char *why, size_t room);
void sv_shared_fabric_unmap(struct sv_shared_fabric *fabric);

/*
 * Return the number of changes of the configuration so far. A cached path stores the epoch read BEFORE its walk, and is
 * walked again when the epoch differs. The daemon writes tables first, then the epoch, in one step of its loop. A walk
 * in between may see both old and new entries, as packets do while tables are written; it is repeated, because the
 * epoch changes.
 */
static inline uint64_t sv_shared_fabric_epoch(const struct sv_shared_fabric *fabric)
{
    return __atomic_load_n(&fabric->head->epoch, __ATOMIC_ACQUIRE);
}

/* -- PortInfo, SwitchInfo: wire images, big endian -- */

static inline const uint8_t *sv_port_info(const struct sv_shared_fabric *b, uint32_t port)
{
    return b->port_info + 64 * (size_t)port;
}

static inline uint16_t sv_get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t sv_get32(const uint8_t *at)
{
    return (uint32_t)sv_get16(at) << 16 | sv_get16(at + 2);
}

static inline uint64_t sv_get64(const uint8_t *at)
{
    return (uint64_t)sv_get32(at) << 32 | sv_get32(at + 4);
}

static inline uint16_t sv_lid(const struct sv_shared_fabric *b, uint32_t port)
{
    return sv_get16(sv_port_info(b, port) + SV_LID_AT);
}

static inline unsigned sv_lmc(const struct sv_shared_fabric *b, uint32_t port)
{
    return sv_port_info(b, port)[SV_LMC_AT] & 7;
}

static inline unsigned sv_state(const struct sv_shared_fabric *b, uint32_t port)
{
    return sv_port_info(b, port)[SV_STATE_AT] & 15;
}

static inline unsigned sv_phys_state(const struct sv_shared_fabric *b, uint32_t port)
{
    return sv_port_info(b, port)[SV_PHYS_STATE_AT] >> 4;
}

/* Return whether `lid` is one of the 2^LMC LIDs of an end port (IBA 4.1.3). */
static inline int sv_owns(const struct sv_shared_fabric *b, uint32_t port, unsigned lid)
{
    unsigned base = sv_lid(b, port);

    return base && base <= lid && lid < base + (1u << sv_lmc(b, port));
}

static inline int sv_is_ethernet(const struct sv_shared_fabric *b, uint32_t port)
{
    return b->node_ethernet[b->port_node[port]];
}

/* Return the source LID that the receiver of a packet from `port` sees; 0 for RoCE, which has no LIDs. */
static inline uint16_t sv_source_lid(const struct sv_shared_fabric *b, uint32_t port)
{
    return sv_is_ethernet(b, port) ? 0 : sv_lid(b, port);
}

static inline int sv_is_switch(const struct sv_shared_fabric *b, uint32_t node)
{
    return b->node_type[node] == SV_NODE_SWITCH;
}

#endif
