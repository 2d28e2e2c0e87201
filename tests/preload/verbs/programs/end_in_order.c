/* Makes N regions and N/4 QPs, and ends them in the order in which they were made. Prints seconds: to make and to end regions, QPs. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
    struct ibv_mr **mr = calloc((size_t)n, sizeof *mr);
    struct ibv_qp **qp = calloc((size_t)n / 4, sizeof *qp);
    char *memory = aligned_alloc(4096, 4096);
    double at[5] = { now() };

    for (int i = 0; i < n; i++)
        if (!(mr[i] = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE)))
            return 1;
    at[1] = now();
    for (int i = 0; i < n; i++)
        if (ibv_dereg_mr(mr[i]))
            return 1;
    at[2] = now();
    for (int i = 0; i < n / 4; i++)
        if (!(qp[i] = ibv_create_qp(pd, &init)))
            return 1;
    at[3] = now();
    for (int i = 0; i < n / 4; i++)
        if (ibv_destroy_qp(qp[i]))
            return 1;
    at[4] = now();
    printf("%f %f %f %f\n", at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3]);
    return 0;
}
