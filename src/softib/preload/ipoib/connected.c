/*
 * Connected mode (RFC 4755): for sending, one RC connection to each neighbour whose hardware address has the RC flag;
 * for receiving, the connections that neighbours set up, which share one receive queue. Datagrams are used for
 * multicast, for neighbours without the flag, and for short packets while a connection is being set up.
 */
#include "ipoib.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MS 1000
#define SEND_REQUESTS (2 * MOST_SEGMENTS)
#define PRIVATE_DATA 8
#define SHORTEST_MTU 1280 /* the minimum MTU of IPv6 */

int connected_mode;

static uint8_t *slot_at(const struct interface *i, unsigned slot)
{
    return i->connected_receives + (size_t)slot * CONNECTED_SLOT;
}

static unsigned header_buffer;

/* Return the memory for the headers of segment `n` of the packet in buffer `header_buffer`. */
static uint8_t *room_for_headers(struct interface *i, unsigned n)
{
    return i->connected_headers + ((size_t)header_buffer * MOST_SEGMENTS + n) * HEADERS;
}

void connected_repost(struct interface *i, unsigned slot)
{
    struct ibv_sge sge = { (uintptr_t)slot_at(i, slot) + GRH_OCTETS, ENCAPSULATION + CONNECTED_MTU, i->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

    ibv_post_srq_recv(i->srq, &wr, &bad);
}

/* Accept connections; called when the broadcast group is joined. 0, or -1 with errno. */
int connected_start(struct interface *i)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = CONNECTED_RECEIVES, .max_sge = 1 } };

    if (!i->srq) {
        i->srq = ibv_create_srq(i->pd, &init);
        if (!i->srq)
            return -1;
        for (unsigned k = 0; k < CONNECTED_RECEIVES; k++)
            connected_repost(i, k);
    }
    return cm_listen_for(i);
}

/* End all connections, and accept no more. */
void connected_stop(struct interface *i)
{
    if (i->listener)
        cm_destroy(i->listener - 1);
    i->listener = 0;
    neighbours_disconnect(i);
    for (unsigned k = 0; k < CONNECTIONS; k++)
        while (i->connections[k])
            connection_end(i->connections[k], 0);
}

struct connection *connection_of(struct interface *i, uint32_t qpn)
{
    struct connection *c = i->connections[qpn % CONNECTIONS];

    while (c && c->qp->qp_num != qpn)
        c = c->next;
    return c;
}

static int make_queue_pair(struct connection *c)
{
    struct interface *i = c->interface;
    struct ibv_qp_init_attr init = {
        .send_cq = i->send_cq, .recv_cq = i->recv_cq, .srq = i->srq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = c->to ? SEND_REQUESTS : 1, .max_send_sge = 2 },
    };
    struct connection **chain;

    c->qp = ibv_create_qp(i->pd, &init);
    if (!c->qp)
        return -1;
    chain = &i->connections[c->qp->qp_num % CONNECTIONS];
    c->next = *chain;
    *chain = c;
    return 0;
}

static void drop_queue_pair(struct connection *c)
{
    struct interface *i = c->interface;
    struct connection **at;

    if (!c->qp)
        return;
    at = &i->connections[c->qp->qp_num % CONNECTIONS];
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    ibv_destroy_qp(c->qp);
    c->qp = NULL;
    for (unsigned b = 0; b < BUFFERS + CONNECTED_SENDS; b++)
        if (i->owner[b] == c) {
            i->owner[b] = NULL;
            i->spare[i->spares++] = (uint8_t)b;
        }
}

/* Handle a connection that has ended, or could not be established. The first packet after `retry_ms` sets up another
 * connection. */
void connection_end(struct connection *c, uint64_t retry_ms)
{
    if (c->state == CONNECTION_IDLE)
        return;
    drop_queue_pair(c);
    cm_destroy(c->id);
    if (!c->to) {
        free(c);
        return;
    }
    c->state = CONNECTION_IDLE;
    c->retry_ms = retry_ms;
    c->queued = 0;
    waiting_drop(&c->waiting);
}

static void fails(struct connection *c)
{
    connection_end(c, now_ms() + RETRY_MS);
}

static struct connection *to_neighbour(struct interface *i, struct neighbour *n)
{
    struct connection *c = n->connection;

    if (!c) {
        c = n->connection = calloc(1, sizeof *c);
        if (!c)
            return NULL;
        c->interface = i;
        c->to = n;
        c->waiting.end = &c->waiting.first;
    }
    if (c->state == CONNECTION_IDLE && now_ms() >= c->retry_ms) {
        if (cm_resolve(c) < 0)
            c->retry_ms = now_ms() + RETRY_MS;
        else
            c->state = CONNECTION_SETUP;
    }
    return c;
}

