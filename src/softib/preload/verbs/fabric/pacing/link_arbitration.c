/* The backlogs of VLs in shared memory, and the time that a message waits behind them. */
#include "link_arbitration.h"

#include "../attributes.h"
#include "../path.h"

#include <sched.h>
#include <string.h>

#define ENTRIES 32            /* entries in each of the four blocks of the tables */
#define UNLIMITED 255         /* LimitHighPri; otherwise in units of 4 KiB (7.6.9.2.2) */
#define STALE (100000000ull << 6) /* 100 ms: after this time the holder of a lock counts as dead */

/* Read the weights of one table from its two blocks. An entry is a VL and a weight in units of 64 bytes. */
static uint16_t read_table(const uint8_t *blocks, float *weight)
{
    uint16_t vls = 0;

    for (unsigned e = 0; e < 2 * ENTRIES; e++) {
        unsigned vl = blocks[2 * e] & 15, w = blocks[2 * e + 1];

        if (w && vl < SV_DATA_VLS) {
            weight[vl] += (float)w;
            vls |= (uint16_t)(1u << vl);
        }
    }
    return vls;
}

bool sv_arbiter_of(const struct sv_shared_fabric *b, uint32_t egress, struct sv_arbiter *a)
{
    const uint8_t *info = sv_port_info(b, egress), *tables = b->vl_arb + 256 * (size_t)egress;
    unsigned limit = info[SV_VL_HIGH_LIMIT_AT];
    float low[SV_DATA_VLS] = { 0 };
    uint16_t lows;

    memset(a, 0, sizeof *a);
    lows = read_table(tables, low);
    a->high = read_table(tables + 128, a->weight);
    if (sv_data_vls(info) < 2 || !(lows | a->high))
        return false;
    for (unsigned vl = 0; vl < SV_DATA_VLS; vl++)
        if (!(a->high >> vl & 1))
            a->weight[vl] = lows >> vl & 1 ? low[vl] : 1; /* a VL in no table gets the smallest weight */
    a->high_share = limit == UNLIMITED ? 1 : limit ? (float)limit / (float)(limit + 1) : 0.5f; /* then one packet of the other
                                                                                                * VLs */
    return true;
}

/* Compute the share of the link for each VL that has work. */
static void shares(const struct sv_arbiter *a, const float *backlog, double *share)
{
    double sum[2] = { 0, 0 };

    for (unsigned vl = 0; vl < SV_DATA_VLS; vl++)
        if (backlog[vl] > 0)
            sum[a->high >> vl & 1] += a->weight[vl];
    for (unsigned vl = 0; vl < SV_DATA_VLS; vl++) {
        unsigned high = a->high >> vl & 1;
        double class = !sum[!high] ? 1 : high ? a->high_share : 1 - a->high_share;

        share[vl] = backlog[vl] > 0 ? class * a->weight[vl] / sum[high] : 0;
    }
}

/* Serve until `vl` has no work (SV_DATA_VLS: until no VL has work), for at most `limit`; return the time that this
 * took. */
static double serve(const struct sv_arbiter *a, float *backlog, unsigned vl, double limit)
{
    double share[SV_DATA_VLS], took = 0;

    while (took < limit && (vl == SV_DATA_VLS || backlog[vl] > 0)) {
        double step = limit - took;
        unsigned first = SV_DATA_VLS;

        shares(a, backlog, share);
        for (unsigned v = 0; v < SV_DATA_VLS; v++)
            if (share[v] > 0 && backlog[v] / share[v] <= step) {
                step = backlog[v] / share[v];
                first = v;
            }
        for (unsigned v = 0; v < SV_DATA_VLS; v++)
            if (share[v] > 0)
                backlog[v] = (float)(backlog[v] - share[v] * step > 0 ? backlog[v] - share[v] * step : 0);
        if (first < SV_DATA_VLS)
            backlog[first] = 0;
        else
            return limit;
        took += step;
    }
    return took;
}

/* Take the lock, whose word is the time when it was taken. A process may die while it has the lock; then another
 * process takes the lock over, and keeps the backlog that the dead process left. */
static void lock(struct softib_link_clock *clock, uint64_t now)
{
    uint64_t holder = 0;

    now |= 1;
    while (!__atomic_compare_exchange_n(&clock->lock, &holder, now, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (holder && now > holder && now - holder > STALE)
            continue; /* a dead holder: the next exchange takes the lock from it */
        holder = 0;
        sched_yield();
        now += 1 << 12; /* about the duration of a call, so that `now` advances and the lock of a dead process is
                         * noticed */
    }
}

uint64_t sv_arbitrate(const struct sv_arbiter *a, struct softib_link_clock *clock, unsigned vl, uint64_t now, double takes,
                      double packet)
{
    float rest[SV_DATA_VLS + 1];
    uint64_t end;
    bool shared = false;

    lock(clock, now);
    if (clock->at < now) {
        serve(a, clock->backlog, SV_DATA_VLS, (double)(now - clock->at));
        clock->at = now;
    }
    for (unsigned v = 0; v < SV_DATA_VLS; v++)
        shared |= v != vl && clock->backlog[v] > 0;
    clock->backlog[vl] += (float)takes;
    memcpy(rest, clock->backlog, sizeof rest);
    end = clock->at + (uint64_t)(serve(a, rest, vl, 1e300) + (shared ? packet : 0) + 0.5);
    __atomic_store_n(&clock->lock, 0, __ATOMIC_RELEASE);
    return end;
}
