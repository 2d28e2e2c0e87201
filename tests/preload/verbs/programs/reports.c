/*
 * What libibverbs reports to an application besides the data: the QP's state in its structure, flags of completions, errno, limits.
 * "reports states", "reports flags", "reports errors", "reports limits", "reports windows",
 * "reports forks", "reports errno".
 */
#include "rig.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char buffer[4096];

/* Two QPs of this process, connected; by a global address where `gid` is given. */
static void connect(struct ibv_qp *qps[2], const union ibv_gid *gid)
{
    uint16_t lid = rig_lid(context, 1);

    for (int i = 0; i < 2; i++) {
        qps[i] = rig_qp(pd, cq, IBV_QPT_RC);
        rig_init(qps[i], 1);
    }
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qps[1 - i]->qp_num,
                                 .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = { .dlid = lid, .port_num = 1 } };

        if (gid) {
            a.ah_attr.is_global = 1;
            a.ah_attr.grh.dgid = *gid;
        }
        MUST(!ibv_modify_qp(qps[i], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
        rig_rts(qps[i], 14, 7);
    }
}

/* libibverbs writes `state` in modify and query alone (libibverbs/verbs.c): UCX's purge of a failed connection leans on it. */
static void states(void)
{
    struct ibv_qp *qps[2];
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;

    connect(qps, NULL);
    MUST(rig_send(qps[0], cq, IBV_WR_RDMA_WRITE, (uintptr_t)buffer, 8, mr->lkey, (uintptr_t)buffer, mr->rkey ^ 1, 0).status ==
         IBV_WC_REM_ACCESS_ERR);
    MUST(qps[0]->state == IBV_QPS_RTS && qps[1]->state == IBV_QPS_RTS);
    MUST(!ibv_query_qp(qps[0], &a, IBV_QP_SQ_PSN, &init) && qps[0]->state == IBV_QPS_RTS);
    for (int i = 0; i < 2; i++)
        MUST(!ibv_query_qp(qps[i], &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_ERR && qps[i]->state == IBV_QPS_ERR);
    a.qp_state = IBV_QPS_RTS;
    MUST(ibv_modify_qp(qps[0], &a, IBV_QP_STATE) == EINVAL && errno == EINVAL && qps[0]->state == IBV_QPS_ERR);
    a.qp_state = IBV_QPS_RESET;
    MUST(!ibv_modify_qp(qps[0], &a, IBV_QP_STATE) && qps[0]->state == IBV_QPS_RESET);
}

/* IBV_WC_GRH: "GRH is present (valid only for UD QPs)" (ibv_poll_cq(3)). */
static void flags(void)
{
    struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 7 }, *bad;
    union ibv_gid gid;
    struct ibv_qp *qps[2];
    struct ibv_wc wc;

    MUST(!ibv_query_gid(context, 1, 0, &gid));
    connect(qps, &gid);
    rig_recv(qps[1], (uintptr_t)buffer, 100, mr->lkey);
    MUST(!ibv_post_send(qps[0], &wr, &bad));
    wc = rig_poll(cq);
    MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_IMM);
}

/* A call that fails says why in errno, too, as one that asks a kernel does. */
static void errors(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *other = ibv_create_cq(context, 1, NULL, channel, 0);
    struct ibv_qp *qp = rig_qp(pd, other, IBV_QPT_RC);
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &attr);

    MUST(qp && srq);
    errno = 0;
    MUST(ibv_dealloc_pd(pd) == EBUSY && errno == EBUSY);
    errno = 0;
    MUST(ibv_destroy_cq(other) == EBUSY && errno == EBUSY);
    errno = 0;
    MUST(ibv_destroy_comp_channel(channel) == EBUSY && errno == EBUSY);
    MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(other) && !ibv_destroy_comp_channel(channel) && !ibv_destroy_srq(srq));
}

/* A device has as many objects as it says, and again when they are destroyed. */
static void limits(void)
{
    struct ibv_ah_attr to = { .dlid = rig_lid(context, 1), .port_num = 1 };
    struct ibv_device_attr says;
    struct ibv_ah **ahs;
    struct ibv_mw **mws;
    int n = 0;

    MUST(!ibv_query_device(context, &says));
    MUST(says.max_ah > 65536 && says.max_ah < 1 << 24 && says.max_mw > 65536 && says.max_mw < 1 << 24);
    ahs = calloc((size_t)says.max_ah + 1, sizeof *ahs);
    mws = calloc((size_t)says.max_mw + 1, sizeof *mws);
    for (int round = 0; round < 2; round++) {
        for (n = 0; n <= says.max_ah && (ahs[n] = ibv_create_ah(pd, &to)); n++)
            ;
        MUST(n == says.max_ah && errno == ENOMEM);
        while (n)
            MUST(!ibv_destroy_ah(ahs[--n]));
    }
    while (n <= says.max_mw && (mws[n] = ibv_alloc_mw(pd, IBV_MW_TYPE_2)))
        n++;
    MUST(n == says.max_mw && errno == ENOMEM);
}