static void capture(const struct connection *c, int outbound, uint32_t psn, const struct segment *s)
{
    const struct interface *i = c->interface;
    struct softib_ipoib_datagram d = { .psn = psn, .pkey = i->pkey, .sl = c->sl, .path_mtu = c->path_mtu };

    d.source_lid = outbound ? i->lid : c->peer_lid;
    d.destination_lid = outbound ? c->peer_lid : i->lid;
    d.destination_qp = outbound ? c->peer_rc_qpn : c->qp->qp_num;
    client_capture(i, outbound, &d, s);
}

static uint32_t after(const struct connection *c, size_t length)
{
    return (c->psn + (uint32_t)((length + c->path_mtu - 1) / c->path_mtu)) & 0xffffff;
}

/* Account for one received message. */
void connected_got(struct connection *c, uint8_t *data, size_t length)
{
    struct segment s = { data, NULL, (uint32_t)length, 0 };

    totals.got++;
    totals.messages_got++;
    totals.got_octets += message_octets(length, c->path_mtu);
    if (capturing)
        capture(c, 0, c->psn, &s);
    c->psn = after(c, length);
}

/* Send the segments of the packet in `buffer`. The connection owns the buffer until all sends have completed.
 * False: the connection has ended. */
static int post(struct connection *c, unsigned buffer, const struct segment *s, unsigned count)
{
    static struct ibv_send_wr wr[MOST_SEGMENTS];
    static struct ibv_sge sge[MOST_SEGMENTS][2];
    struct interface *i = c->interface;
    struct ibv_send_wr *bad;

    if (!count || c->queued + count > SEND_REQUESTS) {
        i->spare[i->spares++] = (uint8_t)buffer;
        return 1;
    }
    for (unsigned k = 0; k < count; k++) {
        size_t length = s[k].header_length + s[k].payload_length;

        sge[k][0] = (struct ibv_sge){ (uintptr_t)s[k].header, s[k].header_length, i->mr->lkey };
        sge[k][1] = (struct ibv_sge){ (uintptr_t)s[k].payload, s[k].payload_length, i->mr->lkey };
        wr[k] = (struct ibv_send_wr){ .wr_id = (uint64_t)count << 8 | buffer, .next = k + 1 < count ? &wr[k + 1] : NULL, .sg_list = sge[k],
                                      .num_sge = s[k].payload_length ? 2 : 1, .opcode = IBV_WR_SEND,
                                      .send_flags = k + 1 < count ? 0 : IBV_SEND_SIGNALED };
        totals.sent++;
        totals.messages_sent++;
        totals.sent_octets += message_octets(length, c->path_mtu);
        if (capturing)
            capture(c, 1, c->psn, &s[k]);
        c->psn = after(c, length);
    }
    i->owner[buffer] = c;
    c->queued += count;
    if (!ibv_post_send(c->qp, wr, &bad))
        return 1;
    fails(c);
    return 0;
}

/* Handle a completion of the send queue. False: the completion belongs to the UD queue pair. */
int connected_sent(struct interface *i, const struct ibv_wc *wc)
{
    unsigned buffer = wc->wr_id & 0xff;
    struct connection *c;

    if (wc->qp_num == i->qp->qp_num)
        return 0;
    c = connection_of(i, wc->qp_num);
    if (!c)
        return 1; /* the connection has ended meanwhile */
    if (wc->status != IBV_WC_SUCCESS) {
        fails(c);
        return 1;
    }
    c->queued -= (unsigned)(wc->wr_id >> 8);
    i->owner[buffer] = NULL;
    i->spare[i->spares++] = (uint8_t)buffer;
    return 1;
}

