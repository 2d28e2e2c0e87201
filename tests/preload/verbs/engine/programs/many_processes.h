/* What the processes of the crowd know of each other. */
#ifndef CROWD_H
#define CROWD_H

#include "rig.h"

#define SLOTS 4
#define KINDS 2        /* of connections between two: RC, UC */
#define HISTORY 256    /* published regions of a slot, the last ones */
#define NO_KEY 0xFFFFF000u /* no region ever has such a key */

struct published {
    uint32_t key, access;
    uint64_t address, length;
};

struct slot { /* one process, and those that come after it */
    uint32_t qpn[SLOTS][KINDS];
    uint32_t heart, stop, posted, good, bad;
    uint32_t published_n;
    struct published published[HISTORY];
};

extern struct slot *slots;

/* Runs as process `number` in slot `me` until it is told to stop. */
void member(const char *folder, uint32_t me, uint32_t number, uint64_t seed);

#endif
