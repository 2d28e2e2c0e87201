/* Two programs of a test that meet in a file: what each makes of verbs, and what it tells the other. */
#ifndef PEERS_H
#define PEERS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s (errno %m)\n", __FILE__, __LINE__, #what);                                  \
            abort();                                                                                                         \
        }                                                                                                                    \
    } while (0)

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define QKEY 0x11u

struct host {               /* a program's first device and port */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_port_attr port;
};

struct link {               /* how a QP is connected */
    uint32_t qpn;
    uint16_t lid;
    uint16_t pkey_index;
    uint8_t timeout, retry_cnt, rnr_retry;
    uint32_t psn;
};

struct host host_open(void);
/* Index of the P_Key with just this value. */
uint16_t host_pkey(const struct host *h, uint16_t pkey);
struct ibv_qp *host_qp(const struct host *h, enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq, uint32_t depth);
int to_init(struct ibv_qp *qp, uint16_t pkey_index);
int to_rtr(struct ibv_qp *qp, const struct link *l);
int to_rts(struct ibv_qp *qp, const struct link *l);
void to_reset(struct ibv_qp *qp);
/* From RESET to RTS; datagrams need no peer. */
void connect_qp(struct ibv_qp *qp, const struct link *l);
void post_receive(struct ibv_qp *qp, uint64_t id, void *to, uint32_t length, uint32_t lkey);
/* The next completion within `ms`: 1, or 0. */
int await(struct ibv_cq *cq, struct ibv_wc *wc, int ms);

/* A file that both map; made where it is not. */
void *meet(const char *path, size_t octets);
/* Waits until `*flag` is `value`, a minute at most. */
void wait_for(const uint32_t *flag, uint32_t value);
void set_flag(uint32_t *flag, uint32_t value);
uint64_t now_ns(void);
/* Time that this thread was ready to run and had no processor (/proc/thread-self/schedstat), ns. */
uint64_t starved_ns(void);
/* xorshift64* (Vigna, 2016). */
uint64_t next_random(uint64_t *state);

#endif
