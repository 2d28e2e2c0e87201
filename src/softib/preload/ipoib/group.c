/*
 * Multicast groups (RFC 4391, sections 4 to 6): the MGID of an IP address, and the groups from which this interface
 * receives or to which it only sends. The groups that the kernel joined on the TAP are read from its IGMP and MLD
 * reports (RFC 3376, 3810).
 */
#include "ipoib.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MS 1000
#define MULTICAST_QP 0xffffff
#define JOIN_MS 5000  /* time after which a missing answer counts as lost */

static const uint8_t all_routers_reports[4] = { 224, 0, 0, 22 };

/* ff12:401b:<P_Key>::<low 28 bits>, with link-local scope like the broadcast group. */
void mgid_of_ip4(const struct interface *i, const uint8_t *address, uint8_t *mgid)
{
    memset(mgid, 0, 16);
    put16(mgid, 0xff12);
    put16(mgid + 2, 0x401b);
    put16(mgid + 4, i->pkey | 0x8000);
    put32(mgid + 12, get32(address) == 0xffffffff ? 0xffffffff : get32(address) & 0x0fffffff);
}

/* ff1<scope>:601b:<P_Key>:<low 80 bits> */
void mgid_of_ip6(const struct interface *i, const uint8_t *address, uint8_t *mgid)
{
    put16(mgid, 0xff10 | (address[1] & 15));
    put16(mgid + 2, 0x601b);
    put16(mgid + 4, i->pkey | 0x8000);
    memcpy(mgid + 6, address + 6, 10);
}

static struct group *find(struct interface *i, const uint8_t *mgid)
{
    struct group *g = i->groups;

    while (g && memcmp(g->to.gid, mgid, 16))
        g = g->next;
    return g;
}

/* Return the group with this MGID, and join it if necessary (`full`: as a receiver). NULL: out of memory, or too many
 * groups. */
struct group *group_of(struct interface *i, const uint8_t *mgid, int full)
{
    struct group *g = find(i, mgid);
    unsigned count = 0;

    if (!g) {
        for (g = i->groups; g; g = g->next)
            count++;
        if (count >= MOST_GROUPS || !(g = calloc(1, sizeof *g)))
            return NULL;
        memcpy(g->to.gid, mgid, 16);
        g->to.qpn = MULTICAST_QP;
        g->waiting.end = &g->waiting.first;
        g->next = i->groups;
        i->groups = g;
    }
    if (full && !g->full) {
        g->full = 1;
        g->state = GROUP_IDLE;
    }
    if (g->state == GROUP_IDLE || (g->state == GROUP_FAILED && now_ms() >= g->retry_ms)) {
        g->state = GROUP_JOINING;
        g->retry_ms = now_ms() + JOIN_MS;
        sa_join(i, g);
    }
    return g;
}

static void failed(struct group *g)
{
    g->state = GROUP_FAILED;
    g->retry_ms = now_ms() + RETRY_MS;
    waiting_drop(&g->waiting);
}

/* Handle the answer to a join: set the membership from its MCMemberRecord (NULL: rejected with `status`). */
void group_answer(struct interface *i, struct group *g, const uint8_t *record, unsigned status)
{
    struct ibv_ah_attr attr = { .port_num = (uint8_t)i->portnum, .is_global = 1 };
    struct ibv_ah *before = g->to.ah;

    (void)status;
    if (!record) {
        failed(g);
        return;
    }
    g->to.qkey = get32(record + 32);
    g->to.lid = get16(record + 36);
    g->mtu = record[38] & 63;
    g->rate = record[42] & 63;
    g->to.sl = record[44] >> 4;
    if (g != i->broadcast && !i->running)
        return;
    if (g == i->broadcast && (i->running ? interface_renew(i) : interface_start(i)) < 0) {
        failed(g);
        return;
    }
    attr.dlid = g->to.lid;
    attr.sl = g->to.sl;
    memcpy(attr.grh.dgid.raw, g->to.gid, 16);
    attr.grh.flow_label = get32(record + 44) >> 8 & 0xfffff;
    attr.grh.hop_limit = record[47];
    g->to.ah = ibv_create_ah(i->pd, &attr);
    if (before)
        ibv_destroy_ah(before);
    if (g->full && !g->attached)
        g->attached = ibv_attach_mcast(i->qp, (union ibv_gid *)g->to.gid, g->to.lid) == 0;
    if (!g->to.ah) {
        failed(g);
        return;
    }
    g->state = GROUP_JOINED;
    for (struct queued *q = g->waiting.first; q; q = q->next)
        send_copy(i, &g->to, q->packet, q->length);
    waiting_drop(&g->waiting);
}

/* Send one packet, including its encapsulation, to the group. */
void group_send(struct interface *i, struct group *g, const uint8_t *packet, uint32_t length)
{
    if (g->state == GROUP_JOINED)
        send_copy(i, &g->to, packet, length);
    else if (g->state == GROUP_JOINING)
        waiting_add(&g->waiting, packet, length);
}