/*
 * A window of type 2: the consumer chooses the last octet of its key, the index is the device's (IBA 10.6.2.1). So two that ask for one
 * key have two, nothing else is touched, and all can be destroyed.
 */
static void windows(void)
{
    struct ibv_qp *qps[2];
    struct ibv_mw *mws[2];
    struct ibv_mr *region = ibv_reg_mr(pd, buffer, sizeof buffer, ALL | IBV_ACCESS_MW_BIND);

    connect(qps, NULL);
    for (int i = 0; i < 2; i++) {
        struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;

        mws[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
        wr.bind_mw.mw = mws[i];
        wr.bind_mw.rkey = mr->rkey | 0xFF; /* of somebody else's place */
        wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ region, (uintptr_t)buffer, 64, IBV_ACCESS_REMOTE_READ };
        MUST(!ibv_post_send(qps[1], &wr, &bad));
        MUST(rig_poll(cq).status == IBV_WC_SUCCESS && (mws[i]->rkey & 0xFF) == 0xFF);
    }
    MUST(mws[0]->rkey != mws[1]->rkey);
    for (int i = 0; i < 2; i++)
        MUST(rig_send(qps[0], cq, IBV_WR_RDMA_READ, (uintptr_t)buffer + 64, 64, mr->lkey, (uintptr_t)buffer, mws[i]->rkey, 0).status ==
             IBV_WC_SUCCESS);
    MUST(ibv_dereg_mr(region) == EBUSY); /* 10.6.7.2.6 leaves it to the device; ours holds the region */
    MUST(!ibv_dealloc_mw(mws[0]) && !ibv_dealloc_mw(mws[1]) && !ibv_dereg_mr(region) && !ibv_dereg_mr(mr));
}

static bool counts;
static unsigned sockets;

/* librspreload's tries an RDMA socket first. */
int socket(int domain, int type, int protocol)
{
    if (counts)
        sockets++;
    return (int)syscall(SYS_socket, domain, type, protocol);
}

/*
 * Posting, polling and asking for events leave errno alone: a driver's calls make no system call, and rsockets look behind them at an
 * errno of their own. Ours makes one that fails: a channel's socket takes few datagrams.
 */
static void leaves_errno(void)
{
    enum { CQS = 40, MINE = 4711 };
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cqs[CQS];
    struct ibv_qp *qps[2];

    MUST(channel);
    counts = true;
    for (int i = 0; i < CQS; i++) {
        struct ibv_sge sge = { (uintptr_t)buffer, 64, mr->lkey };
        struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                  .wr.rdma = { (uintptr_t)buffer + 64, mr->rkey } }, *bad;

        cqs[i] = ibv_create_cq(context, 16, NULL, channel, 0);
        cq = cqs[i];
        connect(qps, NULL);
        errno = MINE;
        MUST(!ibv_req_notify_cq(cqs[i], 0) && !ibv_post_send(qps[0], &wr, &bad) && errno == MINE);
    }
    MUST(!sockets);
}

static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_mr *cached;

static void flush(void)
{
    pthread_mutex_lock(&cache);
    if (cached)
        MUST(!ibv_dereg_mr(cached));
    cached = NULL;
}

static void unlock(void)
{
    pthread_mutex_unlock(&cache);
}

static bool ends;

/* Asks the daemon while it holds the cache's lock. */
static void *open_on(void *unused)
{
    while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
        struct ibv_context *other;

        pthread_mutex_lock(&cache);
        other = ibv_open_device(context->device);
        MUST(other && !ibv_close_device(other));
        unlock();
        usleep(100);
    }
    return unused;
}

/* A registration cache empties itself before a fork, as UCX's does, by a handler that takes the cache's lock. */
static void forks(void)
{
    char *page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t other;
    int status;
    pid_t pid;

    memset(page, 42, 65536);
    cached = ibv_reg_mr(pd, page, 65536, ALL);
    MUST(cached);
    pid = fork();
    if (!pid)
        _exit(page[65535] == 42 ? 7 : 1);
    MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7 && !cached);
    cached = ibv_reg_mr(pd, page, 65536, ALL);
    flush();
    unlock();
    MUST(!pthread_create(&other, NULL, open_on, NULL));
    for (int i = 0; i < 100; i++) {
        pid = fork();
        if (!pid)
            _exit(7);
        MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    __atomic_store_n(&ends, true, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = { { "states", states }, { "flags", flags }, { "errors", errors }, { "limits", limits }, { "windows", windows },
                 { "forks", forks }, { "errno", leaves_errno } };

    MUST(!pthread_atfork(flush, unlock, unlock));
    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, ALL);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (argc == 2 && !strcmp(argv[1], scenes[i].name)) {
            scenes[i].run();
            puts("ok");
            return 0;
        }
    }
    return 2;
}
