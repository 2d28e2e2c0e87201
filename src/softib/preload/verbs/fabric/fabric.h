/*
 * The fabric's interface for the engine and the ABI: the devices of this program's node, their
 * ports, the path of a QP, and its traffic. All values are read from the daemon's shared fabric at
 * the time of the call.
 *
 * Functions that can fail return 0 or -errno. All are thread-safe, except that a sv_flow is guarded
 * by its QP's lock.
 */
#ifndef SOFTIB_VERBS_FABRIC_H
#define SOFTIB_VERBS_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "cells.h"
#include "server.h"
#include "pacing/link_pacing.h"
#include "map.h"
#include "path.h"
#include "roce.h"
#include "wire_size.h"

/* -- the connection -- */

/*
 * Join the fabric of the environment (SOFTIB_UMAD: its socket for umad devices, in the folder of
 * the fabric's files; SOFTIB_VIEW: the program's view) once, and again in a forked child, which gets a new number.
 * Return -ENODEV if there is no fabric. If there is none, or if its version is not this library's, one line on stderr
 * gives the reason (not with SOFTIB_QUIET=1).
 */
int sv_fabric_join(void);
/* The fabric's arrays, which are mapped by sv_fabric_join. */
extern struct sv_shared_fabric sv_shared_fabric;
/* _process: this process's number in the fabric, 0 before sv_fabric_join. _folder: the folder of the fabric's files. */
uint32_t sv_fabric_process(void);
/* Pass the descriptor of the file `verbs` to the caller; -1 after the first call. */
int sv_fabric_memory(void);
const char *sv_fabric_folder(void);
/* Register a function that sv_fabric_join calls in a forked child before it joins again. */
void sv_fabric_at_fork(void (*forget)(void));
/* Return whether the daemon is alive. Checks only the connection, with one system call. */
bool sv_fabric_lives(void);
/* Make the daemon add all counts of the traffic file to the counters of the ports, and wait until it has. */
int sv_fabric_fold(void);

/* -- devices -- */

struct sv_device {
    char name[64];
    uint32_t node;          /* row */
    uint64_t node_guid, sys_image_guid; /* native byte order */
    uint32_t vendor_id, vendor_part_id, hw_ver;
    char fw[64], desc[65];
    uint8_t node_type;      /* 1 CA, 2 switch */
    uint8_t ports;          /* phys_port_cnt */
    uint8_t portnums[256];  /* portnums that the program sees, ascending; queries work for all others, too */
    unsigned portnums_n;
};

/* Return the number of devices, and set `devices` to them, in the order of the host: mlx5_0, mlx5_1 .. They stay valid
 * for the life of the process. */
unsigned sv_devices(const struct sv_device **devices);
/* Have a softib_event written to `fd` for each event of the device's ports. The caller still owns `fd`. */
int sv_device_events(const struct sv_device *device, int fd);
/* Return the row of a port; SV_NO_PORT if the device has no such portnum. */
uint32_t sv_port_row(const struct sv_device *device, unsigned portnum);

/* -- ports -- */

struct sv_port {
    uint16_t lid, sm_lid, pkey_tbl_len, gid_tbl_len, bad_pkeys, bad_qkeys;
    uint32_t cap_mask;
    uint16_t cap_mask2;
    uint8_t state, phys_state, lmc, sm_sl, subnet_timeout, init_type_reply, max_vl_num;
    uint8_t max_mtu, active_mtu; /* codes of enum ibv_mtu */
    uint8_t active_width;
    bool is_ethernet;
    uint32_t active_speed;       /* as ibv_port_attr.active_speed: 1 SDR .. 128 NDR, 256 XDR */
};

void sv_port_read(uint32_t port, struct sv_port *attributes);
/* GID `index`, big endian: prefix and PortGUID, then alias GUIDs; zeros where the table has none. -EINVAL beyond it. */
int sv_port_gid(uint32_t port, unsigned index, uint8_t gid[16]);
/* Read P_Key `index`, in native byte order. Return -EINVAL beyond the table. */
int sv_port_pkey(uint32_t port, unsigned index, uint16_t *pkey);
/* Each CA port owns one address of 127.64.0.0/10 (native byte order): the network's first address + 1 + its row. */
uint32_t sv_addr_of_port(uint32_t port);
uint32_t sv_port_of_addr(uint32_t address); /* SV_NO_PORT: no port has it */

/* -- the path of a QP, or of an address handle, and back -- */

struct sv_flow {
    uint64_t epoch;
    uint32_t dest;              /* row of the port at the other end */
    uint8_t reason[2];          /* enum sv_reason, forward and back */
    uint8_t mtu, vl;
    uint16_t links[2];
    uint16_t choices;              /* number of paths among which adaptive routing chooses; 1: no switch chooses */
    uint32_t keep_us;           /* as in sv_path */
    struct softib_cell *cell;   /* NULL: not allocated yet, or the traffic file is full */
    /* Bit errors: n packets with w dwords in total all arrive with probability exp(-(n loss[direction][0] + 4 w
     * loss[direction][1])). */
    double loss[2][2];
};

/*
 * Walk the path again. `back` is NULL for datagrams. If the path is the same, the cell is kept; otherwise the old one
 * is retired and a new one is allocated. 0, or -ENOSPC: the flow works, but is not counted.
 */
int sv_flow_walk(struct sv_flow *flow, const struct sv_route_key *forward, const struct sv_route_key *back, const uint32_t qp[2]);
/* Multicast: the flow counts on every link of `tree`. */
int sv_flow_tree(struct sv_flow *flow, const struct sv_tree *tree, const struct sv_route_key *route, const uint32_t qp[2]);
/* Release a flow. */
void sv_flow_end(struct sv_flow *flow);

/* Return whether the flow must be walked again. */
static inline bool sv_flow_is_stale(const struct sv_flow *flow)
{
    return flow->epoch != sv_shared_fabric_epoch(&sv_shared_fabric);
}

/* Count a message that passes (or is lost on the flow's path): direction 0 forward, 1 back. */
static inline void sv_flow_count(struct sv_flow *flow, unsigned direction, struct sv_wire_size size)
{
    if (flow->cell)
        sv_cell_count(flow->cell, direction, size.packets, size.dwords);
}

/* Count `packets` of the packets already counted as corrupted by bit errors. */
static inline void sv_flow_corrupt(const struct sv_flow *flow, unsigned direction, uint32_t packets)
{
    if (flow->cell)
        sv_cell_corrupt(flow->cell, direction, packets);
}

/* -- violation.c: packets that reached `port`, and that no QP there may accept -- */

/* Wrong Q_Key: QKeyViolations and trap 258 (IBA 10.2.5, 14.2.5.9). */
void sv_qkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t qkey, const uint32_t qp[2]);
/* A P_Key that matches an entry of the port's table, but not the QP's: PKeyViolations and trap 257
 * (10.9.4). */
void sv_pkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t pkey, const uint32_t qp[2]);

#endif
