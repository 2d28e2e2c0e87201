/*
 * idle_polls: how often the library gave the processor away in 100,000 polls that find nothing, alone on its processor; in how many of 50
 * rounds of 500 polls, each after another process polled there at least 1,000 times, and how often in these rounds; and in 1,000 polls that
 * find something.
 */
#include "rig.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static unsigned yields;
static bool yielded; /* in this poll: a sleep after a yield is part of it */

int sched_yield(void) /* in place of libc's */
{
    yields++;
    yielded = true;
    return (int)syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    yields += !yielded;
    yielded = false;
    return (int)syscall(SYS_nanosleep, wanted, left);
}

static unsigned polls(struct ibv_cq *cq, int n)
{
    struct ibv_wc wc;

    yields = 0;
    for (int i = 0; i < n; i++) {
        yielded = false;
        MUST(ibv_poll_cq(cq, 1, &wc) == 0);
    }
    return yields;
}

static unsigned work(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_RC);
    static uint64_t word;
    struct ibv_mr *mr = ibv_reg_mr(pd, &word, sizeof word, ALL);
    uint64_t at = (uintptr_t)&word;
    uint16_t lid = rig_lid(pd->context, 1);

    rig_init(qp, 1);
    rig_rtr(qp, 1, qp->qp_num, lid);
    rig_rts(qp, 14, 7);
    yields = 0;
    for (int i = 0; i < 1000; i++)
        MUST(rig_send(qp, cq, IBV_WR_RDMA_WRITE, at, sizeof word, mr->lkey, at, mr->rkey, 0).status == IBV_WC_SUCCESS);
    return yields;
}

#define ROUNDS 50

/* Rounds of one look at the processor each. The other process counts its thousands of polls: after two more of them, a whole thousand lies
 * between our last poll and the next, whatever the scheduler does. */
static unsigned rounds_that_yield(struct ibv_cq *cq, const uint32_t *thousands, unsigned *all)
{
    unsigned found = 0;

    *all = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t before = __atomic_load_n(thousands, __ATOMIC_ACQUIRE);
        unsigned n;

        while (__atomic_load_n(thousands, __ATOMIC_ACQUIRE) - before < 2)
            syscall(SYS_sched_yield);
        n = polls(cq, 500);
        found += n > 0;
        *all += n;
    }
    return found;
}

int main(void)
{
    struct ibv_context *context;
    struct ibv_cq *cq;
    cpu_set_t all, one;
    int ready[2];
    pid_t other;
    char c = 0;
    uint32_t *thousands = mmap(NULL, sizeof *thousands, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned met, all_yields;

    MUST(thousands != MAP_FAILED && !sched_getaffinity(0, sizeof all, &all) && !pipe(ready));
    CPU_ZERO(&one);
    for (int i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    MUST(!sched_setaffinity(0, sizeof one, &one));
    other = fork();
    context = rig_device();
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    MUST(cq);
    if (!other) {
        MUST(read(ready[0], &c, 1) == 1);
        for (;;) {
            polls(cq, 1000);
            __atomic_add_fetch(thousands, 1, __ATOMIC_RELEASE);
        }
    }
    polls(cq, 1000); /* another test's program may have polled there last */
    printf("%u ", polls(cq, 100000));
    MUST(write(ready[1], &c, 1) == 1);
    met = rounds_that_yield(cq, thousands, &all_yields);
    printf("%u %u ", met, all_yields);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    polls(cq, 1000);
    printf("%u\n", work(ibv_alloc_pd(context), cq));
    return 0;
}
