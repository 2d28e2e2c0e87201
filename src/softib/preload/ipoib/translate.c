/*
 * ARP (RFC 826) and neighbour discovery (RFC 4861) between the kernel's Ethernet and the fabric. On
 * the fabric a hardware address has 20 bytes: flags, QPN, GID (RFC 4391, 9.1); on the TAP it has six. A
 * packet that carries such an address is rewritten: an ARP message with ar$hln 20 and ar$hrd 32, a
 * link-layer address option of length 3 with two bytes of padding.
 */
#include "ipoib.h"

#include <string.h>
#include <sys/socket.h>

#define ARP_ETHERNET 28
#define ARP_INFINIBAND 56
#define HARDWARE_ETHERNET 1
#define HARDWARE_INFINIBAND 32
#define ARP_REPLY 2
#define IP6_HEADER 40
#define ICMP6 58
#define ADVERTISEMENT 136    /* type of a neighbour advertisement */
#define SOLICITED 0x40
#define OPTION_SOURCE 1
#define OPTION_TARGET 2
#define OPTION_ETHERNET 8    /* length of the link-layer address option on Ethernet and on InfiniBand, in bytes */
#define OPTION_INFINIBAND 24

static const uint8_t none[HARDWARE_ADDRESS];

/* Return the 20-byte address for a six-byte one; zeros if it is unknown (the target of an ARP request). */
static const uint8_t *hardware_of(struct interface *i, const uint8_t *mac)
{
    const struct neighbour *n;

    if (!memcmp(mac, i->mac, 6))
        return i->hardware;
    n = neighbour_of_mac(i, mac);
    return n ? n->hardware : none;
}

size_t arp_to_fabric(struct interface *i, const uint8_t *arp, size_t length, uint8_t *out)
{
    if (length < ARP_ETHERNET || get16(arp) != HARDWARE_ETHERNET || arp[4] != 6 || arp[5] != 4)
        return 0;
    put16(out, HARDWARE_INFINIBAND);
    memcpy(out + 2, arp + 2, 2);
    out[4] = HARDWARE_ADDRESS;
    out[5] = 4;
    memcpy(out + 6, arp + 6, 2);
    memcpy(out + 8, hardware_of(i, arp + 8), HARDWARE_ADDRESS);
    memcpy(out + 28, arp + 14, 4);
    memcpy(out + 32, hardware_of(i, arp + 18), HARDWARE_ADDRESS);
    memcpy(out + 52, arp + 24, 4);
    if (get16(arp + 6) == ARP_REPLY)
        kernel_neighbour_mark(i, AF_INET, arp + 24, NULL); /* the kernel's request created the entry */
    return ARP_INFINIBAND;
}

static void mac_of(struct interface *i, const uint8_t *hardware, uint8_t *mac)
{
    const struct neighbour *n;

    memset(mac, 0, 6);
    if (!memcmp(hardware + 1, i->hardware + 1, HARDWARE_ADDRESS - 1)) {
        memcpy(mac, i->mac, 6);
    } else if (memcmp(hardware, none, HARDWARE_ADDRESS)) {
        n = neighbour_learn(i, hardware);
        if (n)
            memcpy(mac, n->mac, 6);
    }
}

size_t arp_to_tap(struct interface *i, const uint8_t *arp, size_t length, uint8_t *out)
{
    if (length < ARP_INFINIBAND || get16(arp) != HARDWARE_INFINIBAND || arp[4] != HARDWARE_ADDRESS || arp[5] != 4)
        return 0;
    put16(out, HARDWARE_ETHERNET);
    memcpy(out + 2, arp + 2, 2);
    out[4] = 6;
    out[5] = 4;
    memcpy(out + 6, arp + 6, 2);
    mac_of(i, arp + 8, out + 8);
    memcpy(out + 14, arp + 28, 4);
    mac_of(i, arp + 32, out + 18);
    memcpy(out + 24, arp + 52, 4);
    if (get16(arp + 6) == ARP_REPLY)
        kernel_neighbour_mark(i, AF_INET, out + 14, out + 8);
    return ARP_ETHERNET;
}

