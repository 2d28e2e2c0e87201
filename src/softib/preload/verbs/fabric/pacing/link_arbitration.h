/*
 * VL arbitration of a paced link (IBA 7.6.9). Each VL has a backlog of work, in ns / 64 of the whole link. High-priority
 * VLs are served before the others, up to the limit of high priority; the VLs of a table share by its weights, and a VL
 * without work leaves its share to the others. The model is a fluid one: a message that is sent while another VL has
 * work waits for one packet of that VL, and messages sent later on other VLs do not change its time.
 */
#ifndef SOFTIB_VERBS_LINK_ARBITRATION_H
#define SOFTIB_VERBS_LINK_ARBITRATION_H

#include "../map.h"
#include "../traffic.h"

#include <stdbool.h>

#define SV_DATA_VLS 15

/* The arbitration tables of a port. */
struct sv_arbiter {
    float weight[SV_DATA_VLS];  /* of the VL in its table */
    float high_share;           /* of the link, for high-priority VLs while others have work */
    uint16_t high;              /* bit mask of the VLs in the high-priority table */
};

/* Read the tables of the port at `egress`; false: it has one data VL, or no table, and serves in order. */
bool sv_arbiter_of(const struct sv_shared_fabric *b, uint32_t egress, struct sv_arbiter *arbiter);
/* Add `takes` of work on `vl` at `now`; return the time when the link will have sent it (all in ns / 64). */
uint64_t sv_arbitrate(const struct sv_arbiter *arbiter, struct softib_link_clock *clock, unsigned vl, uint64_t now, double takes,
                      double packet);

#endif
