/*
 * N RC QPs between a process and its child: memory of both per QP, and RESET to RTS on both sides per second, addresses
 * exchanged in one batch. 16 requests each way, one SGE. Prints one line: QPs, octets a QP (private of both), connects a second.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long rss(void)
{
    char line[256];
    long anonymous = 0, value;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %ld", &value) == 1)
            anonymous = value;
    if (f)
        fclose(f);
    return anonymous * 1024;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void all(int fd, void *data, size_t n, int writes)
{
    for (ssize_t got; n; n -= got, data = (char *)data + got)
        if ((got = writes ? write(fd, data, n) : read(fd, data, n)) <= 0)
            exit(3);
}

static int must(int error, const char *what)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1024, to[2], from[2], count, parent;
    struct ibv_device **devices;
    struct ibv_context *context;
    struct ibv_port_attr port;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp **qps;
    unsigned *mine = calloc(n, sizeof *mine), *theirs = calloc(n, sizeof *theirs);
    long before, octets;
    double began;
    char go = 0;

    if (pipe(to) || pipe(from))
        return 1;
    parent = fork() != 0;
    if (!parent) {
        int swap[2] = { to[0], from[1] };
        to[1] = swap[1];
        from[0] = swap[0];
    }
    devices = ibv_get_device_list(&count);
    if (!count)
        return must(19, "ibv_get_device_list") + 1;
    context = ibv_open_device(devices[0]);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 65536, NULL, NULL, 0);
    must(ibv_query_port(context, 1, &port), "ibv_query_port");
    qps = calloc(n, sizeof *qps);
    before = rss();
    for (int i = 0; i < n; i++) {
        struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };

        qps[i] = ibv_create_qp(pd, &a);
        if (!qps[i])
            return must(12, "ibv_create_qp");
        mine[i] = qps[i]->qp_num;
    }
    all(to[1], mine, n * sizeof *mine, 1);
    all(from[0], theirs, n * sizeof *theirs, 0);
    began = now();
    for (int i = 0; i < n; i++) {
        struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
        struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = theirs[i], .min_rnr_timer = 12,
                                   .max_dest_rd_atomic = 1, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
        struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };

        must(ibv_modify_qp(qps[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
        must(ibv_modify_qp(qps[i], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
        must(ibv_modify_qp(qps[i], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                             IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
    }
    all(to[1], &go, 1, 1); /* both are done */
    all(from[0], &go, 1, 0);
    began = now() - began;
    octets = rss() - before;
    if (!parent) {
        all(to[1], &octets, sizeof octets, 1);
        all(from[0], &go, 1, 0);
        return 0;
    }
    before = octets;
    all(from[0], &octets, sizeof octets, 0);
    printf("%d %ld %.0f %ld\n", n, (before + octets) / n, n / began, (long)getpid());
    fflush(stdout);
    sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 0); /* somebody may look at the shared memory */
    all(to[1], &go, 1, 1);
    wait(NULL);
    return 0;
}
