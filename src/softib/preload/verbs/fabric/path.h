/*
 * The path of a packet through the fabric's tables: its egress ports, its end port, and where and
 * why it is lost.
 *
 * Conditions for a packet to pass: it leaves ports that are ACTIVE and enters ports that are ARMED or ACTIVE (IBA
 * 7.2.7). Switches look up the DLID in their linear tables (18.2.4.3), and the VL of each link in SL2VL (7.6.6). They
 * check P_Keys where they enforce partitions (18.2.4.2). The end port owns the DLID (4.1.3), and its QP has a P_Key
 * that matches (10.9.1.2).
 */
#ifndef SOFTIB_VERBS_PATH_H
#define SOFTIB_VERBS_PATH_H

#include <stdbool.h>

#include "map.h"

#define SV_PATH_LINKS 128
#define SV_NO_PORT 0xFFFFFFFFu
#define SV_PATH_CHOICES 64      /* maximum number of paths that a flow uses with adaptive routing */
#define SV_TRANSPORT_RC 2    /* bits of ARInfo.by_transport_disable */
#define SV_TRANSPORT_UC 4

enum sv_reason {
    SV_OK,
    SV_PORT_NOT_ACTIVE, /* the port, or another on the path, is not up */
    SV_LINK_DOWN,       /* no cable, or a link without a physical connection */
    SV_NO_ROUTE,        /* a switch has no entry for the DLID, or the entry leads to another port */
    SV_LOOP,            /* more links than SV_PATH_LINKS: the tables lead in a circle */
    SV_NO_VL,           /* SL2VL has VL15, or a VL that the link does not have: the packet is dropped (7.6.6) */
    SV_MTU,             /* a link carries less than the path MTU */
    SV_PKEY,            /* the receiver's P_Key does not match */
    SV_PKEY_SWITCH,     /* a switch port that enforces partitions does not have the P_Key */
    SV_GID,             /* the end port does not own the GRH's DGID */
    SV_SLOW,            /* the receiver drains so slowly that packets expire at the head of the sender's queue */
    SV_OVERRUN          /* the receiver has no room, although it granted credits */
};

/* Parameters of a sender that determine the path of its packets. */
struct sv_route_key {
    uint32_t port;      /* row of the sender's port */
    uint16_t dlid;
    uint16_t pkey;      /* P_Key of the packet, native byte order */
    uint16_t dest_pkey; /* P_Key of the receiving QP; 0 = any entry of its port's table */
    uint8_t sl;
    uint8_t mtu;        /* code of the path MTU (1: 256 .. 5: 4096); 0 = the largest that fits */
    uint8_t transport;  /* SV_TRANSPORT_*: packets that may be routed adaptively; 0 = routed by the forwarding tables
                         * alone */
    uint16_t number;      /* number of the path, for switches that route adaptively */
    bool is_global;
    uint8_t dgid[16];   /* valid if is_global */
};

struct sv_path {
    uint64_t epoch;     /* epoch of the shared fabric before the walk */
    enum sv_reason reason;
    uint32_t dest;      /* row of the end port; SV_NO_PORT if not reached */
    uint32_t drop;      /* row of the port at which packets are lost; SV_NO_PORT: not lost, or no port counts the loss */
    uint8_t counter;    /* counter of `drop` that they increment: SOFTIB_DROP_* of traffic.h */
    uint8_t mtu;        /* code of the smallest link MTU, 5 for a loopback */
    uint8_t vl;         /* VL on the first link */
    uint16_t choices;      /* number of different paths, at most SV_PATH_CHOICES; 1: no switch chooses */
    uint32_t rest;      /* during the walk: the part of the path's number that is not used yet */
    uint32_t keep_us;   /* pause after which the flow may change its path; 0: with each message, UINT32_MAX: never */
    uint16_t links;     /* number of links that packets pass, up to the point of loss */
    uint32_t egress[SV_PATH_LINKS]; /* rows of the ports that packets leave */
};

/* Walk the path. Returns path->reason. A DLID of the port itself is a loopback without links. */
enum sv_reason sv_path_walk(const struct sv_shared_fabric *fabric, const struct sv_route_key *route, struct sv_path *path);

/* Return whether two P_Keys match: the low 15 bits are equal and at least one is a full member
 * (10.9.1.2); partition 0 matches nothing. */
static inline bool sv_pkeys_match(unsigned a, unsigned b)
{
    return (a & SV_PKEY_PARTITION) && !((a ^ b) & SV_PKEY_PARTITION) && ((a | b) & SV_PKEY_MEMBER);
}

bool sv_port_has_pkey(const struct sv_shared_fabric *fabric, uint32_t port, unsigned pkey);
bool sv_port_has_gid(const struct sv_shared_fabric *fabric, uint32_t port, const uint8_t gid[16]);

/* The tree of a multicast group for packets from one port: the ports that get a copy, and the links that carry one. */
struct sv_tree {
    uint64_t epoch;
    enum sv_reason reason;
    uint32_t dests_n, links_n;
    uint32_t *dests;    /* end ports that a copy reaches, without the sender's port */
    uint32_t *egress;   /* rows of the ports that a copy leaves */
};

/* Walk the tree of `route->dlid` (a multicast LID; IBA 18.2.4.3.3). Returns 0 or -ENOMEM; free with
 * sv_tree_free. */
int sv_tree_walk(const struct sv_shared_fabric *fabric, const struct sv_route_key *route, struct sv_tree *tree);
void sv_tree_free(struct sv_tree *tree);

/* Check whether a packet of `route` can cross the link at `egress`; used by both walks. Fills path->reason, drop
 * and counter. */
bool sv_cross(const struct sv_shared_fabric *b, const struct sv_route_key *route, uint32_t egress, uint32_t ingress_at_sender,
              struct sv_path *path);

/* Return the number of data VLs that a port uses, from its PortInfo. */
unsigned sv_data_vls(const uint8_t *info);
/* Return the VL of `sl` on the link at `egress`, for a packet that entered a switch through portnum `in` (CA: 0). */
unsigned sv_vl_of(const struct sv_shared_fabric *b, uint32_t egress, unsigned in, unsigned sl);

/* Return the port through which switch `node` sends packets of `route`. If the switch routes adaptively, it is the port
 * of the LID's group that the path's number selects; otherwise `egress`, which its table has. If `egress` is down, it
 * is any port of the group. SV_NO_PORT: the packets are dropped. */
uint32_t sv_adapted(const struct sv_shared_fabric *b, uint32_t node, const struct sv_route_key *route, struct sv_path *path, uint32_t egress);

#endif
