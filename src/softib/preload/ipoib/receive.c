/* Packets from the fabric to the TAP. The Ethernet header for the kernel overwrites the GRH and the encapsulation. */
#include "ipoib.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 500
#define SHORTEST (ENCAPSULATION + 20)

static const uint8_t unknown[6] = { 0x02 };

/* Write an IP or ARP packet to the TAP; HEAD bytes in front of it are free. `destination` NULL: derive it from the IP
 * address. */
void to_tap(struct interface *i, const uint8_t *destination, const uint8_t *source, unsigned type, const uint8_t *packet, size_t length)
{
    uint8_t *frame = (uint8_t *)packet - HEAD, *ethernet = frame + VNET;
    ssize_t done;

    memset(frame, 0, VNET);
    ((struct virtio_net_hdr *)frame)->flags = VIRTIO_NET_HDR_F_DATA_VALID; /* the HCA has checked ICRC and VCRC */
    if (destination) {
        memcpy(ethernet, destination, 6);
    } else if (type == ETHERTYPE_IP4 && packet[16] >> 4 == 14) {
        memcpy(ethernet, "\x01\0\x5e", 3);
        memcpy(ethernet + 3, packet + 17, 3);
        ethernet[3] &= 0x7f;
    } else if (type == ETHERTYPE_IP6 && packet[24] == 0xff) {
        memcpy(ethernet, "\x33\x33", 2);
        memcpy(ethernet + 2, packet + 36, 4);
    } else {
        memcpy(ethernet, i->mac, 6);
    }
    memcpy(ethernet + 6, source, 6);
    put16(ethernet + 12, type);
    done = write(i->tap, frame, HEAD + length);
    (void)done; /* if the interface is down, the packet is lost, as on a host */
}

/* Return whether the kernel requests coalescing (ethtool -K ib0 gro on). The setting is read again from time to
 * time. */
static int coalescing_on(struct interface *i)
{
    struct ethtool_value value = { .cmd = ETHTOOL_GGRO };
    uint64_t now = now_ms();

    if (now - i->looked_ms >= LOOK_MS) {
        i->looked_ms = now;
        if (tap_ioctl(i, SIOCETHTOOL, &value) == 0)
            i->coalesce = value.data != 0;
    }
    return i->coalesce;
}

static void capture(struct interface *i, const struct ibv_wc *wc, const uint8_t *grh, const uint8_t *data, size_t length)
{
    struct softib_ipoib_datagram d = { .source_qp = wc->src_qp, .destination_qp = i->qp->qp_num, .qkey = i->broadcast->to.qkey,
                                       .source_lid = wc->slid, .destination_lid = i->lid, .pkey = i->pkey, .sl = wc->sl };
    struct segment s = { (uint8_t *)data, NULL, (uint32_t)length, 0 };

    if (wc->wc_flags & IBV_WC_GRH) {
        d.grh = 1;
        memcpy(d.source_gid, grh + 8, 16);
        memcpy(d.destination_gid, grh + 24, 16);
        if (grh[24] == 0xff)
            d.destination_qp = 0xffffff;
    }
    client_capture(i, 0, &d, &s);
}

/* Pass one packet with its encapsulation to the kernel; the memory in front of it has room for a header. */
static void packet_in(struct interface *i, struct coalescing *c, const struct neighbour *from, int group, uint8_t *data, size_t length,
                      int together)
{
    static uint8_t translated[HEAD + CONNECTED_MTU + 64];
    uint8_t *packet = data + ENCAPSULATION, *out = translated + HEAD;
    const uint8_t *source = from ? from->mac : unknown;
    unsigned type = get16(data);

    length -= ENCAPSULATION;
    if (type == ETHERTYPE_ARP_) {
        if ((length = arp_to_tap(i, packet, length, out)))
            to_tap(i, group ? (const uint8_t *)"\xff\xff\xff\xff\xff\xff" : i->mac, out + 8, type, out, length);
    } else if (type == ETHERTYPE_IP6 && length >= 40 && is_nd(packet, length)) {
        if ((length = nd_to_tap(i, packet, length, out)))
            to_tap(i, NULL, source, type, out, length);
    } else if (type == ETHERTYPE_IP4 || (type == ETHERTYPE_IP6 && length >= 40)) {
        int taken = together ? coalesce_add(c, packet, length) : -1;

        if (taken == 0) {
            coalesce_flush(i, c, source);
            taken = coalesce_add(c, packet, length);
        }
        if (taken < 0) {
            coalesce_flush(i, c, source); /* keep the order of packets */
            to_tap(i, NULL, source, type, packet, length);
        }
    }
}

static void datagram_in(struct interface *i, struct coalescing *c, const struct ibv_wc *wc, uint8_t *slot, int together)
{
    uint8_t *data = slot + GRH_OCTETS;
    size_t length = wc->byte_len - GRH_OCTETS;
    int group = (wc->wc_flags & IBV_WC_GRH) != 0;

    if (wc->byte_len < GRH_OCTETS + SHORTEST || length > MOST_MTU || (wc->slid == i->lid && wc->src_qp == i->qp->qp_num))
        return;
    totals.got++;
    totals.got_octets += wire_octets(length, group);
    if (capturing)
        capture(i, wc, slot, data, length);
    packet_in(i, c, neighbour_of_qpn(i, wc->src_qp), group, data, length, together);
}

/* Handle a message over a connection, or the end of a connection (a flushed receive). */
static void message_in(struct interface *i, struct coalescing *c, const struct ibv_wc *wc)
{
    struct connection *from = connection_of(i, wc->qp_num);
    uint8_t *data = i->connected_receives + (size_t)wc->wr_id * CONNECTED_SLOT + GRH_OCTETS;

    if (from && wc->status == IBV_WC_SUCCESS && wc->byte_len >= SHORTEST) {
        connected_got(from, data, wc->byte_len);
        packet_in(i, c, neighbour_of_qpn(i, from->peer_qpn), 0, data, wc->byte_len, 0);
    }
    connected_repost(i, (unsigned)wc->wr_id);
}

/* Pass the packets that have arrived to the kernel, at most one batch. Return the number of datagrams. */
int receive(struct interface *i)
{
    struct ibv_wc wc[BATCH];
    struct ibv_sge sge[BATCH];
    struct ibv_recv_wr wr[BATCH + 1], *bad;
    struct coalescing c = { .first = NULL };
    const struct neighbour *last = NULL;
    int n = i->running ? ibv_poll_cq(i->recv_cq, BATCH, wc) : 0, together, posted = 0;

    if (n <= 0)
        return 0;
    together = n > 1 && coalescing_on(i);
    for (int k = 0; k < n; k++) {
        uint8_t *slot = i->receives + (size_t)wc[k].wr_id * SLOT;

        if (wc[k].qp_num != i->qp->qp_num) {
            message_in(i, &c, &wc[k]);
            continue;
        }
        if (wc[k].status == IBV_WC_SUCCESS)
            datagram_in(i, &c, &wc[k], slot, together);
        sge[posted] = (struct ibv_sge){ (uintptr_t)slot, GRH_OCTETS + MOST_MTU, i->mr->lkey };
        wr[posted] = (struct ibv_recv_wr){ .wr_id = wc[k].wr_id, .next = &wr[posted + 1], .sg_list = &sge[posted], .num_sge = 1 };
        posted++;
        last = neighbour_of_qpn(i, wc[k].src_qp);
    }
    coalesce_flush(i, &c, last ? last->mac : unknown);
    if (posted) {
        wr[posted - 1].next = NULL;
        ibv_post_recv(i->qp, wr, &bad);
    }
    return n;
}
