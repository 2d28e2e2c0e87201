/*
 * Packets and dwords (4 bytes) on the wire of one message, as PortXmitData counts them: from the
 * LRH to the ICRC, with padding, without VCRC and link delimiters (IBA 16.1.3.5; headers 7.7, 8.3,
 * 9.2, 9.3, 9.6).
 *
 * Every packet has LRH 8, BTH 12 and ICRC 4 bytes. Packets that are counted (docs/verbs.md):
 * - a message of n bytes is max(1, ceil(n / MTU)) packets; an RDMA READ request is one, its response is the message;
 * - the responder of RC and XRC acknowledges each SEND and WRITE message with one ACK: only its
 *   LAST or ONLY packet requests one (AckReq), and acknowledgements are not coalesced over
 *   messages. READ and atomic responses are acknowledgements themselves;
 * - a NAK (including RNR) is one packet like an ACK; repeated packets are counted again.
 */
#ifndef SOFTIB_VERBS_WIRE_SIZE_H
#define SOFTIB_VERBS_WIRE_SIZE_H

#include <stdint.h>

enum sv_message {
    SV_MSG_SEND,
    SV_MSG_SEND_IMM,        /* ImmDt on LAST or ONLY */
    SV_MSG_SEND_INV,        /* IETH on LAST or ONLY */
    SV_MSG_WRITE,           /* RETH on FIRST or ONLY */
    SV_MSG_WRITE_IMM,
    SV_MSG_READ_REQUEST,    /* RETH; `payload` is ignored */
    SV_MSG_READ_RESPONSE,   /* AETH on FIRST, LAST or ONLY */
    SV_MSG_ATOMIC,          /* CmpSwap, FetchAdd: AtomicETH */
    SV_MSG_ATOMIC_RESPONSE, /* AETH, AtomicAckETH */
    SV_MSG_ACK,             /* and every NAK: AETH */
    SV_MSG_ATOMIC_WRITE,    /* RETH and 8 bytes (annex A19) */
    SV_MSG_FLUSH,           /* FETH and RETH (annex A19) */
    SV_MESSAGES
};

/* Further headers of all packets of a message. */
#define SV_WIRE_GRH 1  /* 40 bytes */
#define SV_WIRE_UD 2   /* DETH, 8 bytes */
#define SV_WIRE_XRC 4  /* XRCETH, 4 bytes, in requests */

struct sv_wire_size {
    uint64_t packets, dwords;
};

/* Return the size of a message on the wire. `mtu` in bytes: 256 .. 4096. */
struct sv_wire_size sv_wire_size_of(enum sv_message message, unsigned flags, uint64_t payload, uint32_t mtu);

#endif
