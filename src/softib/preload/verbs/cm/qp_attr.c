/* INIT_QP_ATTR: the attributes that bring a QP of an id to a state (IBA 12.7; masks as the kernel's
 * cm sets them). */
#include "cm.h"

#include <errno.h>
#include <string.h>

/* enum ibv_qp_attr_mask, ibv_qp_state and access flags of verbs. */
enum {
    STATE = 1 << 0, ACCESS = 1 << 3, PKEY_INDEX = 1 << 4, PORT = 1 << 5, QKEY = 1 << 6, AV = 1 << 7, PATH_MTU = 1 << 8,
    TIMEOUT = 1 << 9, RETRY_CNT = 1 << 10, RNR_RETRY = 1 << 11, RQ_PSN = 1 << 12, MAX_RD_ATOMIC = 1 << 13,
    MIN_RNR_TIMER = 1 << 15, SQ_PSN = 1 << 16, MAX_DEST_RD_ATOMIC = 1 << 17, DEST_QPN = 1 << 20,
    INIT = 1, RTR = 2, RTS = 3,
    REMOTE_WRITE = 1 << 1, REMOTE_READ = 1 << 2, REMOTE_ATOMIC = 1 << 3,
    UDP_QKEY = 0x01234567,  /* RDMA_UDP_QKEY of rdma_cma.h */
    MOST_TIMEOUT = 31, CA_ACK_DELAY = 15
};

static int to_init(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    a->pkey_index = id->at.pkey_index;
    a->port_num = id->at.portnum;
    a->qp_attr_mask = STATE | PKEY_INDEX | PORT;
    if (id->qp_type == CM_QPT_UD) {
        a->qkey = id->qkey ? id->qkey : UDP_QKEY;
        a->qp_attr_mask |= QKEY;
        return 0;
    }
    if (id->connecting) {
        a->qp_access_flags = REMOTE_WRITE;
        if (id->responder_resources)
            a->qp_access_flags |= REMOTE_READ | REMOTE_ATOMIC;
    }
    a->qp_attr_mask |= ACCESS;
    return 0;
}

static int to_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    struct cm_path path;

    if (!id->has_peer)
        return -EINVAL;
    cm_read_path(id->at.path, &path);
    cm_fill_ah(&id->at, &a->ah_attr);
    a->path_mtu = path.mtu;
    a->dest_qp_num = id->at.qpn;
    a->rq_psn = id->at.psn;
    a->qp_attr_mask = STATE | AV | PATH_MTU | DEST_QPN | RQ_PSN;
    if (id->qp_type == CM_QPT_RC || id->qp_type == CM_QPT_XRC_RECV) {
        a->max_dest_rd_atomic = id->responder_resources;
        a->min_rnr_timer = id->min_rnr_timer;
        a->qp_attr_mask |= MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
    }
    return 0;
}

/* Return the ACK timeout as an exponent: twice the path's life time plus the answering adapter's delay (IBA
 * 12.7.34). */
static uint8_t ack_timeout(uint8_t life_time)
{
    uint8_t there_and_back = (uint8_t)(life_time + 1), t;

    if (there_and_back >= CA_ACK_DELAY)
        t = (uint8_t)(there_and_back + (CA_ACK_DELAY >= there_and_back - 1));
    else
        t = (uint8_t)(CA_ACK_DELAY + (there_and_back >= CA_ACK_DELAY - 1));
    return t < MOST_TIMEOUT ? t : MOST_TIMEOUT;
}

static int to_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
    struct cm_path path;

    if (!id->has_peer)
        return -EINVAL;
    a->sq_psn = id->psn;
    a->qp_attr_mask = STATE | SQ_PSN;
    if (id->qp_type == CM_QPT_UC)
        return 0;
    cm_read_path(id->at.path, &path);
    a->timeout = id->has_ack_timeout ? id->ack_timeout : id->at.ack_timeout ? id->at.ack_timeout : ack_timeout(path.life_time);
    a->qp_attr_mask |= TIMEOUT;
    if (id->qp_type != CM_QPT_XRC_RECV) {
        a->retry_cnt = id->retry_count;
        a->rnr_retry = id->rnr_retry_count;
        a->max_rd_atomic = id->initiator_depth;
        a->qp_attr_mask |= RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC;
    }
    return 0;
}

int cm_init_qp_attr(struct cm_call *call)
{
    const struct rdma_ucm_init_qp_attr *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct ib_uverbs_qp_attr answer;

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (!id)
        return -ENOENT;
    if (!id->at.devices)
        return -EINVAL;
    memset(&answer, 0, sizeof answer);
    int error = c->qp_state == INIT                                ? to_init(id, &answer)
              : id->qp_type == CM_QPT_UD || !id->connecting        ? -EINVAL
              : c->qp_state == RTR                                 ? to_rtr(id, &answer)
              : c->qp_state == RTS                                 ? to_rts(id, &answer)
                                                                   : -EINVAL;
    if (error)
        return error;
    answer.qp_state = c->qp_state;
    return cm_put(c->response, &answer, sizeof answer);
}
