/* What tries.c does and what random_requests_oracle.c knows of it. */
#ifndef TRIES_H
#define TRIES_H

#include "qp.h"
#include "rig.h"

#define ARENA 4096      /* octets of a world's memory that can be touched at all */
#define KEYS 48
#define PAIRS 20

struct arena {
    char *at;
};

struct key {            /* what was registered; never read back from the library */
    unsigned rig;
    uint32_t key, removed; /* 0: it is not registered; `removed` was its name before */
    uint64_t at, iova, length;
    unsigned access;
    uint32_t domain;
    bool window;        /* opens nothing to its owner's own requests (10.6.7.2) */
    uint32_t qpn;       /* a window of type 2: of the only QP that may use it */
};

struct pair {           /* a pair of QPs: `a` asks, `b` answers */
    unsigned wa, wb;    /* worlds */
    enum ibv_qp_type type;
    uint32_t domain;
    unsigned access;    /* that `b` grants */
    uint8_t no_reads;
    struct cq send, recv;
    struct ve_qp *a, *b;
    uint32_t received;
};

struct try {
    struct ve_wr wr;
    struct ibv_sge sge[2];
    bool atomic, posted, strange;
    struct ibv_sge receive;
};

struct verdict {
    enum ibv_wc_status status;
    bool refused, by_key;
    bool loose[2];      /* source and destination overlap: what is in [at, at + n) of the world then is not defined */
    unsigned rig;
    long at[2], n[2];
};

/* What must come of `t`: the requester's status; `shadow` is changed where memory may change. */
struct verdict oracle(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                      char shadow[2][ARENA]);

#endif