static void forget(struct interface *i, struct group *g)
{
    if (g->attached)
        ibv_detach_mcast(i->qp, (union ibv_gid *)g->to.gid, g->to.lid);
    if (g->state == GROUP_JOINED || g->state == GROUP_JOINING)
        sa_leave(i, g);
    if (g->to.ah)
        ibv_destroy_ah(g->to.ah);
    waiting_drop(&g->waiting);
}

void group_leave(struct interface *i, const uint8_t *mgid)
{
    struct group **at = &i->groups, *g;

    while (*at && memcmp((*at)->to.gid, mgid, 16))
        at = &(*at)->next;
    g = *at;
    if (!g || !g->full || g == i->broadcast)
        return;
    *at = g->next;
    forget(i, g);
    free(g);
}

/* Called when the subnet manager requests it (client reregistration), or a new manager took over. The other groups
 * are joined after the broadcast group, because they are created with its attributes, which may have changed. */
void groups_rejoin(struct interface *i)
{
    for (struct group *g = i->groups; g; g = g->next)
        g->state = GROUP_IDLE;
    group_of(i, i->broadcast->to.gid, 1);
}

/* Called when the broadcast group is joined: join the other groups of which the kernel is a member. */
void groups_start(struct interface *i)
{
    for (struct group *g = i->groups; g; g = g->next)
        if (g->full)
            group_of(i, g->to.gid, 1);
}

/* Called when the port has left the partition and therefore the groups, or has joined another partition. The list of
 * groups stays; their MGIDs get the present P_Key. */
void groups_stop(struct interface *i)
{
    for (struct group *g = i->groups; g; g = g->next) {
        if (g->attached)
            ibv_detach_mcast(i->qp, (union ibv_gid *)g->to.gid, g->to.lid);
        if (g->to.ah)
            ibv_destroy_ah(g->to.ah);
        waiting_drop(&g->waiting);
        g->attached = 0;
        g->to.ah = NULL;
        g->state = GROUP_IDLE;
        put16(g->to.gid + 4, i->pkey | 0x8000);
    }
}

/* Retry failed joins that are still needed. */
void groups_tick(struct interface *i, uint64_t now)
{
    for (struct group *g = i->groups; g; g = g->next)
        if ((g->state == GROUP_JOINING || (g->state == GROUP_FAILED && g->full)) && now >= g->retry_ms) {
            g->state = GROUP_IDLE;
            group_of(i, g->to.gid, g->full);
        }
}

static void member4(struct interface *i, const uint8_t *address, int wanted)
{
    uint8_t mgid[16];

    if (address[0] >> 4 != 14 || !memcmp(address, all_routers_reports, 4))
        return;
    mgid_of_ip4(i, address, mgid);
    if (wanted)
        group_of(i, mgid, 1);
    else
        group_leave(i, mgid);
}

static void member6(struct interface *i, const uint8_t *address, int wanted)
{
    uint8_t mgid[16];

    if (address[0] != 0xff || (address[1] & 15) < 2)
        return;
    mgid_of_ip6(i, address, mgid);
    if (wanted)
        group_of(i, mgid, 1);
    else
        group_leave(i, mgid);
}

/* Read the records of an IGMPv3 or MLDv2 report: EXCLUDE joins the group, INCLUDE joins it if it lists sources and
 * leaves it if it lists none. */
static void records(struct interface *i, const uint8_t *p, size_t left, unsigned count, size_t address,
                    void (*member)(struct interface *, const uint8_t *, int))
{
    while (count-- && left >= 4 + address) {
        unsigned type = p[0], sources = get16(p + 2);
        size_t size = 4 + address + sources * address + 4u * p[1];

        if (type == 2 || type == 4 || type == 5 || (sources && (type == 1 || type == 3)))
            member(i, p + 4, 1);
        else if (type == 3)
            member(i, p + 4, 0);
        if (size > left)
            return;
        p += size;
        left -= size;
    }
}

static void snoop_igmp(struct interface *i, const uint8_t *p, size_t length)
{
    if (length < 8)
        return;
    if (p[0] == 0x12 || p[0] == 0x16)
        member4(i, p + 4, 1);
    else if (p[0] == 0x17)
        member4(i, p + 4, 0);
    else if (p[0] == 0x22)
        records(i, p + 8, length - 8, get16(p + 6), 4, member4);
}

static void snoop_mld(struct interface *i, const uint8_t *p, size_t length)
{
    if (length >= 24 && (p[0] == 131 || p[0] == 132))
        member6(i, p + 8, p[0] == 131);
    else if (length >= 8 && p[0] == 143)
        records(i, p + 8, length - 8, get16(p + 6), 16, member6);
}

/* Read the group memberships that the kernel reports in this packet. */
void snoop(struct interface *i, unsigned type, const uint8_t *p, size_t length)
{
    size_t head;

    if (type == ETHERTYPE_IP4 && length >= 20 && p[9] == 2) {
        head = 4u * (p[0] & 15);
        if (head >= 20 && head <= length)
            snoop_igmp(i, p + head, length - head);
    } else if (type == ETHERTYPE_IP6 && length >= 48 && p[6] == 0 && p[40] == 58) { /* a router alert option precedes MLD */
        head = 40 + 8u * (p[41] + 1u);
        if (head < length)
            snoop_mld(i, p + head, length - head);
    }
}
