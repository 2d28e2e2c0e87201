/*
 * Transports: what post_send does. The initiator executes (docs/decisions/0008): it checks what the responder would check,
 * copies once and writes the completions of both sides. A struct ve_engine is one process's.
 */
#ifndef SOFTIB_VERBS_ENGINE_H
#define SOFTIB_VERBS_ENGINE_H

#include "../memory/memory.h"

#include <infiniband/verbs.h>
#include <string.h>
#include <sys/uio.h>

#include "../fabric/fabric.h"
#include "sq_sched.h"
#include "spin.h"
#include "strict.h"

#define VE_SGES 32      /* of one request */
#define VE_INLINE 1024

struct ve_engine {
    struct vm_heap w;
    pthread_mutex_t lock;           /* of `waiting` */
    struct ve_qp *waiting;          /* QPs with work that waits */
    bool timer_runs;
    bool stop;
    pthread_t timer;
    uint64_t due_ns, polled_ns, awake_ns; /* sq_sched.c: nothing is due before; somebody polled; the timer thread wakes up */
    uint32_t polls;
    pthread_mutex_t own_lock;       /* of `own` */
    struct ve_qp *own;              /* quiesce.c: QPs that may be copying */
    struct ve_tagged_srq *tagged;   /* tm_rndv_log.c: SRQs with lists of tags; `lock` */
};

struct ve_context; /* abi.h */

struct ve_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr attr;
    uint32_t port;
    pthread_mutex_t lock;
    struct sv_flow flow;
    struct sv_tree tree;
    uint16_t pkey;                  /* that the flow was walked with */
    uint32_t qp[2];
};

