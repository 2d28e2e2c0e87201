/*
 * Packet sequence numbers (IBA 9.7.1): 24 bits, one for each packet of a request. The responder
 * expects the PSN after that of the last packet that it accepted (9.7.2).
 */
#ifndef SOFTIB_VERBS_PSN_H
#define SOFTIB_VERBS_PSN_H

#include <stdbool.h>
#include <stdint.h>

/* Return the number of packets of a message of `length` bytes. `mtu` is the code of the path MTU: 1 (256) to 5 (4096
 * bytes). */
static inline uint32_t ve_packets_of(uint64_t length, unsigned mtu)
{
    unsigned shift = 7u + mtu;

    return length >> shift ? (uint32_t)((length + (1u << shift) - 1) >> shift) : 1;
}

static inline uint32_t ve_psn_after(uint32_t psn, uint32_t packets)
{
    return (psn + packets) & 0xFFFFFF;
}

#endif
