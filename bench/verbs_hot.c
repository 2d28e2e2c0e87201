/*
 * One end of the hot path: "verbs_hot FILE". Says "QPN LID ADDRESS RKEY", is told its peer's, then plays what it is told, once
 * a line, and says nanoseconds: median, 10 %, 1 % of the samples. "first N", "second N": ping-pong of 8-octet inline writes
 * (a sample is half a round trip). "send N", "take N": 2-octet inline sends (a sample is 64 of them, told by each). "write N".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
#define AREA 65536
#define DEPTH 512
#define EACH 64

static volatile char *area;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static struct ibv_cq *sends, *receives;
static unsigned long remote, rkey, peer_qpn, peer_lid;
static double *samples;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static inline unsigned long ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (unsigned long)now();
#endif
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(int n, double scale)
{
    qsort(samples, (size_t)n, sizeof *samples, order);
    printf("%.2f %.2f %.2f\n", samples[n / 2] * scale, samples[n / 10] * scale, samples[n / 100] * scale);
    fflush(stdout);
}

static void make(const char *file)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_port_attr port;
    struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC, .cap = { DEPTH, DEPTH, 1, 1, 64 } };
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    int fd = open(file, O_RDWR | O_CREAT, 0600);

    MUST(list && list[0] && fd >= 0 && !ftruncate(fd, AREA));
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(area != MAP_FAILED && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
    MUST(!ibv_query_port(context, 1, &port));
    MUST((mr = ibv_reg_mr(pd, (void *)area, AREA, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    MUST((sends = ibv_create_cq(context, DEPTH, NULL, NULL, 0)) && (receives = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
    init.send_cq = sends;
    init.recv_cq = receives;
    init.pd = pd;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
    MUST((qp = ibv_create_qp_ex(context, &init)));
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    printf("%u %u %lu %u\n", qp->qp_num, port.lid, (unsigned long)(uintptr_t)area, mr->rkey);
    fflush(stdout);
    MUST(scanf("%lu %lu %lu %lu", &peer_qpn, &peer_lid, &remote, &rkey) == 4);
    a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = (uint32_t)peer_qpn,
                              .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = (uint16_t)peer_lid, .port_num = 1 } };
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC));
}

static void post(int send, const void *data, size_t n, unsigned signaled)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

    ibv_wr_start(ex);
    ex->wr_id = 0;
    ex->wr_flags = signaled;
    if (send)
        ibv_wr_send(ex);
    else
        ibv_wr_rdma_write(ex, (uint32_t)rkey, remote);
    ibv_wr_set_inline_data(ex, (void *)(uintptr_t)data, n);
    MUST(!ibv_wr_complete(ex));
}

static void wait_for_completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int n;

    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        ;
    MUST(n == 1 && wc.status == IBV_WC_SUCCESS);
}

/* The word in which the peer writes counts its messages; the own one lies elsewhere. */
static void ping(int n, int first)
{
    volatile unsigned long *in = (volatile unsigned long *)area;
    unsigned long *out = (unsigned long *)(uintptr_t)(area + AREA / 2), began, t0;
    static unsigned long seen;
    double ns, from = now();

    t0 = began = ticks();
    for (int i = 0; i < n; i++) {
        if (!first || i) {
            seen++;
            while (*in != seen)
                ;
        }
        samples[i] = (double)(ticks() - began);
        began = ticks();
        *out += 1;
        post(0, out, 8, IBV_SEND_SIGNALED);
        wait_for_completion(sends);
    }
    ns = (now() - from) / (double)(ticks() - t0);
    if (first) {
        seen++;
        while (*in != seen)
            ;
    }
    report(n, ns / 2);
}

static void stream(int n, int send)
{
    char data[2] = "x";
    int done = 0, windows = 0;
    double before = now(), t;

    for (int i = 0; i < n; i++) {
        post(send, data, 2, (i + 1) % EACH ? 0 : IBV_SEND_SIGNALED);
        if ((i + 1) % EACH == 0) {
            if (i + 1 - done * EACH >= DEPTH - EACH)
                wait_for_completion(sends), done++;
            t = now();
            samples[windows++] = t - before;
            before = t;
        }
    }
    while (done < n / EACH)
        wait_for_completion(sends), done++;
    report(windows, 1.0 / EACH);
}

static void post_receive(void)
{
    struct ibv_sge sge = { (uintptr_t)area + 4096, 64, mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(!ibv_post_recv(qp, &wr, &bad));
}

static void take(int n)
{
    struct ibv_wc wc[16];
    int windows = 0;
    double before = now(), t;

    for (int got = 0, marked = 0; got < n;) {
        int k = ibv_poll_cq(receives, 16, wc);

        for (int i = 0; i < k; i++) {
            MUST(wc[i].status == IBV_WC_SUCCESS);
            post_receive();
        }
        got += k;
        if (got / EACH > marked) {
            t = now();
            samples[windows++] = (t - before) / (got / EACH - marked);
            marked = got / EACH;
            before = t;
        }
    }
    report(windows, 1.0 / EACH);
}

int main(int n_args, char **args)
{
    char what[16];
    int n;

    MUST(n_args == 2 && (samples = calloc(1 << 22, sizeof *samples)));
    make(args[1]);
    for (int i = 0; i < DEPTH - 1; i++)
        post_receive();
    while (scanf("%15s %d", what, &n) == 2) {
        if (!strcmp(what, "first") || !strcmp(what, "second"))
            ping(n, *what == 'f');
        else if (!strcmp(what, "send") || !strcmp(what, "write"))
            stream(n, *what == 's');
        else
            take(n);
    }
    return 0;
}
