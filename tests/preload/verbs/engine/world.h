/* Processes of the engine inside one: a world each, on port `row`. What abi/ does for applications, in short. */
#ifndef WORLD_H
#define WORLD_H

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

struct world {
    struct ve_engine e;
    struct sv_device device;
};

struct cq {
    struct world *w;
    uint64_t at;
};

struct srq {
    struct world *w;
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

void world_open(struct world *w, const char *folder, uint32_t number, uint32_t row);
void world_close(struct world *w);
struct cq world_cq(struct world *w, uint32_t size);
struct srq world_srq(struct world *w, uint32_t size, uint32_t xrcd, const struct cq *cq);
uint32_t world_mr(struct world *w, void *address, uint64_t length, uint32_t access, uint32_t domain);
void world_dereg(struct world *w, uint32_t key);
struct ve_qp *world_qp(struct world *w, enum ibv_qp_type type, const struct cq *send, const struct cq *recv,
                       const struct srq *srq, uint32_t depth, uint32_t xrcd);
void world_destroy(struct ve_qp *q);
int world_init(struct ve_qp *q, uint32_t access);
int world_rtr(struct ve_qp *q, uint32_t dest, uint16_t dlid, const struct options *o);
int world_rts(struct ve_qp *q, const struct options *o);
/* Both to RTS. */
void world_connect(struct ve_qp *a, struct ve_qp *b, const struct options *o);
void world_datagrams(struct ve_qp *q);
int world_recv(struct ve_qp *q, uint64_t id, void *to, uint32_t length, uint32_t lkey);
int world_srq_recv(struct srq *s, uint64_t id, void *to, uint32_t length, uint32_t lkey);
int world_post(struct ve_qp *q, const struct ve_wr *wr);
/* The next completion: true; false when none came in `ms`. */
bool world_poll(const struct cq *c, struct softib_cqe *cqe, int ms);
enum ibv_qp_state world_state(struct ve_qp *q);

static inline struct softib_cqe world_next(const struct cq *c)
{
    struct softib_cqe cqe;

    MUST(world_poll(c, &cqe, 20000));
    return cqe;
}

#endif
