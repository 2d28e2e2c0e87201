/* What sq_sched.c, pace.c and strict.c share. */
#ifndef SOFTIB_VERBS_SQ_SCHED_INTERNAL_H
#define SOFTIB_VERBS_SQ_SCHED_INTERNAL_H

#include "../queue_pair/qp.h"

struct ve_when {                /* of a request in the send queue, ns */
    uint64_t posted;
    uint64_t run;               /* its data is there; a READ: its request is */
    uint64_t done;              /* its completion is */
    uint64_t latest;            /* strict */
    uint64_t octets;            /* that are copied */
    uint32_t polls;             /* strict: executed by this poll */
};

struct ve_held {
    uint64_t ns;
    struct softib_cqe cqe;
};

struct ve_sq_sched {
    struct ve_when *when;       /* as `slots` */
    struct ve_held *held;       /* completions, max_send of them */
    uint32_t held_head, held_tail;
    uint64_t last_run, last_read; /* the latest of those before: executed; READs completed */
    uint64_t done, octets;      /* of the request that is executed just now */
    double base_ns, byte_ns;   /* what execution takes here: a request, a byte more */
    struct sv_timed_path paths[2];  /* there and back */
    uint64_t epoch;
    uint16_t dlid;              /* that they lead to */
    uint8_t sl;
    bool laid;
    uint32_t unsignalled;       /* strict: requests since the last that asked for a completion */
    uint64_t not_ready_since;   /* strict: the head has found no receive since */
    uint32_t not_ready_head;
};

/* pace.c: when `wr` arrives, and when it is completed; fills `when`. */
void ve_pace(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr, struct ve_when *when);

/* strict.c */
void ve_strict_begin(void);
/* The next of the numbers that SOFTIB_STRICT_SEED begins. Any thread. */
uint32_t ve_strict_roll(void);

#endif