/* Return the length of an NDP message before its options; 0: the packet is no such message. */
static size_t nd_head(const uint8_t *packet, size_t length)
{
    if (length < IP6_HEADER + 8 || packet[0] >> 4 != 6 || packet[6] != ICMP6 || packet[7] != 255)
        return 0;
    switch (packet[IP6_HEADER]) {
    case 133: return 8;  /* router solicitation */
    case 134: return 16; /* router advertisement */
    case 135:            /* neighbour solicitation and advertisement */
    case ADVERTISEMENT: return 24;
    case 137: return 40; /* redirect */
    default: return 0;
    }
}

int is_nd(const uint8_t *packet, size_t length)
{
    size_t head = nd_head(packet, length);

    return head && IP6_HEADER + head <= length && (size_t)IP6_HEADER + get16(packet + 4) <= length;
}

static int is_answer(const uint8_t *packet)
{
    return packet[IP6_HEADER] == ADVERTISEMENT && packet[IP6_HEADER + 4] & SOLICITED;
}

/* Update the payload length and checksum of a packet that now has `length` bytes. */
static size_t nd_end(uint8_t *packet, size_t length)
{
    uint8_t rest[8] = { 0 };
    size_t payload = length - IP6_HEADER;
    uint16_t sum;

    put16(packet + 4, (unsigned)payload);
    put16(packet + IP6_HEADER + 2, 0);
    put32(rest, (uint32_t)payload);
    rest[7] = ICMP6;
    sum = fold(sum16(packet + IP6_HEADER, payload, sum16(packet + 8, 32, sum16(rest, 8, 0))));
    memcpy(packet + IP6_HEADER + 2, &sum, 2);
    return length;
}

size_t nd_to_fabric(struct interface *i, const uint8_t *packet, size_t length, uint8_t *out)
{
    size_t at = IP6_HEADER + nd_head(packet, length), end = IP6_HEADER + get16(packet + 4), to = at;

    memcpy(out, packet, at);
    while (at + OPTION_ETHERNET <= end && packet[at + 1]) {
        size_t size = 8u * packet[at + 1];

        if (at + size > end || to + OPTION_INFINIBAND + size > i->mtu)
            return 0;
        if ((packet[at] == OPTION_SOURCE || packet[at] == OPTION_TARGET) && size == OPTION_ETHERNET) {
            out[to] = packet[at];
            out[to + 1] = OPTION_INFINIBAND / 8;
            put16(out + to + 2, 0);
            memcpy(out + to + 4, hardware_of(i, packet + at + 2), HARDWARE_ADDRESS);
            to += OPTION_INFINIBAND;
        } else {
            memcpy(out + to, packet + at, size);
            to += size;
        }
        at += size;
    }
    if (is_answer(packet))
        kernel_neighbour_mark(i, AF_INET6, packet + 24, NULL);
    return nd_end(out, to);
}

size_t nd_to_tap(struct interface *i, const uint8_t *packet, size_t length, uint8_t *out)
{
    size_t at = IP6_HEADER + nd_head(packet, length), end = IP6_HEADER + get16(packet + 4), to = at;

    memcpy(out, packet, at);
    while (at + 8 <= end && packet[at + 1]) {
        size_t size = 8u * packet[at + 1];

        if (at + size > end)
            return 0;
        if ((packet[at] == OPTION_SOURCE || packet[at] == OPTION_TARGET) && size == OPTION_INFINIBAND) {
            out[to] = packet[at];
            out[to + 1] = OPTION_ETHERNET / 8;
            mac_of(i, packet + at + 4, out + to + 2);
            if (is_answer(packet))
                kernel_neighbour_mark(i, AF_INET6, packet + IP6_HEADER + 8, out + to + 2);
            to += OPTION_ETHERNET;
        } else {
            memcpy(out + to, packet + at, size);
            to += size;
        }
        at += size;
    }
    return nd_end(out, to);
}