/* A send request, taken over from the application. */
struct ve_wr {
    uint64_t wr_id;
    uint32_t opcode, flags;         /* enum ibv_wr_opcode, enum ibv_send_flags */
    uint32_t imm;                   /* or the key to invalidate */
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

struct ve_slot {                    /* a request that waits, with what it points to */
    struct ve_wr wr;
    struct ibv_sge *sge;
    char *data;
};

struct ve_write_target {                   /* write_fastpath.c: where the last write went */
    uint32_t rkey;                  /* 0: nowhere that is remembered */
    uint32_t domain, qpn, mtu;
    uint64_t version;               /* of the key */
    uint64_t named;                 /* the responder, as in the table of numbers */
    uint64_t epoch;                 /* of the flow */
    uint64_t from, length;          /* what is mapped, by remote addresses */
    char *here;                     /* `from`, in this process */
    uint64_t request, answer;       /* words on the wire, without payload */
};

struct ve_qp {
    struct ibv_qp_ex ex;            /* first: the application's pointer */
    struct ve_engine *e;
    struct softib_qp *s;
    uint64_t at;                    /* of s */
    const struct sv_device *device;
    struct ve_spin lock;            /* of the sending half */
    struct sv_flow flow;
    struct sv_route_key way, back;
    uint64_t send_cq;
    uint32_t sq_psn;
    uint32_t max_send, max_sges, max_inline, max_recv;
    struct ve_slot *slots;
    uint32_t head, tail;            /* requests that wait */
    uint32_t completed;             /* requests so far */
    uint32_t freed;                 /* of them, those whose places are free again: their completion, or one behind it, was polled */
    uint8_t timeout, retry_cnt, rnr_retry, rnr_left;
    uint8_t waits;                  /* enum ve_wait of the first of them */
    bool early;                     /* it is tried again before its time: a receive was posted, or somebody polls */
    bool listed;                    /* in e->waiting */
    uint8_t state;                  /* enum ibv_qp_state of the sending half; the application's `state` moves in modify and query only */
    struct ve_qp *next;
    uint64_t deadline_ns, next_ns;
    uint64_t tried_ns;              /* VE_RNR: when it last found no receive */
    uint64_t looked_ns;             /* VE_RNR: when it was last looked whether the responder lives */
    bool corrupted;                   /* VE_LOST: by a bit error */
    uint8_t resends;                /* for that reason */
    struct ibv_qp_attr attr;        /* as last modified, for query */
    struct ibv_qp_init_attr init;
    void *builder;                  /* of ibv_wr_*; abi/ */
    uint64_t rng_state;                  /* loss.c */
    bool executed;                  /* the first that waits: its ACK was lost, not the request; what the ACK would say: */
    struct sv_wire_size sent, answer;
    uint32_t answer_len;
    uint16_t moves;                 /* of s->moves, those that `attr` and `way` know */
    struct ve_late *late;           /* sq_sched.c; NULL: nothing was ever late */
    uint32_t events;                /* asynchronous ones that were fetched and not acknowledged yet */
    struct ve_sge_bounce *foreign;     /* sge_bounce.c: of the request in hand */
    struct ve_owed *owed;           /* tag matching: rendezvous that the responder is in the middle of */
    uint8_t owns;                   /* 0: a handle of another's QP (XRC open_qp) */
    struct ve_qp *own_next;         /* of e->own */
    struct ve_write_target write_target;
};

enum ve_wait { VE_NONE, VE_RNR, VE_LOST };

/* What became of a request. */
struct ve_outcome {
    enum ve_wait wait;
    enum ibv_wc_status status;
    uint32_t byte_len;
    uint8_t rnr_timer;              /* VE_RNR: the responder's code */
    bool corrupted;                   /* VE_LOST: a bit error; the timer must expire first */
};

static inline struct ve_outcome ve_done(enum ibv_wc_status status)
{
    return (struct ve_outcome){ .status = status };
}

/* The completion of a request leads back to its QP, in whose process it is polled. */
static inline void ve_sq_mark(struct softib_cqe *cqe, struct ve_qp *q)
{
    cqe->imm = q->completed;
    memcpy((char *)cqe + offsetof(struct softib_cqe, sl), &q, sizeof q);
}

/* Requests that wait, and those whose completion was not polled yet. */
static inline uint32_t ve_sq_used(const struct ve_qp *q)
{
    return q->completed + (q->tail - q->head) - __atomic_load_n(&q->freed, __ATOMIC_RELAXED);
}

/* It is polled: its place in the send queue is free, and those of all before it (IBA 10.8.5.1). The CQ's `polling` is held. */
static inline void ve_sq_free(const struct softib_cqe *cqe)
{
    struct ve_qp *q;

    if (cqe->opcode & IBV_WC_RECV)
        return;
    memcpy(&q, (const char *)cqe + offsetof(struct softib_cqe, sl), sizeof q);
    __atomic_store_n(&q->freed, cqe->imm, __ATOMIC_RELAXED);
}

static inline struct softib_cq *ve_cq(struct ve_engine *e, uint64_t at)
{
    return vm_at(&e->w, at);
}

/* What `turn` says in completion number `at`. */
static inline uint32_t ve_cqe_seq(uint32_t at)
{
    return (at + 1) | SOFTIB_CQE_THERE;
}

uint64_t ve_now_ns(void);

/* -- copy.c -- */

struct ve_part { /* of a process's memory */
    uint64_t address;               /* there */
    char *here;                     /* the same, in this process; NULL where it is not mapped */
    uint64_t length;
    uint32_t process;               /* whose: another than asked for where the key was imported */
    uint32_t key;                   /* imported, so nobody holds its owner yet; 0: not so */
    uint64_t version;               /* of that key */
};

/* Copies between memory of this process and parts of `process`. 0, -EFAULT, -ESRCH, -EPERM. */
int ve_put(struct ve_engine *e, uint32_t process, const struct ve_part *to, unsigned to_n, const struct iovec *from,
           unsigned from_n);
int ve_get(struct ve_engine *e, uint32_t process, const struct ve_part *from, unsigned from_n, const struct iovec *to,
           unsigned to_n);
/* Placement: ascending, the last 8 octets by one release store. */
void ve_place(char *to, const char *from, uint64_t n);

/* -- keys.c -- */

/*
 * Memory behind `key` of `process`: [address, address + length) with every right of `access`, in `domain`. Windows of type 2
 * only for the responder's QP `qpn`; no windows at all for the process's own requests and receives (`qpn` 0). False where
 * it is not so.
 */
bool ve_resolve(struct ve_engine *e, uint32_t key, uint64_t address, uint64_t length, unsigned access, uint32_t domain,
                uint32_t process, uint32_t qpn, struct ve_part *part);
/* Does the imported key of `part` still open it? Its owner is held from now on, until vm_hazard_end(*hazard); false: it is not. */
bool ve_hold_part(struct ve_engine *e, const struct ve_part *part, uint64_t **hazard);
/* Binds `mw` as `info` says (SQ, or ibv_bind_mw); `key` is what it will have. */
enum ibv_wc_status ve_bind(struct ve_qp *q, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info);
/* LOCAL_INV, SEND_WITH_INV: the window of type 2 with `key` is unbound. */
bool ve_invalidate(struct ve_engine *e, uint32_t key, uint32_t process, uint32_t domain, uint32_t qpn);

/* -- events.c -- */

/* An asynchronous event of an object of `process` (possibly another's), whose objects are held. */
void ve_event(struct ve_engine *e, uint32_t process, uint32_t socket, uint32_t type, uint64_t element);
/* From now on events of this process that find their socket full wait; false: no memory, they are lost. */
bool ve_events_open(struct ve_engine *e);
/* This process has read from `socket`: what waits for room there follows. */
void ve_events_read(struct ve_engine *e, uint32_t socket);
/* Nobody will read what waits for `socket`. */
void ve_events_closed(struct ve_engine *e, uint32_t socket);

/* -- complete.c -- */

/* Who adds, or looks at those that are there, has the lock. It may have been taken from one who was killed while adding. */
void ve_lock_cq(struct ve_engine *e, struct softib_cq *cq);
/* The next completion; NULL: there is none. `polling` is held. */
static inline const struct softib_cqe *ve_next_completion(struct ve_engine *e, const struct softib_cq *cq)
{
    const struct softib_cqe *ring = vm_at(&e->w, cq->ring), *cqe = &ring[cq->consumer & (cq->size - 1)];

    return __atomic_load_n(&cqe->seq, __ATOMIC_ACQUIRE) == ve_cqe_seq(cq->consumer) ? cqe : NULL;
}
/* Adds a completion; an overrun is the CQ's end. */
void ve_complete(struct ve_engine *e, uint64_t cq, const struct softib_cqe *cqe, bool solicited);
/* A completion will be added: its place is fetched from the processor that read it last, while something else goes on. */
void ve_complete_soon(struct ve_engine *e, uint64_t cq);
/* A datagram to socket `number` of `process`. False: the socket is full; one that is gone takes everything. */
bool ve_notify(struct ve_engine *e, uint32_t process, uint32_t number, const void *message, size_t octets);
/* A datagram for an event of `cq` that is pending: now, or when its owner has made room by reading (ve_owes_notification). */
void ve_notify_channel(struct ve_engine *e, struct softib_cq *cq);
/* An event of `cq` has no datagram, and it is the caller's now to send one. */
bool ve_owes_notification(struct softib_cq *cq);
/* Completions of `qpn` in `cq` do not exist any more, and nobody is polling one. No lock of a QP is held. */
void ve_purge(struct ve_engine *e, uint64_t cq, uint32_t qpn);

/* -- receive.c: the responder's half, done by the initiator; `peer` is locked -- */

/* The next receive of `peer`, looked at but not taken. NULL: there is none. */
struct softib_receive *ve_next_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq);
/* Takes it and completes it as `cqe` says. */
void ve_take_receive(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq, struct softib_cqe *cqe,
                     bool solicited);
