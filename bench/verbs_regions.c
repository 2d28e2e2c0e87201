/*
 * What registering private memory costs. "verbs_regions one OCTETS ROUNDS": us of the first ibv_reg_mr of a touched mapping (its pages
 * are moved), of ibv_dereg_mr, of the next ibv_reg_mr of the same memory, of its ibv_dereg_mr, and of a memcpy of as many octets to
 * fresh memory; the best of the rounds, each with a mapping of its own. "verbs_regions many N OCTETS": us a region for the first and
 * the last hundred of N regions that live together, registered and deregistered.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static struct ibv_pd *pd;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void *touched(size_t octets)
{
    void *at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        exit(1);
    return memset(at, 1, octets);
}

static struct ibv_mr *registered(void *at, size_t octets)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, at, octets, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

    if (!mr) {
        perror("ibv_reg_mr");
        exit(1);
    }
    return mr;
}

static void least(double *best, double us)
{
    if (!*best || us < *best)
        *best = us;
}

static void one(size_t octets, int rounds)
{
    double best[5] = { 0 }, t;

    for (int i = 0; i < rounds; i++) {
        void *at = touched(octets), *copy;

        for (int second = 0; second < 2; second++) {
            struct ibv_mr *mr;

            t = now();
            mr = registered(at, octets);
            least(&best[2 * second], now() - t);
            t = now();
            ibv_dereg_mr(mr);
            least(&best[2 * second + 1], now() - t);
        }
        copy = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        t = now();
        memcpy(copy, at, octets);
        least(&best[4], now() - t);
        munmap(copy, octets);
        munmap(at, octets);
    }
    printf("%.1f %.1f %.1f %.1f %.1f\n", best[0], best[1], best[2], best[3], best[4]);
}

static void many(int n, size_t octets)
{
    struct ibv_mr **mrs = calloc((size_t)n, sizeof *mrs);
    double reg[2] = { 0 }, dereg[2] = { 0 }, t;

    for (int i = 0; i < n; i++) {
        void *at = touched(octets);

        mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* so that it is a mapping of its own */
        t = now();
        mrs[i] = registered(at, octets);
        if (i < 100 || i >= n - 100)
            reg[i >= 100] += (now() - t) / 100;
    }
    for (int i = 0; i < n; i++) {
        t = now();
        ibv_dereg_mr(mrs[i]);
        if (i < 100 || i >= n - 100)
            dereg[i >= 100] += (now() - t) / 100;
    }
    printf("%.1f %.1f %.1f %.1f\n", reg[0], reg[1], dereg[0], dereg[1]);
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

    pd = context ? ibv_alloc_pd(context) : NULL;
    if (argc != 4 || !pd)
        return 2;
    if (!strcmp(argv[1], "one"))
        one(strtoul(argv[2], NULL, 0), atoi(argv[3]));
    else
        many(atoi(argv[2]), strtoul(argv[3], NULL, 0));
    return 0;
}
