/* A queue pair of this process: its send side, and the application's view. The receiving half is
 * shared: softib_qp. */
#ifndef SOFTIB_VERBS_ENGINE_QP_H
#define SOFTIB_VERBS_ENGINE_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "../engine.h"
#include "../outcome.h"
#include "../scheduling/spin.h"
#include "../work_request.h"
#include "../../fabric/fabric.h"

struct ve_write_target {            /* write_fastpath.c: target of the last write */
    uint32_t rkey;                  /* R_Key of the last write; 0: none */
    uint32_t domain, qpn, mtu;
    uint64_t version;               /* version of the key */
    uint64_t named;                 /* the responder's entry in the table of numbers */
    uint64_t epoch;                 /* epoch of the flow */
    uint64_t from, length;          /* mapped range, in remote addresses */
    char *here;                     /* the address of `from` in this process */
    uint64_t request, answer;       /* dwords on the wire, without payload */
};

struct ve_qp {
    struct ibv_qp_ex ex;            /* first: the application's pointer */
    struct ve_engine *e;
    struct softib_qp *s;
    uint64_t at;                    /* offset of `s` in the heap */
    const struct sv_device *device;
    struct ve_spin lock;            /* of the sending half */
    struct sv_flow flow;
    struct sv_route_key route, return_route;
    struct sv_flow *flows;          /* flows of the QP's other paths (flows.h); NULL: the QP has one path */
    uint16_t flows_n;
    uint64_t send_cq;
    uint32_t sq_psn;
    uint32_t max_send, max_sges, max_inline, max_recv;
    struct ve_slot *slots;
    uint32_t head, tail;            /* pending requests */
    uint32_t completed;             /* number of requests completed so far */
    uint32_t freed;                 /* number of requests whose WQEs are free again, because their completion or a
                                     * later one was polled */
    uint32_t receives_freed;        /* number of receives so far whose completion was polled */
    uint8_t timeout, retry_cnt, rnr_retry, rnr_left;
    uint8_t waits;                  /* enum ve_wait: the reason why the first pending request waits */
    bool completed_first;           /* the completion of the current request was written before that of the receive */
    bool overran;                   /* send_cq has overrun, and a completion is lost */
    bool early;                     /* retry the head of the queue early, because a receive was posted, or the
                                     * program polls */
    bool listed;                    /* in e->waiting */
    uint8_t state;                  /* enum ibv_qp_state of the sending half; the application's `state` changes only in modify and
                                     * query */
    struct ve_qp *next;
    uint64_t deadline_ns, next_ns;
    uint64_t tried_ns;              /* VE_RNR: time of the last attempt without a receive */
    uint64_t looked_ns;             /* VE_RNR: time of the last check that the responder is alive */
    bool corrupted;                 /* VE_LOST because of a bit error */
    uint8_t resends;                /* number of resends because of bit errors */
    struct ibv_qp_attr attr;        /* as last modified, for query */
    struct ibv_qp_init_attr init;
    void *builder;                  /* state of ibv_wr_* (abi/wr_builder.c) */
    uint64_t rng_state;             /* loss.c */
    bool executed;                  /* the first pending request was executed, and its ACK was lost; the next fields
                                     * hold the contents of that ACK */
    struct sv_wire_size sent, answer;
    uint32_t answer_len;
    uint16_t moves;                 /* number of path migrations (s->moves) already applied to `attr`, `route` */
    struct ve_sq_sched *sched;           /* sq_sched.c; NULL: nothing was ever deferred */
    uint32_t events;                /* asynchronous events fetched but not acknowledged */
    struct ve_sge_bounce *sge_bounce; /* sge_bounce.c: buffer of the current request */
    struct ve_rendezvous *rendezvous;           /* tag matching: unfinished rendezvous of the responder */
    uint8_t owns;                   /* 0: a handle for another process's QP (XRC open_qp) */
    struct ve_qp *next_of_process, *previous_of_process; /* of e->qps */
    uint32_t in_qps;                       /* e->qps_begun when it was inserted; 0: not in the list */
    struct ve_write_target write_target;
};

#endif
