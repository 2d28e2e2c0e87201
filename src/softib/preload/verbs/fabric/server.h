/*
 * The protocol between libsoftib-verbs.so and the daemon of a running fabric. This header is the only declaration;
 * softib.live.verbs.server reads it into NumPy dtypes.
 *
 * The daemon listens on the SOCK_SEQPACKET socket `verbs.sock` in the fabric's directory. A process connects once and
 * sends softib_server_hello. The softib_server_reply contains the number of the process (1 .. 65535, unique among
 * running processes) and SOFTIB_SERVER_FILES descriptors (SCM_RIGHTS). So the process needs no paths or pids, which may
 * differ in its container. A client that sends only magic and version gets the descriptors, but is not counted as a
 * program of the fabric. The connection stays open. When it closes, because the program closes it or dies, the daemon
 * frees the program's memory and adds its traffic to the counters. Afterwards each message is a softib_server_ask,
 * which gets one softib_server_reply.
 *
 * - SUBSCRIBE carries a descriptor (SCM_RIGHTS), the writing end of a SOCK_SEQPACKET or SOCK_DGRAM pair: the daemon writes
 *   a softib_event there whenever something happens to the ports of node `node`. Events that do not fit into the socket
 *   wait in the daemon, as in the kernel's list of an open device. When the reading end is closed the daemon drops them.
 * - FOLD: when the answer arrives, the counters of the ports include every count of the traffic
 *   file.
 *
 * Integers have the machine's byte order.
 */
#ifndef SOFTIB_SERVER_H
#define SOFTIB_SERVER_H

#include <stdint.h>

#define SOFTIB_SERVER_MAGIC 0x73627276
#define SOFTIB_SERVER_VERSION 2

/* Number of descriptors in the first reply: the files `shared_fabric`, the file with its lazy columns, `verbs`,
 * `traffic`. */
#define SOFTIB_SERVER_FILES 4
#define SOFTIB_SERVER_FABRIC 0
#define SOFTIB_SERVER_LAZY 1
#define SOFTIB_SERVER_VERBS 2
#define SOFTIB_SERVER_TRAFFIC 3

#define SOFTIB_SERVER_SUBSCRIBE 1
#define SOFTIB_SERVER_FOLD 2

/* enum ibv_event_type of libibverbs. */
#define SOFTIB_EVENT_DEVICE_FATAL 8
#define SOFTIB_EVENT_PORT_ACTIVE 9
#define SOFTIB_EVENT_PORT_ERR 10
#define SOFTIB_EVENT_LID_CHANGE 11
#define SOFTIB_EVENT_PKEY_CHANGE 12
#define SOFTIB_EVENT_SM_CHANGE 13
#define SOFTIB_EVENT_CLIENT_REREGISTER 17
#define SOFTIB_EVENT_GID_CHANGE 18

struct softib_server_hello {
    uint32_t magic;         /* SOFTIB_SERVER_MAGIC */
    uint32_t version;       /* SOFTIB_SERVER_VERSION */
    uint32_t shared_fabric; /* SOFTIB_SHARED_FABRIC_VERSION that the library reads */
    uint32_t reserved;
    char view[64];          /* the HCAs that the program sees */
};

struct softib_server_ask {
    uint32_t op;
    uint32_t node;          /* SUBSCRIBE: row of the node */
};

struct softib_server_reply {
    uint32_t magic;
    uint32_t version;       /* version of the daemon */
    uint32_t error;         /* errno, 0 = done */
    uint32_t number;        /* reply to hello: number of the process */
};

struct softib_event {
    uint32_t type;          /* SOFTIB_EVENT_*, enum ibv_event_type */
    uint32_t portnum;
    uint64_t element;       /* the object of an event that the program's library wrote */
};

#endif
