/*
 * The offloads of an HCA: checksums, TCP segmentation on send (the kernel passes up to 64 KiB as one packet, which is
 * sent as N datagrams), and coalescing on receive.
 */
#include "ipoib.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TCP 6
#define IP4_HEADER 20
#define IP6_HEADER 40
#define TCP_HEADER 20
#define LONGEST 65535
enum { FIN = 0x01, PSH = 0x08, ACK = 0x10, CWR = 0x80 };

/* Return the offset of TCP in an IP packet without options or extensions; 0 for any other packet.
 * `total` is set to the length in the IP header. */
static unsigned tcp_at(const uint8_t *p, size_t length, size_t *total)
{
    unsigned at = 0;

    if (length >= IP4_HEADER + TCP_HEADER && p[0] == 0x45 && p[9] == TCP && !(get16(p + 6) & 0x3fff)) {
        *total = get16(p + 2);
        at = IP4_HEADER;
    } else if (length >= IP6_HEADER + TCP_HEADER && p[0] >> 4 == 6 && p[6] == TCP) {
        *total = IP6_HEADER + get16(p + 4);
        at = IP6_HEADER;
    }
    return at && *total <= length && *total >= at + TCP_HEADER && at + 4u * (p[at + 12] >> 4) <= *total && p[at + 12] >> 4 >= 5 ? at : 0;
}

/* Return the checksum of the pseudo header of a packet with `length` bytes of TCP. */
static uint32_t pseudo(const uint8_t *p, unsigned at, size_t length)
{
    uint8_t rest[8] = { 0 };

    put32(rest, (uint32_t)length);
    rest[7] = TCP;
    return at == IP4_HEADER ? sum16(p + 12, 8, sum16(rest, 8, 0)) : sum16(p + 8, 32, sum16(rest, 8, 0));
}

/* Set the length in an IP header, and update IPv4's checksum. */
static void set_length(uint8_t *p, unsigned at, size_t length)
{
    uint16_t sum;

    if (at != IP4_HEADER) {
        put16(p + 4, (unsigned)(length - IP6_HEADER));
        return;
    }
    put16(p + 2, (unsigned)length);
    put16(p + 10, 0);
    sum = fold(sum16(p, IP4_HEADER, 0));
    memcpy(p + 10, &sum, 2);
}

/* Compute the checksum that the kernel left to the device. `frame` begins with the TAP's header. 0: the frame is
 * invalid. */
int checksum_complete(uint8_t *frame, size_t length)
{
    const struct virtio_net_hdr *v = (const struct virtio_net_hdr *)frame;
    size_t start = VNET + v->csum_start, field = start + v->csum_offset;
    uint16_t sum;

    if (!(v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM))
        return 1;
    if (field + 2 > length || start > length)
        return 0;
    sum = fold(sum16(frame + start, length - start, 0));
    sum = sum ? sum : 0xffff;
    memcpy(frame + field, &sum, 2);
    return 1;
}

/* Return the length of the longest IP packet into which a frame of the TAP is split. */
size_t longest_packet(const uint8_t *frame, size_t length)
{
    const struct virtio_net_hdr *v = (const struct virtio_net_hdr *)frame;
    const uint8_t *p = frame + HEAD;
    size_t total;
    unsigned at = v->gso_type == VIRTIO_NET_HDR_GSO_NONE ? 0 : tcp_at(p, length - HEAD, &total);

    return at ? at + 4u * (p[at + 12] >> 4) + v->gso_size : length - HEAD;
}

/*
 * Split a frame of the TAP into at most `room` segments, in IP packets of at most `mtu`; 0: the packet is not TCP, or
 * cannot be split. Each segment gets a header in `header`; the payloads are not moved.
 */
