/*
 * The other interfaces of the partition. They are looked up by their six-byte addresses on this node's TAP, or by the
 * source queue pairs of their datagrams. The six-byte address is 02 and the low five bytes of the port's GUID, as on
 * the neighbour's TAP; if two GUIDs have the same low bytes, the address of the second begins with 06, and so on. The
 * subnet administrator is asked for the path when the first packet is sent to the neighbour.
 */
#include "ipoib.h"

#include <stdlib.h>
#include <string.h>

#define TABLE 4096 /* chains of each table */
#define LOCAL 0x02
#define NEXT_LOCAL 4
#define REPEAT_MS 1000
#define ATTEMPTS 3 /* attempts at a path query; the device also repeats each query */

static unsigned chain_of_mac(const uint8_t *mac)
{
    return ((unsigned)get32(mac + 2) * 2654435761u) >> 20;
}

static unsigned chain_of_qpn(uint32_t qpn)
{
    return qpn % TABLE;
}

static int tables(struct interface *i)
{
    if (!i->by_mac)
        i->by_mac = calloc(TABLE, sizeof *i->by_mac);
    if (!i->by_qpn)
        i->by_qpn = calloc(TABLE, sizeof *i->by_qpn);
    return i->by_mac && i->by_qpn;
}

struct neighbour *neighbour_of_mac(struct interface *i, const uint8_t *mac)
{
    struct neighbour *n = tables(i) ? i->by_mac[chain_of_mac(mac)] : NULL;

    while (n && memcmp(n->mac, mac, 6))
        n = n->by_mac;
    return n;
}

struct neighbour *neighbour_of_qpn(struct interface *i, uint32_t qpn)
{
    struct neighbour *n = tables(i) ? i->by_qpn[chain_of_qpn(qpn)] : NULL;

    while (n && n->to.qpn != qpn)
        n = n->by_qpn;
    return n;
}

static void set_qpn(struct interface *i, struct neighbour *n, uint32_t qpn)
{
    struct neighbour **at = &i->by_qpn[chain_of_qpn(n->to.qpn)];

    while (*at && *at != n)
        at = &(*at)->by_qpn;
    if (*at)
        *at = n->by_qpn;
    n->to.qpn = qpn;
    at = &i->by_qpn[chain_of_qpn(qpn)];
    n->by_qpn = *at;
    *at = n;
}

/* Return the neighbour with this 20-byte address; add it if it is new. A neighbour that restarted
 * has a new queue pair. NULL: out of memory. */
struct neighbour *neighbour_learn(struct interface *i, const uint8_t *hardware)
{
    const uint8_t *guid = hardware + 12;
    uint32_t qpn = get32(hardware) & 0xffffff;
    uint8_t mac[6] = { LOCAL };
    struct neighbour *n;

    memcpy(mac + 1, guid + 3, 5);
    while ((n = neighbour_of_mac(i, mac)) && memcmp(n->hardware + 4, hardware + 4, 16))
        mac[0] = (uint8_t)(mac[0] + NEXT_LOCAL);
    if (!n) {
        if (i->neighbours >= MOST_NEIGHBOURS || !tables(i) || !(n = calloc(1, sizeof *n)))
            return NULL;
        i->neighbours++;
        memcpy(n->mac, mac, 6);
        n->by_mac = i->by_mac[chain_of_mac(mac)];
        i->by_mac[chain_of_mac(mac)] = n;
        n->waiting.end = &n->waiting.first;
        set_qpn(i, n, qpn);
    } else if (n->to.qpn != qpn) {
        set_qpn(i, n, qpn);
        if (n->connection)
            connection_end(n->connection, 0);
    }
    memcpy(n->hardware, hardware, HARDWARE_ADDRESS);
    return n;
}

void waiting_add(struct waiting *w, const uint8_t *packet, uint32_t length)
{
    struct queued *q;

    if (w->count >= QUEUED || !(q = malloc(sizeof *q + length)))
        return;
    q->next = NULL;
    q->length = length;
    memcpy(q->packet, packet, length);
    *w->end = q;
    w->end = &q->next;
    w->count++;
}

void waiting_drop(struct waiting *w)
{
    for (struct queued *q = w->first, *next; q; q = next) {
        next = q->next;
        free(q);
    }
    w->first = NULL;
    w->end = &w->first;
    w->count = 0;
}

/* Query the path, unless a query was sent a moment ago. */
static void ask(struct interface *i, struct neighbour *n)
{
    uint64_t now = now_ms();

    if (n->query_ms && now - n->query_ms < REPEAT_MS)
        return;
    n->query_ms = now;
    sa_path(i, n);
}

/* Send one packet, including its encapsulation, to the neighbour. */
void neighbour_send(struct interface *i, struct neighbour *n, const uint8_t *packet, uint32_t length)
{
    if (n->query_ms || !n->to.ah)
        ask(i, n);
    if (n->to.ah)
        send_copy(i, &n->to, packet, length);
    else
        waiting_add(&n->waiting, packet, length);
}

/* Handle the answer to the path query for a GID (`record`; NULL: no path, or no answer). */
void neighbour_path(struct interface *i, uint64_t guid, const uint8_t *record)
{
    struct ibv_ah_attr attr = { .port_num = (uint8_t)i->portnum };
    struct ibv_ah *before;

    for (unsigned c = 0; i->by_mac && c < TABLE; c++)
        for (struct neighbour *n = i->by_mac[c]; n; n = n->by_mac) {
            uint64_t theirs = (uint64_t)get32(n->hardware + 12) << 32 | get32(n->hardware + 16);

            if (theirs != guid)
                continue;
            if (!record && n->waiting.count && ++n->failures < ATTEMPTS) {
                n->query_ms = now_ms();
                sa_path(i, n);
                return;
            }
            n->failures = 0;
            if (!record) {
                waiting_drop(&n->waiting);
                return; /* the path is queried again with the next packet, after a delay */
            }
            n->query_ms = 0;
            n->to.qkey = i->broadcast->to.qkey;
            attr.dlid = n->to.lid = get16(record + 40);
            attr.sl = n->to.sl = record[53] & 15;
            before = n->to.ah;
            n->to.ah = ibv_create_ah(i->pd, &attr);
            if (before)
                ibv_destroy_ah(before);
            for (struct queued *q = n->to.ah ? n->waiting.first : NULL; q; q = q->next)
                send_copy(i, &n->to, q->packet, q->length);
            waiting_drop(&n->waiting);
            return;
        }
}

/* End the connections to all neighbours. */
void neighbours_disconnect(struct interface *i)
{
    for (unsigned c = 0; i->by_mac && c < TABLE; c++)
        for (struct neighbour *n = i->by_mac[c]; n; n = n->by_mac)
            if (n->connection)
                connection_end(n->connection, 0);
}

/* Query all paths again; known ones are used until the answer arrives. */
void neighbours_forget_paths(struct interface *i)
{
    for (unsigned c = 0; i->by_mac && c < TABLE; c++)
        for (struct neighbour *n = i->by_mac[c]; n; n = n->by_mac)
            n->query_ms = 1;
}
