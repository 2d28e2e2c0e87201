/*
 * "many N": N QPs, N CQs and N regions, and all of it destroyed again; each time it waits for a line. "many N stay" waits to be
 * killed with what it has.
 */
#include "rig.h"

int main(int argc, char **argv)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    int n = argc > 1 ? atoi(argv[1]) : 1;
    struct ibv_qp **qps = calloc((size_t)n, sizeof *qps);
    struct ibv_cq **cqs = calloc((size_t)n, sizeof *cqs);
    struct ibv_mr **mrs = calloc((size_t)n, sizeof *mrs);
    static char buffer[1 << 20];

    MUST(qps && cqs && mrs);
    for (int i = 0; i < n; i++) {
        cqs[i] = ibv_create_cq(context, 255, NULL, NULL, 0);
        qps[i] = rig_qp(pd, cqs[i], IBV_QPT_RC);
        mrs[i] = ibv_reg_mr(pd, buffer + (i & 1023), 4096, ALL);
        MUST(cqs[i] && qps[i] && mrs[i]);
    }
    puts("made");
    fflush(stdout);
    while (argc > 2)
        pause();
    getchar();
    for (int i = 0; i < n; i++)
        MUST(!ibv_destroy_qp(qps[i]) && !ibv_destroy_cq(cqs[i]) && !ibv_dereg_mr(mrs[i]));
    puts("destroyed");
    fflush(stdout);
    getchar();
    return 0;
}
