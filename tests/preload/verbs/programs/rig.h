/* What the programs of tests have in common: one device, its first port, plain buffers, RC connections. */
#ifndef RIG_H
#define RIG_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                           \
            exit(1);                                                                                                         \
        }                                                                                                                    \
    } while (0)

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct end { /* of a connection, as the other must know it */
    uint32_t qpn;
    uint16_t lid, alternate;
    uint32_t rkey;
    uint64_t address;
};

static inline struct ibv_context *rig_device(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    MUST(list && list[0]);
    return ibv_open_device(list[0]);
}

static inline uint16_t rig_lid(struct ibv_context *context, uint8_t portnum)
{
    struct ibv_port_attr port;

    MUST(!ibv_query_port(context, portnum, &port));
    return port.lid;
}

static inline struct ibv_qp *rig_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = type,
                                     .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };

    return ibv_create_qp(pd, &init);
}

static inline void rig_init(struct ibv_qp *qp, uint8_t portnum)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = portnum, .qp_access_flags = ALL };

    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static inline void rig_rtr(struct ibv_qp *qp, uint8_t portnum, uint32_t qpn, uint16_t lid)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .max_dest_rd_atomic = 4,
                             .min_rnr_timer = 1, .ah_attr = { .dlid = lid, .port_num = portnum } };

    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static inline void rig_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retries, .rnr_retry = 7,
                             .max_rd_atomic = 4 };

    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                    IBV_QP_MAX_QP_RD_ATOMIC));
}

/* The next completion, within 20 s. */
static inline struct ibv_wc rig_poll(struct ibv_cq *cq)
{
    time_t end = time(NULL) + 20;
    struct ibv_wc wc;
    int n;

    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        MUST(time(NULL) < end);
    MUST(n == 1);
    return wc;
}

static inline void rig_recv(struct ibv_qp *qp, uint64_t address, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = { address, length, lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(!ibv_post_recv(qp, &wr, &bad));
}

static inline struct ibv_wc rig_send(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wr_opcode op, uint64_t address,
                                     uint32_t length, uint32_t lkey, uint64_t remote, uint32_t rkey, uint32_t srqn)
{
    struct ibv_sge sge = { address, length, lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = { remote, rkey }, .qp_type.xrc.remote_srqn = srqn }, *bad;

    MUST(!ibv_post_send(qp, &wr, &bad));
    return rig_poll(cq);
}

#endif