unsigned segment_packet(uint8_t *frame, size_t length, unsigned room, uint32_t mtu, struct segment *out,
                        uint8_t *(*header)(struct interface *, unsigned), struct interface *i)
{
    const struct virtio_net_hdr *v = (const struct virtio_net_hdr *)frame;
    const uint8_t *p = frame + HEAD;
    size_t total, mss = v->gso_size, payload;
    unsigned at = tcp_at(p, length - HEAD, &total), head, n = 0;

    if (!at || !mss)
        return 0;
    head = at + 4u * (p[at + 12] >> 4);
    if (head + mss > mtu || ENCAPSULATION + head > HEADERS)
        return 0;
    payload = total - head;
    for (size_t offset = 0; offset < payload; offset += mss, n++) {
        size_t size = payload - offset < mss ? payload - offset : mss;
        uint8_t *h, *ip;
        uint16_t sum;

        if (n >= room)
            return 0;
        h = header(i, n);
        ip = h + ENCAPSULATION;
        put16(h, at == IP4_HEADER ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
        put16(h + 2, 0);
        memcpy(ip, p, head);
        if (at == IP4_HEADER)
            put16(ip + 4, get16(p + 4) + n);
        set_length(ip, at, head + size);
        put32(ip + at + 4, get32(p + at + 4) + (uint32_t)offset);
        if (offset + size < payload)
            ip[at + 13] &= (uint8_t)~(FIN | PSH);
        if (n)
            ip[at + 13] &= (uint8_t)~CWR;
        put16(ip + at + 16, 0);
        sum = fold(sum16(p + head + offset, size, sum16(ip + at, head - at, pseudo(ip, at, head - at + size))));
        memcpy(ip + at + 16, &sum, 2);
        out[n] = (struct segment){ h, p + head + offset, ENCAPSULATION + head, (uint32_t)size };
    }
    return n;
}

/* Return whether the packet continues the collected packets: its headers equal those of the first packet except for
 * sequence numbers, checksum and PSH. */
static int continues(const struct coalescing *c, const uint8_t *p, unsigned at, size_t payload)
{
    const uint8_t *f = c->first;
    unsigned head = c->head;

    if (c->closed || c->count >= BATCH || c->length + payload > LONGEST || payload > c->mss || get32(p + at + 4) != c->next_sequence)
        return 0;
    if (at == IP4_HEADER ? f[0] != 0x45 || f[1] != p[1] || f[8] != p[8] || memcmp(f + 12, p + 12, 8)
                         : f[0] >> 4 != 6 || memcmp(f, p, 4) || f[7] != p[7] || memcmp(f + 8, p + 8, 32))
        return 0;
    return !memcmp(f + at, p + at, 4) && !memcmp(f + at + 8, p + at + 8, 5) && !memcmp(f + at + 14, p + at + 14, 2) &&
           !memcmp(f + at + TCP_HEADER, p + at + TCP_HEADER, head - at - TCP_HEADER);
}

/* Return 1 if the packet was added, 0 if the collected packets must be flushed first, -1 if it is not TCP or cannot
 * be coalesced. */
int coalesce_add(struct coalescing *c, uint8_t *p, size_t length)
{
    size_t total, payload;
    unsigned at = tcp_at(p, length, &total), head;

    if (!at || (p[at + 13] & ~PSH) != ACK)
        return -1;
    head = at + 4u * (p[at + 12] >> 4);
    payload = total - head;
    if (!payload)
        return -1;
    if (!c->first) {
        *c = (struct coalescing){ .first = p, .head = head, .mss = (unsigned)payload, .next_sequence = get32(p + at + 4), .length = head };
    } else if (c->head != head || (p[0] >> 4 != c->first[0] >> 4) || !continues(c, p, at, payload)) {
        return 0;
    }
    c->part[c->count].payload = p + head;
    c->part[c->count++].length = payload;
    c->next_sequence += (uint32_t)payload;
    c->length += (uint32_t)payload;
    c->first[at + 13] |= p[at + 13] & PSH;
    c->closed = payload < c->mss || p[at + 13] & PSH;
    return 1;
}

/* Pass the collected segments to the kernel as one packet. */
void coalesce_flush(struct interface *i, struct coalescing *c, const uint8_t *source)
{
    uint8_t *p = c->first, *frame = p ? p - HEAD : NULL;
    struct virtio_net_hdr *v = (struct virtio_net_hdr *)frame;
    struct iovec iov[BATCH + 1];
    unsigned at;
    uint16_t sum;
    ssize_t done;

    if (!p)
        return;
    c->first = NULL;
    if (c->count == 1) {
        to_tap(i, NULL, source, p[0] >> 4 == 4 ? ETHERTYPE_IP4 : ETHERTYPE_IP6, p, c->length);
        return;
    }
    at = p[0] >> 4 == 4 ? IP4_HEADER : IP6_HEADER;
    set_length(p, at, c->length);
    sum = (uint16_t)~fold(pseudo(p, at, c->length - at));
    memcpy(p + at + 16, &sum, 2);
    memset(v, 0, VNET);
    v->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    v->gso_type = at == IP4_HEADER ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6;
    v->hdr_len = (uint16_t)(ETHERNET + c->head);
    v->gso_size = (uint16_t)c->mss;
    v->csum_start = (uint16_t)(ETHERNET + at);
    v->csum_offset = 16;
    memcpy(frame + VNET, i->mac, 6);
    memcpy(frame + VNET + 6, source, 6);
    put16(frame + VNET + 12, at == IP4_HEADER ? ETHERTYPE_IP4 : ETHERTYPE_IP6);
    iov[0] = (struct iovec){ frame, HEAD + c->head };
    for (unsigned k = 0; k < c->count; k++)
        iov[k + 1] = (struct iovec){ (void *)c->part[k].payload, c->part[k].length };
    done = writev(i->tap, iov, (int)c->count + 1);
    (void)done; /* a TAP that accepts nothing is down, and the packet is lost as on a host */
    totals.coalesced++;
}
