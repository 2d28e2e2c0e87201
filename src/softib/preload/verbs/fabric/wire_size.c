/* Number of packets and dwords of a message. */
#include "wire_size.h"

enum { LRH = 8, GRH = 40, BTH = 12, ICRC = 4, DETH = 8, XRCETH = 4, RETH = 16, ATOMIC_ETH = 28, AETH = 4,
       ATOMIC_ACK_ETH = 8, IMM_DT = 4, IETH = 4, FETH = 4 };

/* Bytes of the extension headers of a message's packets: on the first, on the last, and on both of them if the message
 * has several packets. */
static const struct { uint8_t first, last, both_ends, request; } extension[SV_MESSAGES] = {
    [SV_MSG_SEND] = { .request = 1 },
    [SV_MSG_SEND_IMM] = { .last = IMM_DT, .request = 1 },
    [SV_MSG_SEND_INV] = { .last = IETH, .request = 1 },
    [SV_MSG_WRITE] = { .first = RETH, .request = 1 },
    [SV_MSG_WRITE_IMM] = { .first = RETH, .last = IMM_DT, .request = 1 },
    [SV_MSG_READ_REQUEST] = { .first = RETH, .request = 1 },
    [SV_MSG_READ_RESPONSE] = { .both_ends = AETH },
    [SV_MSG_ATOMIC] = { .first = ATOMIC_ETH, .request = 1 },
    [SV_MSG_ATOMIC_RESPONSE] = { .first = AETH + ATOMIC_ACK_ETH },
    [SV_MSG_ACK] = { .first = AETH },
    [SV_MSG_ATOMIC_WRITE] = { .first = RETH, .request = 1 },
    [SV_MSG_FLUSH] = { .first = RETH + FETH, .request = 1 },
};

/* Return the payload to count: messages of one packet ignore the caller's. */
static uint64_t payload_of(enum sv_message message, uint64_t payload)
{
    switch (message) {
    case SV_MSG_READ_REQUEST:
    case SV_MSG_ATOMIC:
    case SV_MSG_ATOMIC_RESPONSE:
    case SV_MSG_ACK:
    case SV_MSG_FLUSH:
        return 0;
    case SV_MSG_ATOMIC_WRITE:
        return 8;
    default:
        return payload;
    }
}

struct sv_wire_size sv_wire_size_of(enum sv_message message, unsigned flags, uint64_t payload, uint32_t mtu)
{
    uint64_t octets = payload_of(message, payload);
    uint64_t packets = octets > mtu ? (octets + mtu - 1) / mtu : 1;
    uint64_t each = LRH + BTH + ICRC + (flags & SV_WIRE_GRH ? GRH : 0) + (flags & SV_WIRE_UD ? DETH : 0) +
                    (flags & SV_WIRE_XRC && extension[message].request ? XRCETH : 0);
    uint64_t once = extension[message].first + extension[message].last +
                    extension[message].both_ends * (packets > 1 ? 2u : 1u);

    /* The MTU is a multiple of 4: only the last packet is padded. */
    return (struct sv_wire_size){ packets, (packets * each + once + (octets + 3) / 4 * 4) / 4 };
}
