/* Packets from the TAP to the fabric. A packet is read directly into its send buffer; its encapsulation overwrites the
 * end of its Ethernet header. */
#include "ipoib.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct {
    struct ibv_send_wr wr[MOST_SEGMENTS + BATCH];
    struct ibv_sge sge[MOST_SEGMENTS + BATCH][2];
    unsigned count;
} chain;

uint8_t *buffer_at(const struct interface *i, unsigned number)
{
    return i->buffers + (size_t)number * PACKET;
}

static uint8_t *buffer(const struct interface *i, uint32_t number)
{
    return buffer_at(i, i->place[number % BUFFERS]);
}

static uint8_t *header(struct interface *i, unsigned n)
{
    return i->headers + (size_t)((i->posted + chain.count + n) % SENDS) * HEADERS;
}

/* Release buffers of completed sends. */
void reclaim(struct interface *i)
{
    struct ibv_wc wc[16];
    int n;

    do {
        n = ibv_poll_cq(i->send_cq, 16, wc);
        for (int k = 0; k < n; k++) {
            if (connected_sent(i, &wc[k]))
                continue;
            i->freed = (uint32_t)wc[k].wr_id;
            i->done = (uint32_t)(wc[k].wr_id >> 32);
            if (wc[k].status != IBV_WC_SUCCESS && wc[k].status != IBV_WC_WR_FLUSH_ERR) { /* a UD queue pair stops after an error
                                                                                          * (SQE) */
                struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

                ibv_modify_qp(i->qp, &attr, IBV_QP_STATE);
            }
        }
    } while (n == 16);
}

static unsigned room(const struct interface *i)
{
    return SENDS - (i->posted + chain.count - i->done);
}

static void flush(struct interface *i)
{
    struct ibv_send_wr *bad;

    if (!chain.count)
        return;
    i->posted += chain.count;
    chain.wr[chain.count - 1].next = NULL;
    chain.wr[chain.count - 1].send_flags = IBV_SEND_SIGNALED;
    chain.wr[chain.count - 1].wr_id = (uint64_t)i->posted << 32 | i->used;
    chain.count = 0;
    if (ibv_post_send(i->qp, chain.wr, &bad)) { /* the queue pair is in error and has no sends in progress */
        i->done = i->posted;
        i->freed = i->used;
    }
}

static void count(struct interface *i, const struct destination *to, const struct segment *s)
{
    int grh = to->gid[0] != 0;

    totals.sent++;
    totals.sent_octets += wire_octets(s->header_length + s->payload_length, grh);
    if (capturing) {
        struct softib_ipoib_datagram d = { .source_qp = i->qp->qp_num, .destination_qp = to->qpn, .qkey = to->qkey, .source_lid = i->lid,
                                           .destination_lid = to->lid, .pkey = i->pkey, .sl = to->sl, .grh = (uint8_t)grh,
                                           .psn = i->psn };

        memcpy(d.source_gid, i->gid, 16);
        memcpy(d.destination_gid, to->gid, 16);
        client_capture(i, 1, &d, s);
    }
    i->psn = (i->psn + 1) & 0xffffff;
}

static void add(struct interface *i, const struct destination *to, const struct segment *s)
{
    unsigned n = chain.count++;
    struct ibv_send_wr *wr = &chain.wr[n];

    chain.sge[n][0] = (struct ibv_sge){ (uintptr_t)s->header, s->header_length, i->mr->lkey };
    chain.sge[n][1] = (struct ibv_sge){ (uintptr_t)s->payload, s->payload_length, i->mr->lkey };
    *wr = (struct ibv_send_wr){ .next = wr + 1, .sg_list = chain.sge[n], .num_sge = s->payload_length ? 2 : 1, .opcode = IBV_WR_SEND };
    wr->wr.ud.ah = to->ah;
    wr->wr.ud.remote_qpn = to->qpn;
    wr->wr.ud.remote_qkey = to->qkey;
    count(i, to, s);
}

/* Copy a packet, which includes its encapsulation, to a send buffer, and send it. */
void send_copy(struct interface *i, const struct destination *to, const uint8_t *packet, uint32_t length)
{
    struct segment s = { .header_length = length };

    if (!i->running || length > i->mtu + ENCAPSULATION)
        return;
    flush(i);
    reclaim(i);
    if (i->used - i->freed >= BUFFERS || !room(i))
        return;
    s.header = buffer(i, i->used++);
    memcpy(s.header, packet, length);
    add(i, to, &s);
    flush(i);
}