/* Send a frame from the TAP that is in the buffer allocated last. False: the caller must send it as datagrams. */
int connected_frame(struct interface *i, struct neighbour *n, uint8_t *frame, size_t length)
{
    static struct segment segments[MOST_SEGMENTS];
    struct connection *c = to_neighbour(i, n);
    const struct virtio_net_hdr *v = (const struct virtio_net_hdr *)frame;
    uint8_t *packet = frame + HEAD;
    size_t longest = longest_packet(frame, length);
    unsigned type = get16(packet - 2), count = 1, at = (i->used - 1) % BUFFERS, buffer = i->place[at];
    int whole = v->gso_type == VIRTIO_NET_HDR_GSO_NONE;

    if (!c || (c->state != CONNECTION_UP && longest <= i->mtu))
        return 0;
    if (c->state == CONNECTION_IDLE)
        return 1; /* this packet is lost, like a datagram to a neighbour without a path; later ones are not */
    if (c->state == CONNECTION_UP && longest > c->mtu) {
        too_long(i, packet, length - HEAD, c->mtu);
        return 1;
    }
    if (whole) {
        put16(packet - ENCAPSULATION, type);
        put16(packet - ENCAPSULATION + 2, 0);
        segments[0] = (struct segment){ packet - ENCAPSULATION, NULL, (uint32_t)(length - HEAD) + ENCAPSULATION, 0 };
    }
    if (c->state == CONNECTION_SETUP) {
        if (whole)
            waiting_add(&c->waiting, segments[0].header, segments[0].header_length);
        return 1;
    }
    if (!whole) {
        header_buffer = buffer;
        count = segment_packet(frame, length, MOST_SEGMENTS, c->mtu, segments, room_for_headers, i);
        totals.segmented += count > 0;
    }
    i->place[at] = i->spare[--i->spares];
    i->used--;
    post(c, buffer, segments, count);
    return 1;
}

static void send_waiting(struct connection *c)
{
    struct interface *i = c->interface;
    struct queued *q = c->waiting.first, *next;
    int up = 1;

    c->waiting.first = NULL; /* otherwise the end of the connection would free them */
    waiting_drop(&c->waiting);
    for (; q; q = next) {
        next = q->next;
        if (up && i->spares) {
            unsigned buffer = i->spare[--i->spares];
            struct segment s = { buffer_at(i, buffer), NULL, q->length, 0 };

            memcpy(s.header, q->packet, q->length);
            up = post(c, buffer, &s, 1);
        }
        free(q);
    }
}

/* Bring the queue pair to RTS, and store the path's MTU and initial PSN. */
static int ready(struct connection *c)
{
    struct ibv_qp_attr attr = { 0 };

    if (cm_modify(c->id, c->qp, IBV_QPS_RTR, &attr) < 0)
        return -1;
    c->peer_lid = attr.ah_attr.dlid;
    c->sl = attr.ah_attr.sl;
    c->peer_rc_qpn = attr.dest_qp_num;
    c->path_mtu = 128u << attr.path_mtu;
    c->psn = attr.rq_psn;
    memset(&attr, 0, sizeof attr);
    if (cm_modify(c->id, c->qp, IBV_QPS_RTS, &attr) < 0)
        return -1;
    if (c->to)
        c->psn = attr.sq_psn;
    return 0;
}

/* Handle a neighbour's connection request; `data` is its private data. */
void connection_request(struct interface *i, uint32_t id, const uint8_t *data, unsigned length)
{
    struct connection *c = length < PRIVATE_DATA || !i->running ? NULL : calloc(1, sizeof *c);
    struct ibv_qp_attr attr = { 0 };

    if (!c) {
        cm_destroy(id); /* this rejects the request */
        return;
    }
    c->interface = i;
    c->id = id;
    c->peer_qpn = get32(data) & 0xffffff;
    c->state = CONNECTION_UP;
    if (make_queue_pair(c) < 0 || cm_modify(id, c->qp, IBV_QPS_INIT, &attr) < 0 || ready(c) < 0 || cm_accept(c, 1) < 0)
        connection_end(c, 0);
}

/* Handle a neighbour's reply to a connection request; `data` is its private data. */
static int answered(struct connection *c, const uint8_t *data, unsigned length)
{
    if (length < PRIVATE_DATA || get32(data + 4) < ENCAPSULATION + SHORTEST_MTU)
        return -1;
    c->mtu = get32(data + 4) - ENCAPSULATION;
    if (c->mtu > CONNECTED_MTU)
        c->mtu = CONNECTED_MTU;
    if (ready(c) < 0 || cm_accept(c, 0) < 0)
        return -1;
    c->state = CONNECTION_UP;
    send_waiting(c);
    return 0;
}

void connection_event(struct connection *c, unsigned event, const uint8_t *data, unsigned length)
{
    struct ibv_qp_attr attr = { 0 };

    switch (event) {
    case CM_ROUTE_RESOLVED:
        if (make_queue_pair(c) < 0 || cm_modify(c->id, c->qp, IBV_QPS_INIT, &attr) < 0 || cm_connect(c) < 0)
            fails(c);
        break;
    case CM_CONNECT_RESPONSE:
        if (answered(c, data, length) < 0)
            fails(c);
        break;
    case CM_ESTABLISHED:
    case CM_DEVICE_REMOVAL: /* interface_events reports that the fabric is down */
    case CM_TIMEWAIT_EXIT:
        break;
    default:
        fails(c);
    }
}