/* Its buffer as parts, as far as `length` octets reach: an HCA looks at no key of what it does not write to. False: a key is wrong. */
bool ve_receive_parts(struct ve_engine *e, struct softib_qp *peer, struct softib_srq *srq,
                      const struct softib_receive *receive, uint64_t length, struct ve_part *parts, uint64_t *room);
/* The receiving half goes to ERR: what was posted is flushed. */
void ve_break_receiver(struct ve_engine *e, struct softib_qp *peer);
struct softib_srq *ve_srq_of(struct ve_engine *e, const struct softib_qp *peer);

/* -- tag_matching.c: tag matching at the responder; the SRQ is locked -- */

enum ve_tagged { VE_NO_TAG, VE_UNEXPECTED, VE_MATCHED };

/* The entry with the sges of `receive` words behind: what ve_receive_parts takes. */
struct softib_tag *ve_tag_entry(struct ve_engine *e, const struct softib_tags *tags, uint32_t place);
/*
 * A message of `iov` reaches the list of `srq`. MATCHED: it was delivered, or refused, and `outcome` says so. Else it is for
 * an ordinary receive.
 */
enum ve_tagged ve_match(struct ve_qp *q, const struct ve_wr *wr, struct softib_qp *peer, struct softib_srq *srq,
                        const struct iovec *iov, unsigned n, uint64_t length, struct ve_outcome *outcome);
