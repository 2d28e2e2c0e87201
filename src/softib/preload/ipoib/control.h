/*
 * The protocol between softib-ipoib and softib.ulp.ipoib, over a Unix socket with message boundaries
 * (SOCK_SEQPACKET). The first message of softib-ipoib is softib_ipoib_ready and a softib_ipoib_interface for each
 * interface, with the descriptors of the node's network namespace and (where it has one) user namespace. A client
 * sends one softib_ipoib_ask, and stays connected while it uses the node's network.
 */
#ifndef SOFTIB_IPOIB_CONTROL_H
#define SOFTIB_IPOIB_CONTROL_H

#include <stdint.h>

#define IPOIB_MAGIC 0x49504f49
#define IPOIB_INTERFACES 32
/* Answered by softib_ipoib_totals. */
#define IPOIB_ASK_TOTALS 1
/* After this, the client receives each datagram as a softib_ipoib_datagram and its payload. */
#define IPOIB_ASK_CAPTURE 2

struct softib_ipoib_ready {
    uint32_t magic;
    uint32_t interfaces;
    uint32_t connected;     /* the network is in connected mode (RFC 4755) */
    uint32_t reserved;
};

struct softib_ipoib_interface {
    char name[16];
    uint32_t qpn;
    uint32_t qkey;
    uint32_t mtu;           /* IP MTU; 0: the interface has no broadcast group */
    uint16_t pkey;
    uint16_t lid;
    char problem[96];       /* why the interface has no broadcast group */
};

struct softib_ipoib_ask {
    uint32_t magic;
    uint32_t op;
};

struct softib_ipoib_totals {
    uint32_t magic;
    uint32_t lost;          /* datagrams that did not fit into the socket of a capture */
    uint64_t sent_octets;   /* from LRH to ICRC, as PortXmitData counts them */
    uint64_t got_octets;
    uint64_t sent;          /* datagrams and messages */
    uint64_t got;
    uint64_t segmented;     /* packets of the kernel that were segmented */
    uint64_t coalesced;     /* packets for the kernel that were coalesced */
    uint64_t messages_sent; /* the part of `sent` that was sent over RC connections */
    uint64_t messages_got;
};

struct softib_ipoib_datagram {
    uint64_t ns;            /* time in ns since 1970 */
    uint32_t source_qp;
    uint32_t destination_qp;
    uint32_t qkey;
    uint32_t psn;
    uint16_t source_lid;
    uint16_t destination_lid;
    uint16_t pkey;
    uint16_t length;
    uint8_t sl;
    uint8_t grh;
    uint8_t interface;
    uint8_t outbound;
    uint8_t source_gid[16];
    uint8_t destination_gid[16];
    uint32_t path_mtu;      /* 0: a UD datagram; otherwise an RC message in packets of this size, the first with PSN
                             * `psn` */
};

#endif
