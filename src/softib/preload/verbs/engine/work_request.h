/* A send request accepted from the application, and the address handle of a datagram. */
#ifndef SOFTIB_VERBS_ENGINE_WORK_REQUEST_H
#define SOFTIB_VERBS_ENGINE_WORK_REQUEST_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdint.h>

#include "../fabric/fabric.h"

#define VE_SGES 32      /* most SGEs of one request */
#define VE_INLINE 1024

struct ve_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
    uint32_t port;
    pthread_mutex_t lock;
    struct sv_flow flow;
    struct sv_tree tree;
    uint16_t pkey;                  /* parameters of the last walk of the flow */
    uint32_t qp[2];
};

/* A send request accepted from the application. */
struct ve_wr {
    uint64_t wr_id;
    uint32_t opcode, flags;         /* enum ibv_wr_opcode, enum ibv_send_flags */
    uint32_t imm;                   /* immediate data, or the key to invalidate */
    uint32_t rkey;
    uint64_t remote;
    uint64_t compare, swap;
    struct ve_ah *ah;
    uint32_t qpn, qkey;             /* UD; XRC: the SRQ's number in qpn */
    struct ibv_mw *mw;
    struct ibv_mw_bind_info bind;
    uint32_t sges;
    uint32_t inline_length;         /* with IBV_SEND_INLINE */
    const struct ibv_sge *sge;
};

struct ve_slot {                    /* a pending request, with the data that it points to */
    struct ve_wr wr;
    struct ibv_sge *sge;
    char *data;
};

#endif
