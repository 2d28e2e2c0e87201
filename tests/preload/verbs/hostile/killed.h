/* What the two sides of killed.c share, round by round. */
#ifndef KILLED_H
#define KILLED_H

#include "peers.h"

#define BUFFER (1 << 20)
#define OUTSTANDING 8

enum kind { WRITES, READS, SENDS, ATOMICS, MIXED, PASSIVE, UNRELIABLE, DATAGRAMS, BY_CM, KINDS };

struct round {
    uint32_t kind, size, timeout, retry_cnt, seed;
};

struct place {              /* of one side */
    uint32_t state;         /* 0, then 1: its QP is there, 2: it sends */
    uint32_t qpn, lid, rkey, ip;
    uint64_t address, moved, ended_ns;
    int32_t pid, exit;      /* exit: of the last child, -1 while it runs */
    uint32_t forked;        /* round */
};

struct shared {
    struct round round;
    uint32_t number, over;  /* round under way; 0: none */
    uint32_t dead;          /* the victim is killed */
    uint64_t killed_ns, reported_ns, limit_ns;
    uint64_t starved_ns;    /* without a processor in between: who kills, and who is told */
    struct place place[2];
};

/* One side's life in a round; returns its exit code. Dies in between where it is the victim. */
int by_cm(struct shared *s, int side);
/* Posts one request of the round's kind. */
void post_one(struct shared *s, struct host *h, struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_ah *ah,
              const struct place *peer, uint64_t *random);

#endif
