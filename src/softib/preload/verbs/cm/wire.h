/*
 * The protocol between the rdma_cm device of libsoftib-verbs.so and the daemon. This header is the only declaration;
 * softib.live.rdma_cm.wire reads it.
 *
 * The daemon listens on the SOCK_SEQPACKET socket `rdma_cm` in the fabric's directory. Every connection starts with a
 * softib_cm_hello, which gets one softib_cm_reply (`error`, `number`).
 *
 * - PROCESS: one connection per process. Afterwards each message is a softib_cm_ask; those whose `answer` is 1 get one
 *   softib_cm_reply. When the connection is closed, all ids of the process are destroyed.
 * - CHANNEL: one connection for each open /dev/infiniband/rdma_cm; the program's descriptor is this
 *   connection, so poll, epoll, fcntl, dup and close work without interposition. The daemon sends each event of the
 *   channel's ids as a softib_cm_reply.
 *
 * `number` names an id or a multicast membership. Ids and memberships that the process creates have numbers below
 * SOFTIB_CM_CHILD; the daemon gives the ids of connection requests higher numbers. Integers have the machine's byte
 * order; GIDs, paths and socket addresses are as on the wire.
 */
#ifndef SOFTIB_CM_WIRE_H
#define SOFTIB_CM_WIRE_H

#include <stdint.h>

#define SOFTIB_CM_MAGIC 0x616d6372
#define SOFTIB_CM_VERSION 1

#define SOFTIB_CM_PROCESS 1
#define SOFTIB_CM_CHANNEL 2

#define SOFTIB_CM_CHILD 0x80000000

#define SOFTIB_CM_DESTROY 1
#define SOFTIB_CM_BIND 2
#define SOFTIB_CM_RESOLVE_ADDR 3
#define SOFTIB_CM_RESOLVE_ROUTE 4
#define SOFTIB_CM_LISTEN 5
#define SOFTIB_CM_CONNECT 6
#define SOFTIB_CM_ACCEPT 7
#define SOFTIB_CM_READY 8
#define SOFTIB_CM_REJECT 9
#define SOFTIB_CM_DISCONNECT 10
#define SOFTIB_CM_NOTIFY 11
#define SOFTIB_CM_JOIN 12
#define SOFTIB_CM_LEAVE 13
#define SOFTIB_CM_MIGRATE 14
#define SOFTIB_CM_POST 15
#define SOFTIB_CM_SET_PATH 16
#define SOFTIB_CM_WRITE_EVENT 17

/* Flags of an id. AF_GIVEN: the program set AF_ONLY, or cleared it. */
#define SOFTIB_CM_REUSE 1
#define SOFTIB_CM_AF_ONLY 2
#define SOFTIB_CM_AF_GIVEN 4

struct softib_cm_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t process;       /* CHANNEL: the number from the reply to PROCESS */
    char view[64];          /* PROCESS: the program's view (the HCAs that it sees) */
};

struct softib_cm_ask {
    uint32_t op;
    uint32_t answer;
    uint32_t number;
    uint32_t channel;
    uint32_t other;         /* LISTEN: backlog; REJECT: reason; NOTIFY, WRITE_EVENT: event; JOIN: number of the id; MIGRATE: channel */
    uint32_t timeout_ms;    /* WRITE_EVENT: status; its argument is the private data */
    uint32_t qpn;
    uint32_t qkey;
    uint32_t psn;
    uint32_t ece_vendor;
    uint32_t ece_options;
    uint16_t ps;
    uint16_t private_length;
    uint8_t qp_type;
    uint8_t flags;
    uint8_t srq;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t tos;
    uint8_t join_state;
    uint8_t reserved[6];
    uint8_t source[48];     /* struct sockaddr_in, _in6 or _ib */
    uint8_t target[48];
    uint8_t path[64];       /* SET_PATH: PathRecord */
    uint8_t private_data[256];
};

struct softib_cm_reply {
    uint32_t error;         /* answers: errno; events: status (a negative errno, or a reason of the CM) */
    uint32_t number;
    uint32_t event;         /* enum rdma_cm_event_type */
    uint32_t listener;      /* CONNECT_REQUEST: the listener; MULTICAST_*: the id that joined */
    uint32_t sent;          /* answers: number of events sent so far for `number` */
    uint32_t qpn;
    uint32_t qkey;
    uint32_t psn;
    uint32_t ece_vendor;
    uint32_t ece_options;
    uint32_t devices;       /* 1: node_guid, portnum and GIDs are valid */
    uint32_t paths;         /* 1: path is valid */
    uint64_t node_guid;     /* big endian */
    uint16_t pkey;
    uint16_t pkey_index;
    uint8_t portnum;
    uint8_t gid_index;
    uint8_t is_global;
    uint8_t path_bits;
    uint8_t ack_timeout;
    uint8_t srq;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t private_length;
    uint8_t sgid[16];
    uint8_t dgid[16];
    uint8_t source[48];
    uint8_t target[48];
    uint8_t path[64];
    uint8_t private_data[256];
};

#endif
