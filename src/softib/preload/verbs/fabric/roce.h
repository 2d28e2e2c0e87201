/*
 * RoCE: adapters whose link layer is Ethernet. Programs see no LIDs. A GID names the destination, and the library finds
 * the port that owns the GID, as ARP does on hardware. Inside the fabric, packets are routed by the LIDs that the
 * subnet manager assigned.
 *
 * GID table of a port: 0 and 1 hold the link-local address of its MAC, 2 and 3 its IPv4 address; even entries are RoCE
 * v1, odd ones v2; the others are empty. MAC: 02 and the port's row in five bytes. softib/live/sysfs/roce.py restates
 * this for sysfs and rdma_cm.
 */
#ifndef SOFTIB_VERBS_ROCE_H
#define SOFTIB_VERBS_ROCE_H

#include <stdbool.h>
#include <stdint.h>

#define SV_ROCE_GIDS 16
#define SV_ROCE_PKEYS 1
#define SV_ROCE_CAP_MASK 0x04010000u /* CM, IP-based GIDs (bits that Linux sets for RoCE) */

struct sv_port;

/* Set those attributes in which an Ethernet port differs from an InfiniBand port. */
void sv_roce_read(struct sv_port *p);
int sv_roce_gid(uint32_t port, unsigned index, uint8_t gid[16]);
static inline bool sv_roce_is_v2(unsigned gid_index)
{
    return gid_index & 1;
}
bool sv_gid_is_ipv4(const uint8_t gid[16]);
bool sv_gid_is_group(const uint8_t gid[16]); /* multicast: IPv6, or IPv4 in IPv6 */
/* Return the Ethernet port with this GID; SV_NO_PORT: none has it. */
uint32_t sv_roce_port(const uint8_t gid[16]);

/* Check the address of a path from `port`. Return 0; EINVAL for an Ethernet port without a GRH, or with GIDs of two
 * address families; ETIMEDOUT if no port answers for `dgid`. InfiniBand: 0. */
int sv_address_error(uint32_t port, bool is_global, unsigned sgid_index, const uint8_t dgid[16], uint16_t dlid);
/* Return the DLID of a path from `port`: `dlid`; on Ethernet, unless `dgid` is a group, the present LID of the port
 * that owns `dgid` (0: none). */
uint16_t sv_address_lid(uint32_t port, const uint8_t dgid[16], uint16_t dlid);

#endif
