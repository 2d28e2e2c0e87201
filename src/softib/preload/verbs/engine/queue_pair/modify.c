/*
 * ibv_modify_qp: the state machine of a QP as a table (IBA 10.3.1, 11.2.4.2; ibv_modify_qp(3)). A transition that is
 * not in the table, or has missing or extra attributes, changes nothing. Values are masked, or rejected, as Linux does
 * for mlx5: the table of docs/verbs.md, "Attributes of ibv_modify_qp".
 */
#include "modify.h"
#include "../completion/complete.h"
#include "migrate.h"
#include "flows.h"
#include "../send.h"
#include "../scheduling/sq_sched.h"
#include "../tag_matching/tag_matching.h"
#include "../scheduling/timer.h"
#include "../../memory/locks.h"
#include "../../memory/heap/number_table.h"
#include "../../peers/orders.h"

#include <errno.h>
#include <string.h>

#define AV_ IBV_QP_AV
enum { UD = 1, UC = 2, RC = 4, XS = 8, XR = 16, CONNECTED = UC | RC | XS | XR };
#define STANDARD_ATTRIBUTES ((IBV_QP_DEST_QPN << 1) - 1)

static const struct transition {
    uint8_t from, to, types;
    int required, optional;
} table[] = {
    { IBV_QPS_RESET, IBV_QPS_INIT, UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
    { IBV_QPS_RESET, IBV_QPS_INIT, CONNECTED, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
    { IBV_QPS_INIT, IBV_QPS_INIT, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
    { IBV_QPS_INIT, IBV_QPS_INIT, CONNECTED, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
    { IBV_QPS_INIT, IBV_QPS_RTR, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
    { IBV_QPS_INIT, IBV_QPS_RTR, UC, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
      IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
    { IBV_QPS_INIT, IBV_QPS_RTR, RC | XR,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
      IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
    { IBV_QPS_INIT, IBV_QPS_RTR, XS, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
      IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
    { IBV_QPS_RTR, IBV_QPS_RTS, UD, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
    { IBV_QPS_RTR, IBV_QPS_RTS, UC, IBV_QP_SQ_PSN,
      IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE },
    { IBV_QPS_RTR, IBV_QPS_RTS, RC | XS,
      IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
      IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
    { IBV_QPS_RTR, IBV_QPS_RTS, XR, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
      IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
    { IBV_QPS_RTS, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
    { IBV_QPS_RTS, IBV_QPS_RTS, CONNECTED, 0,
      IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER },
    { IBV_QPS_RTS, IBV_QPS_SQD, UD | CONNECTED, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
    { IBV_QPS_SQD, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
    { IBV_QPS_SQD, IBV_QPS_RTS, CONNECTED, 0,
      IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
    { IBV_QPS_SQD, IBV_QPS_SQD, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
    { IBV_QPS_SQD, IBV_QPS_SQD, CONNECTED, 0,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
          IBV_QP_PATH_MIG_STATE | IBV_QP_PORT },
    { IBV_QPS_SQE, IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY },
    { IBV_QPS_SQE, IBV_QPS_RTS, UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS },
};

static int type_bit(uint8_t type)
{
    switch (type) {
    case IBV_QPT_UD: return UD;
    case IBV_QPT_UC: return UC;
    case IBV_QPT_XRC_SEND: return XS;
    case IBV_QPT_XRC_RECV: return XR;
    default: return RC;
    }
}

static bool allowed(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
    mask &= ~IBV_QP_STATE;
    if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
        return !mask;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].from == from && table[i].to == to && table[i].types & type_bit(type))
            return (mask & table[i].required) == table[i].required && !(mask & ~(table[i].required | table[i].optional));
    return false;
}

bool ve_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int *required, int *optional)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].from == from && table[i].to == to && table[i].types & type_bit(type)) {
            *required = table[i].required;
            *optional = table[i].optional;
            return true;
        }
    }
    return false;
}

static bool is_rate(uint8_t rate)
{
    return rate == IBV_RATE_MAX || (rate >= IBV_RATE_2_5_GBPS && rate <= IBV_RATE_1200_GBPS);
}

/* The port of the primary path must be the QP's port; in SQD the path may change the port. */
static bool is_path(struct ve_qp *q, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to)
{
    const struct ibv_ah_attr *ah = &a->ah_attr;
    uint8_t portnum = mask & IBV_QP_PORT ? a->port_num : q->attr.port_num, gid[16];
    bool moves = q->state == IBV_QPS_SQD && to == IBV_QPS_SQD && !(mask & IBV_QP_PORT);
    uint32_t port = ah->port_num ? sv_port_row(q->device, ah->port_num) : SV_NO_PORT;

    return port != SV_NO_PORT && (moves || ah->port_num == portnum) && is_rate(ah->static_rate) &&
           !(ah->is_global && sv_port_gid(port, ah->grh.sgid_index, gid));
}

static bool is_alternate_path(struct ve_qp *q, const struct ibv_qp_attr *a)
{
    uint32_t port = a->alt_port_num ? sv_port_row(q->device, a->alt_port_num) : SV_NO_PORT;
    uint16_t pkey;

    /* Linux has no alternate paths over Ethernet. */
    return port != SV_NO_PORT && !sv_is_ethernet(&sv_shared_fabric, port) && a->alt_ah_attr.port_num == a->alt_port_num && a->alt_ah_attr.dlid &&
           is_rate(a->alt_ah_attr.static_rate) && !sv_port_pkey(port, a->alt_pkey_index, &pkey);
}

/* Check that the values of the attributes are possible. */
static int check(struct ve_qp *q, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to)
{
    uint32_t port = mask & IBV_QP_PORT ? sv_port_row(q->device, a->port_num) : q->s->port;
    uint16_t pkey;

    if (mask & IBV_QP_PORT && (!a->port_num || port == SV_NO_PORT))
        return EINVAL;
    if (mask & IBV_QP_PKEY_INDEX && sv_port_pkey(port, a->pkey_index, &pkey))
        return EINVAL;
    if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
        return EINVAL;
    if ((mask & IBV_QP_AV && !is_path(q, a, mask, to)) || (mask & IBV_QP_ALT_PATH && !is_alternate_path(q, a)))
        return EINVAL;
    if (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED &&
        (a->path_mig_state != IBV_MIG_REARM || !(mask & IBV_QP_ALT_PATH || q->s->alt_lid))) /* the hardware sets ARMED (17.2.8.1.1) */
        return EINVAL;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > 16) ||
        (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > 16))
        return EINVAL;
    if (mask & IBV_QP_AV)
        return sv_address_error(sv_port_row(q->device, a->ah_attr.port_num), a->ah_attr.is_global, a->ah_attr.grh.sgid_index,
                                a->ah_attr.grh.dgid.raw, a->ah_attr.dlid);
    return 0;
}

static void take_address(struct ve_qp *q, const struct ibv_qp_attr *a)
{
    const struct ibv_ah_attr *ah = &a->ah_attr;

    q->route.dlid = ah->dlid;
    q->route.sl = ah->sl & VE_SL_BITS;
    q->route.is_global = ah->is_global;
    memcpy(q->route.dgid, ah->grh.dgid.raw, 16);
    q->s->lid = ah->dlid;
    q->s->roce_v2 = sv_is_ethernet(&sv_shared_fabric, q->s->port) && sv_roce_is_v2(ah->grh.sgid_index);
    q->attr.ah_attr = ve_path_bits(ah);
}

/* mlx5 stores the logarithm. */
static uint8_t as_power_of_two(uint8_t n)
{
    uint8_t power = 1;

    while (power < n)
        power = (uint8_t)(2 * power);
    return power;
}

/* Copy the attributes in `mask`. */
static void take(struct ve_qp *q, const struct ibv_qp_attr *a, int mask)
{
    struct softib_qp *s = q->s;
    struct ibv_qp_attr *mine = &q->attr;
    bool moves = mask & IBV_QP_AV && q->state == IBV_QPS_SQD; /* in SQD the port follows the path */
    uint8_t port = mask & IBV_QP_PORT ? a->port_num : a->ah_attr.port_num;

    if (mask & IBV_QP_PORT || moves)
        s->port = sv_port_row(q->device, port), mine->port_num = port;
    if (mask & (IBV_QP_PORT | IBV_QP_PKEY_INDEX) || moves) {
        if (mask & IBV_QP_PKEY_INDEX)
            mine->pkey_index = s->pkey_index = a->pkey_index;
        sv_port_pkey(s->port, s->pkey_index, &s->pkey);
    }
    if (mask & IBV_QP_QKEY)
        mine->qkey = s->qkey = a->qkey;
    if (mask & IBV_QP_ACCESS_FLAGS)
        mine->qp_access_flags = s->access = a->qp_access_flags;
    if (mask & IBV_QP_AV)
        take_address(q, a);
    if (mask & IBV_QP_PATH_MTU)
        mine->path_mtu = a->path_mtu, q->route.mtu = (uint8_t)a->path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        mine->dest_qp_num = s->dest_qpn = a->dest_qp_num & 0xFFFFFF;
    if (mask & IBV_QP_RQ_PSN)
        mine->rq_psn = s->rq_psn = a->rq_psn & 0xFFFFFF;
    if (mask & IBV_QP_SQ_PSN)
        mine->sq_psn = q->sq_psn = a->sq_psn & 0xFFFFFF;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
        mine->max_dest_rd_atomic = as_power_of_two(s->dest_reads = a->max_dest_rd_atomic);
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
        mine->max_rd_atomic = as_power_of_two(a->max_rd_atomic);
    if (mask & IBV_QP_MIN_RNR_TIMER)
        mine->min_rnr_timer = s->min_rnr = a->min_rnr_timer & VE_TIMER_BITS;
    if (mask & IBV_QP_TIMEOUT)
        mine->timeout = q->timeout = a->timeout & VE_TIMER_BITS;
    if (mask & IBV_QP_RETRY_CNT)
        mine->retry_cnt = q->retry_cnt = a->retry_cnt & VE_RETRY_BITS;
    if (mask & IBV_QP_RNR_RETRY)
        mine->rnr_retry = q->rnr_retry = q->rnr_left = a->rnr_retry & VE_RETRY_BITS;
    if (mask & IBV_QP_ALT_PATH) {
        mine->alt_ah_attr = ve_path_bits(&a->alt_ah_attr);
        mine->alt_pkey_index = a->alt_pkey_index;
        mine->alt_port_num = a->alt_port_num;
        mine->alt_timeout = a->alt_timeout & VE_TIMER_BITS;
        s->alt_port = sv_port_row(q->device, a->alt_port_num);
        s->alt_lid = a->alt_ah_attr.dlid;
        s->alt_pkey_index = a->alt_pkey_index;
    }
    if (mask & IBV_QP_PATH_MIG_STATE) {
        if (a->path_mig_state == IBV_MIG_MIGRATED && s->mig == IBV_MIG_ARMED)
            ve_move(q->e, s);
        __atomic_store_n(&s->mig, (uint8_t)a->path_mig_state, __ATOMIC_RELAXED);
    }
}

/* Reset all state except completions that were not polled yet, which purge removes. */
static void reset(struct ve_qp *q)
{
    struct softib_qp *s = q->s;

    s->rq_head = s->rq_tail = s->rq_seen = 0;
    s->dest_qpn = s->rq_psn = s->established = 0;
    s->lid = s->alt_lid = 0;
    s->mig = IBV_MIG_MIGRATED;
    q->head = q->tail = 0;
    ve_sched_reset(q);
    ve_rndv_abort(q);
    q->waits = VE_NONE;
    q->early = q->executed = q->overran = false;
    ve_flows_drop(q);
    sv_flow_end(&q->flow);
    memset(&q->flow, 0, sizeof q->flow);
}

/* Purge the QP's completions. No lock of the QP is held here, because a poller may post between start_poll and
 * end_poll. No new completions appear, since the QP is in RESET. */
static void purge(struct ve_qp *q)
{
    if (q->send_cq)
        ve_purge(q->e, q->send_cq, q->s->qpn);
    if (q->s->recv_cq && q->s->recv_cq != q->send_cq)
        ve_purge(q->e, q->s->recv_cq, q->s->qpn);
    __atomic_store_n(&q->freed, q->completed, __ATOMIC_RELAXED);
    __atomic_store_n(&q->receives_freed, 0, __ATOMIC_RELAXED);
}

/* Responses carry the P_Key of the responder: that of a full member if its port has that entry (10.9.1.2,
 * 9.6.1.1.3). */
static uint16_t responders_pkey(uint32_t port, uint16_t pkey)
{
    uint16_t partition = pkey & SV_PKEY_PARTITION;

    return sv_port_has_pkey(&sv_shared_fabric, port, partition) ? partition | SV_PKEY_MEMBER : partition;
}

static int walk(struct ve_qp *q)
{
    struct softib_qp *s = q->s;
    struct sv_path path;
    uint32_t qp[2] = { s->qpn, s->dest_qpn };

    q->write_target.rkey = 0;
    sv_port_pkey(s->port, s->pkey_index, &s->pkey); /* the SM may have changed the table */
    q->route.port = s->port;
    q->route.dlid = sv_address_lid(s->port, q->route.dgid, q->route.dlid);
    q->route.pkey = s->pkey;
    q->route.transport = s->type == IBV_QPT_UC ? SV_TRANSPORT_UC : SV_TRANSPORT_RC;
    if (s->type == IBV_QPT_UC || sv_path_walk(&sv_shared_fabric, &q->route, &path) != SV_OK)
        return sv_flow_walk(&q->flow, &q->route, NULL, qp);
    q->return_route = q->route;
    q->return_route.port = path.dest;
    q->return_route.pkey = responders_pkey(path.dest, s->pkey);
    q->return_route.dlid = (uint16_t)(sv_lid(&sv_shared_fabric, s->port) | q->attr.ah_attr.src_path_bits);
    q->return_route.is_global = false;
    return sv_flow_walk(&q->flow, &q->route, &q->return_route, qp);
}

int ve_qp_walk(struct ve_qp *q)
{
    int error = walk(q);

    ve_flows_fit(q);
    return error;
}

/* Serve copies if the peer cannot access this process's memory itself. The senders of datagrams are unknown, so a UD QP
 * serves copies if any process could need it. */
static void serve_peer(struct ve_qp *q)
{
    struct vm_heap *w = &q->e->w;
    uint32_t number = q->s->type == IBV_QPT_UD ? 0 : q->s->dest_qpn, peer = 0;

    if (number < __atomic_load_n(&vm_head(w)->number_high, __ATOMIC_RELAXED))
        peer = vm_number_process(__atomic_load_n(vm_number(w, number), __ATOMIC_RELAXED));
    if (peer ? peer != w->process && !vp_copies(w, peer) : __atomic_load_n(&vm_head(w)->namespaces, __ATOMIC_RELAXED) != 0)
        vp_serve_begin(w);
}

static void after(struct ve_qp *q, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
    struct softib_event drained = { .type = IBV_EVENT_SQ_DRAINED, .element = (uintptr_t)&q->ex.qp_base };

    if ((to == IBV_QPS_RTR || to == IBV_QPS_RTS) && q->s->type != IBV_QPT_UD) {
        ve_flows_drop(q);
        ve_qp_walk(q);
    }
    if (to == IBV_QPS_RTR)
        serve_peer(q);
    if (to == IBV_QPS_RTS && q->head != q->tail)
        ve_list(q);
    if (to == IBV_QPS_SQD && mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify)
        ve_notify(q->e, q->e->w.process, q->s->async, &drained, sizeof drained);
}

void ve_catch_up(struct ve_qp *q)
{
    enum ibv_qp_state state = __atomic_load_n(&q->s->state, __ATOMIC_ACQUIRE);

    if (q->s->attr) {
        vm_lock(&q->e->w, &q->s->lock);
        q->attr = *(struct ibv_qp_attr *)vm_at(&q->e->w, q->s->attr);
        q->state = q->s->state;
        vm_unlock(&q->s->lock);
    } else if (state == IBV_QPS_ERR && q->state != IBV_QPS_ERR && q->state != IBV_QPS_RESET) {
        ve_follow(q);
    }
    ve_adopt(q);
}

int ve_modify(struct ve_qp *q, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state from, to;
    int error;

    if (mask & ~(STANDARD_ATTRIBUTES | IBV_QP_RATE_LIMIT))
        return EOPNOTSUPP;
    ve_spin_lock(&q->lock);
    ve_catch_up(q);
    from = q->state;
    to = mask & IBV_QP_STATE ? attr->qp_state : from;
    error = !allowed(q->s->type, from, to, mask) || (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from &&
                                                     !(from == IBV_QPS_SQE)) ? EINVAL : check(q, attr, mask, to);
    if (!error && to == IBV_QPS_ERR) {
        ve_break(q);
    } else if (!error) {
        vm_lock(&q->e->w, &q->s->lock);
        if (to != IBV_QPS_RESET && q->s->state == IBV_QPS_ERR) { /* a peer has just set the QP to ERR */
            error = EINVAL;
        } else {
            if (to == IBV_QPS_RESET)
                reset(q);
            take(q, attr, mask);
            if (q->s->attr)
                *(struct ibv_qp_attr *)vm_at(&q->e->w, q->s->attr) = q->attr;
            __atomic_store_n(&q->s->state, (uint8_t)to, __ATOMIC_RELEASE);
        }
        vm_unlock(&q->s->lock);
        if (error) {
            ve_follow(q);
        } else {
            q->state = to;
            ve_adopt(q);
            after(q, to, attr, mask);
        }
    }
    ve_spin_unlock(&q->lock);
    if (!error && to == IBV_QPS_RESET)
        purge(q);
    return error;
}
