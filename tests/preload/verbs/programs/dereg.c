/*
 * "dereg ROUNDS": the parent reads from its child by RDMA into a region, in one thread; the other deregisters the region (or
 * registers it anew, with other rights) in the middle of it. When that has returned, the region's memory does not change.
 */
#include "rig.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define AREA (4 << 20)
#define TAIL 65536

static int line;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct end other;
static char *to;
static uint32_t done;

static void exchange(struct end *mine)
{
    MUST(write(line, mine, sizeof *mine) == sizeof *mine && recv(line, &other, sizeof other, MSG_WAITALL) == sizeof other);
}

static void *reads(void *argument)
{
    uint32_t lkey = mr->lkey;

    while (rig_send(qp, cq, IBV_WR_RDMA_READ, (uintptr_t)to, AREA, lkey, other.address, other.rkey, 0).status == IBV_WC_SUCCESS)
        __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    return argument;
}

static void one_round(struct ibv_pd *pd, struct ibv_cq *end_cq, uint16_t lid, int round)
{
    struct end mine = { .lid = lid };
    pthread_t thread;
    uint32_t before = done;
    struct timespec rest = { 0, round * 37 % 1500 * 1000 };

    cq = end_cq;
    qp = rig_qp(pd, cq, IBV_QPT_RC);
    mine.qpn = qp->qp_num;
    exchange(&mine);
    rig_init(qp, 1);
    rig_rtr(qp, 1, other.qpn, other.lid);
    rig_rts(qp, 14, 7);
    exchange(&mine); /* both are ready */
    mr = ibv_reg_mr(pd, to, AREA, ALL);
    MUST(mr && !pthread_create(&thread, NULL, reads, NULL));
    while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) == before)
        sched_yield();
    nanosleep(&rest, NULL);
    if (round % 2)
        MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
    else
        MUST(!ibv_dereg_mr(mr));
    memset(to + AREA - TAIL, 'c', TAIL);
    nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
    for (int i = AREA - TAIL; i < AREA; i++)
        MUST(to[i] == 'c');
    pthread_join(thread, NULL);
    MUST(!ibv_destroy_qp(qp) && (round % 2 == 0 || !ibv_dereg_mr(mr)));
    MUST(write(line, "", 1) == 1);
}

static void other_side(struct ibv_pd *pd, struct ibv_cq *end_cq, uint16_t lid)
{
    struct ibv_mr *all = ibv_reg_mr(pd, memset(to, 'w', AREA), AREA, ALL);
    struct end mine = { .lid = lid, .rkey = all->rkey, .address = (uintptr_t)to };
    char octet;

    qp = rig_qp(pd, end_cq, IBV_QPT_RC);
    mine.qpn = qp->qp_num;
    exchange(&mine);
    rig_init(qp, 1);
    rig_rtr(qp, 1, other.qpn, other.lid);
    rig_rts(qp, 14, 7);
    exchange(&mine);
    MUST(recv(line, &octet, 1, MSG_WAITALL) == 1 && !ibv_destroy_qp(qp) && !ibv_dereg_mr(all));
}

int main(int argc, char **argv)
{
    int pair[2], status, rounds = argc == 2 ? atoi(argv[1]) : 0;
    struct ibv_context *context;
    struct ibv_pd *pd;
    pid_t child;

    MUST(argc == 2 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    to = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    child = fork(); /* before either sees the fabric */
    line = pair[!child];
    close(pair[!!child]);
    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    for (int i = 0; i < rounds; i++) {
        if (child)
            one_round(pd, cq, rig_lid(context, 1), i);
        else
            other_side(pd, cq, rig_lid(context, 1));
    }
    if (!child)
        return 0;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}
