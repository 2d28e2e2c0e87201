/*
 * Time on the wire (--pace): the time at which the last byte of a message arrives if it is sent now.
 *
 * Every port row has a link clock in the file `traffic`: the time until which its link is busy. A message adds its
 * bytes to each link of its path and arrives when the last link has sent it, plus the latency of cables, switches
 * and adapters. So all queue pairs of all processes that cross a link share its rate, in the order in which they
 * posted, or by the VL arbitration of its port (link_arbitration.h).
 */
#ifndef SOFTIB_VERBS_LINK_PACING_H
#define SOFTIB_VERBS_LINK_PACING_H

#include "link_arbitration.h"
#include "../path.h"

/* One link of a path, as it was when the path was walked. */
struct sv_step {
    struct softib_link_clock *clock;
    double per_byte;       /* ns << SV_LINK_CLOCK_SHIFT */
    double ticks;           /* length of a tick of PortXmitWait in ns / 64 */
    bool arbitrated;        /* `vl` and `arbiter` decide; otherwise messages are served in order */
    uint8_t vl;
    struct sv_arbiter arbiter;
};

#define SV_LINK_CLOCK_SHIFT 6     /* times of a link clock are in ns / 64: an ACK on a fast link takes less than a ns */

struct sv_timed_path {
    struct sv_step *steps;
    uint16_t links;
    uint64_t latency_ns;    /* latency of the first byte, from memory to memory */
};

/* Set `path` to the links at the ports `egress`, for packets of `sl`. False: this fabric has no link clocks, or out of
 * memory. */
bool sv_timed_path_lay(struct sv_timed_path *path, const uint32_t *egress, unsigned links, unsigned sl);
void sv_timed_path_free(struct sv_timed_path *path);
/* Add `octets` bytes to all links of the path at `now` (ns). Return the time when they have passed the links, without
 * the latency. Any thread may call it. */
uint64_t sv_timed_path_pass(const struct sv_timed_path *path, uint64_t now, uint64_t octets);
/* Return whether a switch would prefer `path` at `now` (ns): the first link at which the two paths differ has less
 * work waiting on `path`. */
bool sv_timed_path_is_freer(const struct sv_timed_path *path, const struct sv_timed_path *than, uint64_t now);

/* Return the data rate of a port's link in Gb/s (0: unknown), and set `lane_gbps` to the signalling rate of one
 * lane. */
double sv_link_gbps(uint32_t port, double *lane_gbps);

#endif
