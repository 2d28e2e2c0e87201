/*
 * The file `traffic` of a running fabric: traffic of applications by path. This header is the only declaration of its
 * layout; softib.live.verbs.traffic reads it into NumPy dtypes.
 *
 * A softib_traffic fills the first SOFTIB_CHUNK_OCTETS. Chunks of SOFTIB_CHUNK_CELLS cells of SOFTIB_CELL_OCTETS
 * follow; cell 0 of each is its softib_chunk. A chunk belongs to one process, which claims it with a compare-and-swap
 * of `owner` (0 -> its number); only the daemon releases it, after the death of that process.
 *
 * A cell counts the packets of one path in both directions: 0 forward, 1 back. Its state changes with single stores:
 * FREE -> TAKEN (its owner fills it) -> LIVE -> RETIRED (its owner, or the daemon after its death) -> FREE (the daemon,
 * after it has added the remaining counts to the counters of the ports). So no count is lost or counted twice when a
 * process is killed. `packets` and `dwords` only grow while LIVE. A writer sets the chunk's `dirty` if it reads 0. The
 * daemon clears it, adds the new counts, and reads the chunk again the next time, so that it finds any count that was
 * in progress.
 *
 * `egress` has the rows of the ports that packets leave, first those of the forward path; the peer of each (column
 * port_peer) receives the packets. If a path has more than SOFTIB_CELL_LINKS of them, `more` is the number of the cell
 * (state MORE) with the rest; 0 = none. Packets of a direction whose `counter` is not NONE pass `links` links and are
 * lost at port `drop`, which increments that counter. `corrupted` of them arrived with bit errors, at links with a
 * nonzero column port_loss.
 *
 * After the chunks comes one softib_link_clock for each port row.
 */
#ifndef SOFTIB_TRAFFIC_H
#define SOFTIB_TRAFFIC_H

#include <stdint.h>

#define SOFTIB_TRAFFIC_VERSION 4
#define SOFTIB_CELL_OCTETS 256
#define SOFTIB_CHUNK_CELLS 64
#define SOFTIB_CHUNK_OCTETS 16384
#define SOFTIB_CELL_LINKS 40

#define SOFTIB_CELL_FREE 0
#define SOFTIB_CELL_TAKEN 1
#define SOFTIB_CELL_LIVE 2
#define SOFTIB_CELL_RETIRED 3
#define SOFTIB_CELL_MORE 4

/*
 * The counters that a lost packet increments at port `drop`, and the trap that this port sends (IBA 16.1.3.5, 16.1.4,
 * 14.2.5.6): INACTIVE: PortXmitDiscards, PortInactiveDiscards MTU: PortXmitDiscards, PortNeighborMTUDiscards
 * DLID_MAPPING: PortRcvSwitchRelayErrors, PortDLIDMappingErrors VL_MAPPING: PortRcvSwitchRelayErrors,
 * PortVLMappingErrors XMIT_CONSTRAINT: PortXmitConstraintErrors, trap 259 RCV_CONSTRAINT: PortRcvConstraintErrors, trap
 * 259 PKEY: PKeyViolations, trap 257 QKEY: QKeyViolations, trap 258 HOQ: PortXmitDiscards,
 * PortSwHOQLifetimeLimitDiscards, PortXmitWait HELD: not lost, but never sent: PortXmitWait OVERRUN: PortRcvErrors,
 * PortBufferOverrunErrors, ExcessiveBufferOverrunErrors, trap 130
 */
#define SOFTIB_DROP_NONE 0
#define SOFTIB_DROP_INACTIVE 1
#define SOFTIB_DROP_MTU 2
#define SOFTIB_DROP_DLID_MAPPING 3
#define SOFTIB_DROP_VL_MAPPING 4
#define SOFTIB_DROP_XMIT_CONSTRAINT 5
#define SOFTIB_DROP_RCV_CONSTRAINT 6
#define SOFTIB_DROP_PKEY 7
#define SOFTIB_DROP_QKEY 8
#define SOFTIB_DROP_HOQ 9
#define SOFTIB_DROP_HELD 10
#define SOFTIB_DROP_OVERRUN 11

struct softib_traffic {
    char magic[8];          /* "SOFTIBt" and a NUL */
    uint32_t version;       /* SOFTIB_TRAFFIC_VERSION */
    uint32_t chunks;        /* number of chunks for which the file has room */
    uint64_t size;          /* bytes of the file */
    uint32_t high;          /* upper bound of chunks ever claimed: later ones are unused */
    uint32_t pid;           /* process of the daemon */
    uint64_t link_clocks_at;      /* offset of the first softib_link_clock */
    uint32_t link_clocks;         /* one for each port row */
    uint32_t paced;         /* 1: a program updates the link clocks */
};

/* The queue of a port's link, for programs with paced links (pacing/link_pacing.h). Times are
 * CLOCK_MONOTONIC, ns / 64. */
struct softib_link_clock {
    uint64_t busy;          /* time until which the link is busy */
    uint64_t wait;          /* ticks of PortXmitWait so far, of ten bit times of a lane each (16.1.3.5) */
    uint64_t lag;           /* longest wait for credits in the present busy period */
    uint64_t stalled_until;
    uint64_t lock;          /* lock of `at` and `backlog` (pacing/link_arbitration.h); 0: free */
    uint64_t at;
    uint64_t spare[2];
    float backlog[16];      /* work of each VL at the time `at` */
};

struct softib_chunk {
    uint32_t owner;         /* process number, 0 = unowned */
    uint32_t dirty;         /* 1: a count or the state of a cell changed */
};

struct softib_cell {
    uint32_t state;         /* SOFTIB_CELL_* */
    uint32_t more;          /* cell with further ports, 0 = none */
    uint32_t index;         /* of the cell in its chunk: 1 .. SOFTIB_CHUNK_CELLS - 1 */
    uint32_t links[2];      /* links that packets pass, forward and back */
    uint32_t drop[2];       /* port row at which they are lost */
    uint8_t counter[2];     /* SOFTIB_DROP_* */
    uint8_t multicast;
    uint8_t sl;
    uint16_t slid;
    uint16_t dlid;
    uint32_t key;           /* P_Key or Q_Key, for traps */
    uint32_t qp[2];         /* of sender and receiver, for traps */
    uint32_t reserved[2];
    uint32_t corrupted[2];    /* packets that bit errors corrupted on one of the links, modulo 2^32 */
    uint64_t packets[2];
    uint64_t dwords[2];      /* of 4 bytes, LRH to ICRC */
    uint32_t egress[40];    /* SOFTIB_CELL_LINKS */
};

#endif
