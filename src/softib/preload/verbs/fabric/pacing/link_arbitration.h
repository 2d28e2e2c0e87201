/*
 * VL arbitration of a paced link (IBA 7.6.9). Each VL has a backlog of work, in ns / 64 of the whole link.
 * High-priority VLs are served before the others, up to LimitHighPri. The VLs of a table share the link by their
 * weights, and the share of a VL without work goes to the others. This is a fluid model: a message that is sent while
 * another VL has work waits for one packet of that VL, and messages sent later on other VLs do not delay it.
 */
#ifndef SOFTIB_VERBS_LINK_ARBITRATION_H
#define SOFTIB_VERBS_LINK_ARBITRATION_H

#include "../map.h"
#include "../traffic.h"

#include <stdbool.h>

#define SV_DATA_VLS 15

/* The arbitration tables of a port. */
struct sv_arbiter {
    float weight[SV_DATA_VLS];  /* weight of each VL in its table */
    float high_share;           /* share of the link that high-priority VLs get while others have work */
    uint16_t high;              /* bit mask of the VLs in the high-priority table */
};

/* Read the tables of the port at `egress`; false: the port has one data VL, or no table, and sends messages in
 * order. */
bool sv_arbiter_of(const struct sv_shared_fabric *b, uint32_t egress, struct sv_arbiter *arbiter);
/* Add `takes` of work on `vl` at `now`; return the time when the link will have sent it (all in ns / 64). */
uint64_t sv_arbitrate(const struct sv_arbiter *arbiter, struct softib_link_clock *clock, unsigned vl, uint64_t now, double takes,
                      double packet);

#endif