/* An unexpected message is about to take the next receive. */
void ve_unexpected(struct ve_engine *e, struct softib_srq *srq);
/* How many have, modulo 2^16. */
uint16_t ve_unexpected_n(struct ve_engine *e, struct softib_srq *srq);

/* -- tm_rendezvous.c: what the responder of a matched rendezvous does, done by the requester; `q->lock` is held -- */

/* The data of `header` will be fetched to the buffer of `entry`, which `peer` takes from `srq`'s list. ENOMEM. */
int ve_rndv_begin(struct ve_qp *q, const struct softib_qp *peer, struct softib_srq *srq, const struct softib_tag *entry,
           const char header[32]);
/* Fetches, answers with FIN and completes, as far as it can go now. */
void ve_rndv_fetch(struct ve_qp *q);
/* The connection ended before: what is open is completed as incomplete. */
void ve_rndv_abort(struct ve_qp *q);

/* -- tm_rndv_log.c: what remains of a rendezvous when its sender is killed -- */

/* A record of `what` (but its owner); NULL: there is no room. */
struct softib_rndv_record *ve_rndv_log_open(struct ve_engine *e, const struct softib_srq *srq, const struct softib_rndv_record *what);
/* It will be completed now, and then closed. Nothing happens without a record. */
void ve_rndv_log_settling(struct ve_engine *e, const struct softib_srq *srq, struct softib_rndv_record *owed);
void ve_rndv_log_close(struct softib_rndv_record *owed);
/* Completes what the dead owe to this process; true: the living owe some. `e->lock` is held. */
bool ve_rndv_log_look(struct ve_engine *e);
/* An SRQ of this process has a list of tags; the timer thread looks after it. ENOMEM. */
int ve_tagged_begin(struct ve_engine *e, uint64_t srq);
void ve_tagged_end(struct ve_engine *e, uint64_t srq);

/* -- loss.c: bit errors -- */

enum ve_arrival { VE_ARRIVED, VE_TIMES_OUT };

/* Most ways have none. */
static inline bool ve_may_lose(const struct sv_flow *flow, unsigned way)
{
    return flow->loss[way][0] != 0 || flow->loss[way][1] != 0;
}

/* Is one of the packets lost for good (UC, UD)? */
bool ve_corrupted(struct ve_qp *q, const struct sv_flow *flow, unsigned way, struct sv_wire_size words);
/* RC: sends what is lost again, and counts it. */
enum ve_arrival ve_deliver_packets(struct ve_qp *q, unsigned way, struct sv_wire_size words);

/*
 * A request was executed: `answer` goes back, and may be lost. Then the requester's timer expires, and ve_resend sends the
 * request again: the responder sees by its PSN that it is a duplicate, does not execute it again, and answers as before
 * (9.7.5.1.1; atomics from what it remembers).
 */
struct ve_outcome ve_answer(struct ve_qp *q, struct ve_outcome outcome, struct sv_wire_size sent, struct sv_wire_size answer);
struct ve_outcome ve_resend(struct ve_qp *q);

/* -- request.c, datagram.c: one request -- */

struct ve_outcome ve_request(struct ve_qp *q, const struct ve_wr *wr);
struct ve_outcome ve_datagram(struct ve_qp *q, const struct ve_wr *wr);
/* Local memory of a request. LOC_PROT_ERR where a key is wrong. */
enum ibv_wc_status ve_gather(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length);

