/* Link rates, latencies, and queueing. */
#include "../internal.h"
#include "link_pacing.h"
#include "link_rates.h" /* softib/iba/link_speeds.py */

#include <math.h>
#include <stdlib.h>

#define NS_PER_METRE 5.0 /* ns per metre of cable, copper or fibre */
#define PACKET (4096 + 8 + 12 + 4 + 2) /* bytes of the longest RC packet, with its headers and CRCs */

/* Return the fastest of the port's active speeds; NULL: none. (Mellanox's FDR10 sets two bits: QDR's and its own.) */
static const struct link_speed *speed_of(uint32_t port)
{
    const uint8_t *info = sv_port_info(&sv_shared_fabric, port);
    unsigned ext2 = info[SV_EXT2_AT] >> 5 & 3, ext = info[SV_SPEED_EXT_ACTIVE_AT] >> 4 & 15, old = info[SV_SPEED_ACTIVE_AT] >> 4 & 7;
    unsigned mlnx = sv_shared_fabric.port_mlnx_speed[3 * (size_t)port + 2];

    for (size_t i = sizeof link_speeds / sizeof *link_speeds; i--;) {
        const struct link_speed *s = &link_speeds[i];

        if (s->mlnx_bit & mlnx)
            return s;
        if (mlnx & 1 || s->mlnx_bit)
            continue;
        if (ext2 ? s->ext2_bit & ext2 : ext ? s->ext_bit & ext : s->speed_bit & old)
            return s;
    }
    return NULL;
}

static unsigned width_of(uint32_t port)
{
    uint8_t active = sv_port_info(&sv_shared_fabric, port)[SV_LINK_WIDTH_ACTIVE_AT];

    return active < sizeof lanes_of_width ? lanes_of_width[active] : 0;
}

double sv_link_gbps(uint32_t port, double *lane_gbps)
{
    const struct link_speed *s = speed_of(port);

    *lane_gbps = s ? s->signal_gbps : 0;
    return s ? s->data_gbps * width_of(port) : 0;
}

/* Return the latency of a link's cable and of the switch at its end; the switch's latency depends on the speed of this
 * link. */
static double latency_of(uint32_t port)
{
    int32_t cable = sv_shared_fabric.port_cable[port], peer = sv_shared_fabric.port_peer[port];
    const struct link_speed *s = speed_of(port);
    double metres = cable >= 0 && (uint64_t)cable < sv_shared_fabric.cables ? sv_shared_fabric.cable_length_m[cable] : 0;
    bool to_switch = peer >= 0 && sv_is_switch(&sv_shared_fabric, (uint32_t)sv_shared_fabric.port_node[peer]);

    return (isnan(metres) ? 0 : metres * NS_PER_METRE) + (to_switch && s ? s->switch_ns : 0);
}

/* Return the ns per byte of the link at `egress`, or of its receiver if that drains more slowly (fault slow-port). */
static double byte_ns(uint32_t egress, double gbps)
{
    int32_t peer = sv_shared_fabric.port_peer[egress];
    double drain_ps = peer >= 0 ? sv_shared_fabric.port_drain[peer] : 0, link = gbps > 0 ? 8 / gbps : 0;

    return drain_ps > 0 && !isinf(drain_ps) ? fmax(link, drain_ps / 1000) : link;
}

static void arbitrate(struct sv_step *step, const uint32_t *egress, unsigned hop, unsigned sl)
{
    const struct sv_shared_fabric *b = &sv_shared_fabric;
    int32_t in = hop ? b->port_peer[egress[hop - 1]] : -1;
    unsigned vl = sv_vl_of(b, egress[hop], in < 0 ? 0 : b->port_num[in], sl);

    step->arbitrated = vl < SV_DATA_VLS && sv_arbiter_of(b, egress[hop], &step->arbiter);
    step->vl = (uint8_t)vl;
}

bool sv_timed_path_lay(struct sv_timed_path *path, const uint32_t *egress, unsigned links, unsigned sl)
{
    struct softib_link_clock *clocks = sv_fabric_cells ? sv_cells_link_clocks(sv_fabric_cells) : NULL;
    const struct link_speed *first = links ? speed_of(egress[0]) : NULL, *last = links ? speed_of(egress[links - 1]) : NULL;
    double latency = ((first ? first->adapter_ns : 0) + (last ? last->adapter_ns : 0)) / 2.0; /* half of a pair's
                                                                                               * latency at each end */

    sv_timed_path_free(path);
    if (!clocks || !(path->steps = malloc((links ? links : 1) * sizeof *path->steps)))
        return false;
    for (unsigned i = 0; i < links; i++) {
        double lane_gbps, gbps = sv_link_gbps(egress[i], &lane_gbps);

        path->steps[i] = (struct sv_step){
            .clock = &clocks[egress[i]], .per_byte = byte_ns(egress[i], gbps) * (1 << SV_LINK_CLOCK_SHIFT), .ticks = lane_gbps / 10 / (1 << SV_LINK_CLOCK_SHIFT),
        };
        arbitrate(&path->steps[i], egress, i, sl);
        latency += latency_of(egress[i]);
    }
    path->links = (uint16_t)links;
    path->latency_ns = (uint64_t)latency;
    return true;
}

