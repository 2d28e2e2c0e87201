/* The transports of one process: state shared by its queue pairs. Application objects are in abi/. */
#ifndef SOFTIB_VERBS_ENGINE_ENGINE_H
#define SOFTIB_VERBS_ENGINE_ENGINE_H

#include "../memory/heap/shared_heap.h"

struct ve_qp;
struct ve_tagged_srq;

struct ve_engine {
    struct vm_heap w;
    pthread_mutex_t lock;           /* guards `waiting` */
    struct ve_qp *waiting;          /* QPs with pending work */
    bool timer_runs;
    bool stop;
    pthread_t timer;
    uint64_t due_ns, polled_ns, awake_ns; /* sq_sched.c: earliest due time, last poll, next wakeup of the timer thread */
    uint32_t polls;
    pthread_mutex_t qps_lock;       /* guards `qps` */
    struct ve_qp *qps;              /* quiesce.c: QPs that may copy */
    uint32_t qps_begun;             /* generation of `qps`, incremented at fork: a child starts an empty list */
    struct ve_tagged_srq *tagged;   /* tm_rndv_log.c: SRQs with lists of tags; `lock` */
};

#endif