/* Send to a multicast group: broadcasts of ARP and IP, and packets to IP groups. */
static void to_group(struct interface *i, unsigned type, uint8_t *packet, uint32_t length)
{
    uint8_t mgid[16];
    struct group *g;

    if (type == ETHERTYPE_IP4 && packet[ENCAPSULATION + 16] >> 4 == 14) {
        mgid_of_ip4(i, packet + ENCAPSULATION + 16, mgid);
        g = group_of(i, mgid, 0);
    } else if (type == ETHERTYPE_IP6) {
        mgid_of_ip6(i, packet + ENCAPSULATION + 24, mgid);
        g = group_of(i, mgid, 0);
    } else {
        g = i->broadcast;
    }
    if (g)
        group_send(i, g, packet, length);
}

/* Slow path for rare packets, and for packets that carry a hardware address. `packet` has room for an encapsulation in
 * front. */
static void slowly(struct interface *i, const uint8_t *destination, unsigned type, const uint8_t *packet, size_t length)
{
    static uint8_t copy[ENCAPSULATION + PACKET];
    struct neighbour *n;

    put16(copy, type);
    put16(copy + 2, 0);
    if (type == ETHERTYPE_ARP_)
        length = arp_to_fabric(i, packet, length, copy + ENCAPSULATION);
    else if (type == ETHERTYPE_IP6 && is_nd(packet, length))
        length = nd_to_fabric(i, packet, length, copy + ENCAPSULATION);
    else if ((type == ETHERTYPE_IP4 && length >= 20) || (type == ETHERTYPE_IP6 && length >= 40))
        memcpy(copy + ENCAPSULATION, packet, length);
    else
        length = 0;
    if (!length)
        return;
    snoop(i, type, packet, length);
    if (destination[0] & 1)
        to_group(i, type, copy, (uint32_t)length + ENCAPSULATION);
    else if ((n = neighbour_of_mac(i, destination)))
        neighbour_send(i, n, copy, (uint32_t)length + ENCAPSULATION);
}

/* Send one frame from the TAP; it is in the buffer that was allocated last. */
static void frame_out(struct interface *i, uint8_t *frame, size_t length)
{
    static struct segment segments[MOST_SEGMENTS];
    const struct virtio_net_hdr *v = (const struct virtio_net_hdr *)frame;
    uint8_t *ethernet = frame + VNET, *packet = frame + HEAD, destination[6];
    unsigned type = get16(ethernet + 12), n;
    struct neighbour *to;
    int discovery;

    memcpy(destination, ethernet, 6);
    to = destination[0] & 1 || type == ETHERTYPE_ARP_ ? NULL : neighbour_of_mac(i, destination);
    if (v->gso_type == VIRTIO_NET_HDR_GSO_NONE && !checksum_complete(frame, length))
        return;
    discovery = type == ETHERTYPE_IP6 && is_nd(packet, length - HEAD);
    if (i->connected && to && !discovery) {
        if (to->hardware[0] & HAS_RC && connected_frame(i, to, frame, length))
            return;
        if (longest_packet(frame, length) > i->mtu) {
            too_long(i, packet, length - HEAD, i->mtu);
            return;
        }
    }
    if (!to || !to->to.ah || to->query_ms || discovery) {
        slowly(i, destination, type, packet, length - HEAD);
        return;
    }
    if (v->gso_type == VIRTIO_NET_HDR_GSO_NONE) {
        struct segment s = { packet - ENCAPSULATION, NULL, (uint32_t)(length - HEAD) + ENCAPSULATION, 0 };

        put16(s.header, type);
        put16(s.header + 2, 0);
        if (s.header_length <= i->mtu + ENCAPSULATION)
            add(i, &to->to, &s);
        return;
    }
    n = room(i) < MOST_SEGMENTS ? room(i) : MOST_SEGMENTS;
    n = segment_packet(frame, length, n, i->mtu, segments, header, i);
    totals.segmented += n > 0;
    for (unsigned k = 0; k < n; k++)
        add(i, &to->to, &segments[k]);
}

/* Return whether a buffer is free for the next packet of the kernel. */
int can_send(const struct interface *i)
{
    return i->running && i->used - i->freed < BUFFERS && (!i->connected || i->spares);
}

/* Send the packets that the kernel has queued for this interface, at most one batch. Returns their
 * number. */
int transmit(struct interface *i)
{
    int n = 0;

    if (!i->running)
        return 0;
    reclaim(i);
    while (n < BATCH && can_send(i) && room(i) > MOST_SEGMENTS) {
        uint8_t *frame = buffer(i, i->used);
        ssize_t length = read(i->tap, frame, PACKET);

        if (length < 0) {
            i->readable = errno != EAGAIN;
            break;
        }
        n++;
        if (length <= (ssize_t)HEAD)
            continue;
        i->used++;
        frame_out(i, frame, (size_t)length);
        if (chain.count >= BATCH)
            flush(i);
    }
    if (chain.count)
        flush(i);
    else if (i->used != i->freed && i->posted == i->done)
        i->freed = i->used; /* their sends have ended */
    return n;
}
