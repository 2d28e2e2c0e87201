/* Declarations shared by sq_sched.c, pace.c and strict.c. */
#ifndef SOFTIB_VERBS_SQ_SCHED_INTERNAL_H
#define SOFTIB_VERBS_SQ_SCHED_INTERNAL_H

#include "../queue_pair/qp.h"

struct ve_when {                /* times of a request in the send queue, in ns */
    uint64_t posted;
    uint64_t run;               /* arrival of its data; of a READ: of its request */
    uint64_t done;              /* arrival of its completion */
    uint64_t latest;            /* strict: latest time of execution */
    uint64_t octets;            /* bytes to copy */
    uint32_t polls;             /* strict: count of polls (ve_engine.polls) at which it is executed at the latest */
    uint16_t path_number;               /* number of its path, where switches route adaptively */
};

struct ve_held {
    uint64_t ns;
    struct softib_cqe cqe;
};

struct ve_round_trip {
    struct sv_timed_path there, back;
};

struct ve_sq_sched {
    struct ve_when *when;       /* an entry for each entry of `slots` */
    struct ve_held *held;       /* completions, max_send of them */
    uint32_t held_head, held_tail;
    uint64_t last_run, last_read; /* of earlier requests: the latest execution, and the latest completion of a READ */
    uint64_t done, octets;      /* current request: arrival of its completion, bytes to copy */
    double base_ns, byte_ns;   /* measured cost of execution: per request, per byte */
    struct ve_round_trip *trips;  /* the paths among which adaptive routing chooses; NULL: not looked up yet */
    uint16_t trips_n, laid_n;    /* entries of `trips`; those of the current destination */
    uint16_t path_number;       /* path of the current request */
    uint16_t chosen;            /* path of the last request posted */
    uint32_t keep_us, rotation;     /* keep_us: as in sv_path; rotation: the path with which equal paths begin */
    uint64_t last_posted;
    uint64_t epoch;
    uint16_t dlid;              /* LID of the responder */
    uint8_t sl;
    bool laid;
    uint32_t unsignalled;       /* strict: number of requests since the last signaled one */
    uint64_t not_ready_since;   /* strict: time since which the head of the queue finds no receive */
    uint32_t not_ready_head;
};

/* pace.c: fill `when` with the times at which `wr` arrives and completes. */
void ve_pace(struct ve_qp *q, struct ve_sq_sched *l, const struct ve_wr *wr, struct ve_when *when);

/* strict.c */
void ve_strict_begin(void);
/* Next random number, seeded by SOFTIB_STRICT_SEED. Any thread. */
uint32_t ve_strict_roll(void);

#endif