void sv_timed_path_free(struct sv_timed_path *path)
{
    free(path->steps);
    *path = (struct sv_timed_path){ 0 };
}

/* Add `octets` bytes to the link's queue. Return the time when the link will have sent them. */
static uint64_t give(const struct sv_step *step, uint64_t now, uint64_t octets)
{
    uint64_t takes = (uint64_t)((double)octets * step->per_byte + 0.5);

    if (step->arbitrated)
        return sv_arbitrate(&step->arbiter, step->clock, step->vl, now, (double)octets * step->per_byte, PACKET * step->per_byte);
    uint64_t busy = __atomic_load_n(&step->clock->busy, __ATOMIC_RELAXED), end;

    do
        end = (busy > now ? busy : now) + takes;
    while (!__atomic_compare_exchange_n(&step->clock->busy, &busy, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return end;
}

/*
 * If a port's link is free earlier than a later link of the path, the port has data but no credits: PortXmitWait (IBA
 * 16.1.3.5). Within a busy period this wait only grows, and PortXmitWait is advanced by each increase, so that the wait
 * of several messages is not counted several times.
 */
static void wait(const struct sv_step *step, uint64_t now, uint64_t free_at, uint64_t next_free_at)
{
    struct softib_link_clock *clock = step->clock;
    uint64_t lag = next_free_at > free_at ? next_free_at - free_at : 0;
    uint64_t until = __atomic_load_n(&clock->stalled_until, __ATOMIC_RELAXED);
    uint64_t before = now > until ? 0 : __atomic_load_n(&clock->lag, __ATOMIC_RELAXED);

    if (!lag || (lag <= before && next_free_at <= until))
        return;
    __atomic_store_n(&clock->lag, lag > before ? lag : before, __ATOMIC_RELAXED);
    if (next_free_at > until)
        __atomic_store_n(&clock->stalled_until, next_free_at, __ATOMIC_RELAXED);
    if (lag > before)
        __atomic_fetch_add(&clock->wait, (uint64_t)((double)(lag - before) * step->ticks), __ATOMIC_RELAXED);
}

uint64_t sv_timed_path_pass(const struct sv_timed_path *path, uint64_t now, uint64_t octets)
{
    uint64_t ends[SV_PATH_LINKS], here = now <<= SV_LINK_CLOCK_SHIFT, last;
    unsigned n = path->links < SV_PATH_LINKS ? path->links : SV_PATH_LINKS;

    for (unsigned i = 0; i < n; i++) {
        uint64_t end = give(&path->steps[i], now, octets);

        /* A link cannot send data before it arrives: if a link is faster than the one before it, it is idle in
         * between, which is not counted as wait. */
        here = ends[i] = end > here ? end : here;
    }
    last = here;
    for (unsigned i = n; i-- > 0;)
        wait(&path->steps[i], now, ends[i], last);
    return last >> SV_LINK_CLOCK_SHIFT;
}

/* Return the link's work after `now`, plus the duration of its last wait for credits. */
static uint64_t backlog(const struct sv_step *step, uint64_t now)
{
    const struct softib_link_clock *clock = step->clock;
    uint64_t until = __atomic_load_n(&clock->busy, __ATOMIC_RELAXED), stalled = __atomic_load_n(&clock->stalled_until, __ATOMIC_RELAXED);

    if (step->arbitrated) {
        float work = 0;

        for (unsigned vl = 0; vl < SV_DATA_VLS; vl++)
            work += clock->backlog[vl]; /* another thread may change it; an estimate suffices */
        until = __atomic_load_n(&clock->at, __ATOMIC_RELAXED) + (uint64_t)work;
    }
    if (stalled > until)
        until = stalled;
    return until > now ? until - now : 0;
}

bool sv_timed_path_is_freer(const struct sv_timed_path *path, const struct sv_timed_path *than, uint64_t now)
{
    unsigned n = path->links < than->links ? path->links : than->links;

    for (unsigned i = 0; i < n; i++)
        if (path->steps[i].clock != than->steps[i].clock) /* a switch does not see the links of the next one */
            return backlog(&path->steps[i], now << SV_LINK_CLOCK_SHIFT) < backlog(&than->steps[i], now << SV_LINK_CLOCK_SHIFT);
    return path->links < than->links;
}
