/* Several processes of the engine inside one: a rig each, on port `row`. It does in short what abi/ does for applications. */
#ifndef RIG_H
#define RIG_H

#include "qp.h"

#include <stdio.h>
#include <stdlib.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                                             \
            abort();                                                                                                         \
        }                                                                                                                    \
    } while (0)

#define DOMAIN 1
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct rig {
    struct ve_engine e;
    struct sv_device device;
};

struct cq {
    struct rig *w;
    uint64_t at;
};

struct srq {
    struct rig *w;
    struct softib_srq *s;
    uint64_t at;
    pthread_mutex_t lock;
};

struct options {
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr;
    uint32_t psn;
    uint32_t access;
    uint8_t no_reads;
};

extern uint32_t stub_qkeys, stub_pkeys, stub_packets;
void stub_cut(bool yes);
extern double stub_loss[2]; /* of a packet there and back, as an exponent: lost with 1 - exp(-it) */

void rig_open(struct rig *w, const char *folder, uint32_t number, uint32_t row);
void rig_close(struct rig *w);
struct cq rig_cq(struct rig *w, uint32_t size);
struct srq rig_srq(struct rig *w, uint32_t size, uint32_t xrcd, const struct cq *cq);
uint32_t rig_mr(struct rig *w, void *address, uint64_t length, uint32_t access, uint32_t domain);
void rig_dereg(struct rig *w, uint32_t key);
struct ve_qp *rig_qp(struct rig *w, enum ibv_qp_type type, const struct cq *send, const struct cq *recv,
                       const struct srq *srq, uint32_t depth, uint32_t xrcd);
void rig_destroy(struct ve_qp *q);
int rig_init(struct ve_qp *q, uint32_t access);
int rig_rtr(struct ve_qp *q, uint32_t dest, uint16_t dlid, const struct options *o);
int rig_rts(struct ve_qp *q, const struct options *o);
/* Both to RTS. */
void rig_connect(struct ve_qp *a, struct ve_qp *b, const struct options *o);
void rig_datagrams(struct ve_qp *q);
int rig_recv(struct ve_qp *q, uint64_t id, void *to, uint32_t length, uint32_t lkey);
int rig_srq_recv(struct srq *s, uint64_t id, void *to, uint32_t length, uint32_t lkey);
int rig_post(struct ve_qp *q, const struct ve_wr *wr);
/* The next completion: true; false when none came in `ms`. */
bool rig_poll(const struct cq *c, struct softib_cqe *cqe, int ms);
enum ibv_qp_state rig_state(struct ve_qp *q);

static inline struct softib_cqe rig_next(const struct cq *c)
{
    struct softib_cqe cqe;

    MUST(rig_poll(c, &cqe, 20000));
    return cqe;
}

#endif