/* -- sge_bounce.c: local memory that is another process's and not mapped here -- */

enum ibv_wc_status ve_bounce_in(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length);
enum ibv_wc_status ve_bounce_out(struct ve_qp *q, bool changed);

/* -- quiesce.c: local memory that requests of this process copy from and to -- */

extern bool ve_fences;

/* Before the first QP, and in a forked child. */
void ve_quiesce_begin(struct ve_engine *e);
void ve_quiesce_add(struct ve_qp *q);
void ve_quiesce_drop(struct ve_qp *q);
/*
 * Returns when nobody, of this process or another, uses any more what was taken out of reach before the call. Not for who
 * executes a request: vm_quiesce.
 */
void ve_quiesce(struct ve_engine *e);
/* The same for what was `process`'s, another one: an imported region. Its own requests are waited for, too. */
void ve_quiesce_of(struct ve_engine *e, uint32_t process);

/* Between the two keys may be looked at and memory copied. `q->lock` is held. */
static inline void ve_copies_begin(struct ve_qp *q)
{
    __atomic_store_n(&q->s->copies, q->s->copies + 1, __ATOMIC_RELAXED);
    if (__builtin_expect(ve_fences, false))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the rest is done by who waits */
}

static inline void ve_copies_end(struct ve_qp *q)
{
    __atomic_store_n(&q->s->copies, q->s->copies + 1, __ATOMIC_RELEASE);
}

/* -- write_fastpath.c: small writes to where the last one went -- */

bool ve_write_fast(struct ve_qp *q, const struct ve_wr *wr);
static inline bool ve_is_write_fast(const struct ve_qp *q, const struct ve_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE && wr->flags & IBV_SEND_INLINE && wr->sges == 1 && q->write_target.rkey && wr->rkey == q->write_target.rkey;
}

/* -- migrate.c: alternate paths -- */

/* `s` migrates; it is locked. */
void ve_move(struct ve_engine *e, struct softib_qp *s);
/* What moved in the shared part is taken over. `q->lock` is held. */
void ve_adopt(struct ve_qp *q);
/* Retries are spent: false where there is no armed alternate path. `q->lock` is held. */
bool ve_migrate(struct ve_qp *q);
/* A request of `q` reaches `peer`, which is locked, and one of them has to do with migration. False: it is dropped. */
bool ve_migration(struct ve_qp *q, struct softib_qp *peer);

/* -- send.c -- */

/* Takes a request over. 0, ENOMEM (queue full), EINVAL. `q->lock` is held. */
int ve_post(struct ve_qp *q, const struct ve_wr *wr);
/* Goes on with what waits. `q->lock` is held. */
void ve_go_on(struct ve_qp *q, uint64_t now_ns, bool woken);
/* The whole QP goes to ERR. `q->lock` is held. */
void ve_break(struct ve_qp *q);
/* The responder's half went to ERR: the sending half follows. `q->lock` is held. */
void ve_follow(struct ve_qp *q);

/* -- timer.c -- */

/* The timer's thread runs. `e->lock` is held. */
void ve_timer_begin(struct ve_engine *e);
void ve_list(struct ve_qp *q);
void ve_unlist(struct ve_qp *q);
/* Goes on with all work that is due; called by poll_cq. */
void ve_progress(struct ve_engine *e);

/* -- members.c: multicast -- */

/* A free place gets a member; the file's member lock is held. It leaves when `qpn` becomes 0. */
void ve_write_member(struct softib_member *at, const struct softib_member *member);
/* False: there is none, or it is changing just now. */
bool ve_read_member(struct softib_member *at, struct softib_member *member);

/* -- modify.c -- */

/* What a change of state takes; false: there is no such change. */
bool ve_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int *required, int *optional);
/* An XRC target may have been modified in another process. `q->lock` is held. */
void ve_catch_up(struct ve_qp *q);
int ve_modify(struct ve_qp *q, const struct ibv_qp_attr *attr, int mask);
int ve_qp_walk(struct ve_qp *q);

#endif
