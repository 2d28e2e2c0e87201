/*
 * Packets that are longer than the neighbour's MTU, on an interface in connected mode: an ICMP message with the
 * destination as its source reports the MTU to the kernel (RFC 792 with RFC 1191, RFC 4443; RFC 4755, 7.2).
 */
#include "ipoib.h"

#include <string.h>

#define IP4_HEADER 20
#define IP6_HEADER 40
#define ICMP_HEADER 8
#define ICMP4 1
#define ICMP6 58
#define QUOTED4 548   /* RFC 1812: 576 bytes in all */
#define QUOTED6 1232  /* RFC 4443: 1280 bytes in all */
#define HOPS 64
enum { UNREACHABLE = 3, FRAGMENTATION_NEEDED = 4, PACKET_TOO_BIG = 2 };

static size_t icmp4(uint8_t *out, const uint8_t *packet, size_t length, uint32_t mtu)
{
    size_t quoted = length < QUOTED4 ? length : QUOTED4;
    uint8_t *icmp = out + IP4_HEADER;
    uint16_t sum;

    memset(out, 0, IP4_HEADER + ICMP_HEADER);
    out[0] = 0x45;
    put16(out + 2, (unsigned)(IP4_HEADER + ICMP_HEADER + quoted));
    out[8] = HOPS;
    out[9] = ICMP4;
    memcpy(out + 12, packet + 16, 4);
    memcpy(out + 16, packet + 12, 4);
    sum = fold(sum16(out, IP4_HEADER, 0));
    memcpy(out + 10, &sum, 2);
    icmp[0] = UNREACHABLE;
    icmp[1] = FRAGMENTATION_NEEDED;
    put16(icmp + 6, mtu);
    memcpy(icmp + ICMP_HEADER, packet, quoted);
    sum = fold(sum16(icmp, ICMP_HEADER + quoted, 0));
    memcpy(icmp + 2, &sum, 2);
    return IP4_HEADER + ICMP_HEADER + quoted;
}

static size_t icmp6(uint8_t *out, const uint8_t *packet, size_t length, uint32_t mtu)
{
    size_t quoted = length < QUOTED6 ? length : QUOTED6, payload = ICMP_HEADER + quoted;
    uint8_t *icmp = out + IP6_HEADER, rest[8] = { 0 };
    uint16_t sum;

    memset(out, 0, IP6_HEADER + ICMP_HEADER);
    out[0] = 0x60;
    put16(out + 4, (unsigned)payload);
    out[6] = ICMP6;
    out[7] = HOPS;
    memcpy(out + 8, packet + 24, 16);
    memcpy(out + 24, packet + 8, 16);
    icmp[0] = PACKET_TOO_BIG;
    put32(icmp + 4, mtu);
    memcpy(icmp + ICMP_HEADER, packet, quoted);
    put32(rest, (uint32_t)payload);
    rest[7] = ICMP6;
    sum = fold(sum16(icmp, payload, sum16(out + 8, 32, sum16(rest, 8, 0))));
    memcpy(icmp + 2, &sum, 2);
    return IP6_HEADER + payload;
}

/* Tell the kernel that its `packet` was dropped, and that packets to this destination may have at most `mtu` bytes. */
void too_long(struct interface *i, const uint8_t *packet, size_t length, uint32_t mtu)
{
    static uint8_t out[HEAD + IP6_HEADER + ICMP_HEADER + QUOTED6];
    uint8_t *reply = out + HEAD;

    if (length >= IP4_HEADER && packet[0] >> 4 == 4)
        to_tap(i, NULL, i->mac, ETHERTYPE_IP4, reply, icmp4(reply, packet, length, mtu));
    else if (length >= IP6_HEADER && packet[0] >> 4 == 6)
        to_tap(i, NULL, i->mac, ETHERTYPE_IP6, reply, icmp6(reply, packet, length, mtu));
}
