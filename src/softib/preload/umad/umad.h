/*
 * The protocol between libsoftib-umad.so and the daemon of a running fabric. This header is the only declaration;
 * softib.live.umad.wire reads it into NumPy dtypes.
 *
 * The daemon listens on a SOCK_SEQPACKET socket in the fabric's directory. Every connection starts with one
 * softib_umad_ask, which gets one softib_umad_reply.
 *
 * - OPEN turns the connection into a umad file: from then on each message, in both directions, is a softib_umad_head (the layout
 *   of the kernel's struct ib_user_mad_hdr, ABI 5 with P_Key index) followed by up to 256 bytes of MAD. `length` in the head
 *   counts the head and the MAD. An RMPP message does not fit: its head and first 256 bytes are sent twice, first alone (the
 *   announcement: `length` exceeds the message), then with a file descriptor (SCM_RIGHTS) of a file with the whole MAD, `length`
 *   - 64 bytes from its start. So a reader need not expect descriptors, or peek, unless it has read an announcement. If its
 *   buffer is too small, it leaves the second message in the queue.
 * - ISSM turns the connection into an issm file: the port has IsSM set while the connection is open.
 * - REGISTER, UNREGISTER and REFRESH are single requests; the connection is closed after the answer.
 *
 * The file is closed when the program closes the connection or dies. Integers have the machine's byte order, except
 * those that are big endian in the kernel's ABI (qpn, qkey, lid, gid, flow_label).
 */
#ifndef SOFTIB_UMAD_H
#define SOFTIB_UMAD_H

#include <stdint.h>

#define SOFTIB_UMAD_MAGIC 0x64616d75
#define SOFTIB_UMAD_VERSION 3

#define SOFTIB_UMAD_OPEN 1
#define SOFTIB_UMAD_ISSM 2
#define SOFTIB_UMAD_REGISTER 3
#define SOFTIB_UMAD_UNREGISTER 4
#define SOFTIB_UMAD_REFRESH 5

#define SOFTIB_UMAD_HEAD 64
#define SOFTIB_UMAD_MAD 256
#define SOFTIB_UMAD_AGENTS 32
/* Maximum length in bytes of one RMPP message. */
#define SOFTIB_UMAD_LONGEST 0x10000000

struct softib_umad_head {
    uint32_t id;            /* the agent's id */
    uint32_t status;        /* 0, or ETIMEDOUT: the request comes back unanswered */
    uint32_t timeout_ms;    /* timeout of each attempt; 0 = no answer expected */
    uint32_t retries;
    uint32_t length;        /* bytes of this head and the MAD */
    uint32_t qpn;           /* of the other side */
    uint32_t qkey;
    uint16_t lid;           /* of the other side */
    uint8_t sl;
    uint8_t path_bits;
    uint8_t grh_present;
    uint8_t gid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
    uint8_t gid[16];
    uint32_t flow_label;
    uint16_t pkey_index;
    uint8_t reserved[6];
};

struct softib_umad_ask {
    uint32_t magic;         /* SOFTIB_UMAD_MAGIC */
    uint32_t version;       /* SOFTIB_UMAD_VERSION */
    uint32_t op;
    uint32_t handle;        /* REGISTER, UNREGISTER: `handle` of the reply to OPEN */
    uint32_t agent;         /* UNREGISTER */
    uint32_t oui;           /* REGISTER: the OUI, for a vendor class that has one */
    uint64_t method_mask[2];/* REGISTER: methods of unsolicited MADs that the agent takes */
    uint8_t qpn;
    uint8_t mgmt_class;
    uint8_t mgmt_class_version;
    uint8_t rmpp_version;
    uint8_t user_rmpp;      /* 1: the program handles RMPP headers */
    uint8_t reserved[3];
    char view[64];          /* OPEN, ISSM, REFRESH: the program's view (the HCAs that it sees) */
    char path[256];         /* OPEN, ISSM: number of the device; REFRESH: file below the view's directory */
};

struct softib_umad_reply {
    uint32_t magic;
    uint32_t version;
    uint32_t error;         /* errno, 0 = done */
    uint32_t value;         /* OPEN: the handle; REGISTER: the agent */
};

#endif
