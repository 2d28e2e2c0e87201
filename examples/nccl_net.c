/*
 * NCCL's InfiniBand transport without NCCL's collectives and without a GPU: nccl_net LIBRARY OFFSET server|client FILE GROUP
 *
 * OFFSET is that of the object ncclNetIb in LIBRARY (an unmodified libnccl.so.2): its table of functions, as a network plugin of
 * version 12 has it. Rounds of 1 to GROUP messages of 0 to 2 MB go from the client to the server, each group received by one
 * multi-receive and sent in the opposite order. Prints "rounds R bytes N bad N".
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HANDLE = 128, MOST = 8, SIZE = 64 << 20, HOST_MEMORY = 1, ROUNDS = 60, LIMIT_S = 40 };

/* The entries in order, facts of NCCL's plugin interface. */
struct net {
    const char *name;
    int (*init)(void **ctx, uint64_t id, void *config, void *log, void *profile);
    int (*devices)(int *n);
    int (*properties)(int device, void *properties);
    int (*listen)(void *ctx, int device, void *handle, void **listener);
    int (*connect)(void *ctx, int device, void *handle, void **comm, void **device_comm);
    int (*accept)(void *listener, void **comm, void **device_comm);
    int (*reg)(void *comm, void *data, size_t size, int type, void **mr);
    void *reg_dmabuf;
    int (*dereg)(void *comm, void *mr);
    int (*isend)(void *comm, void *data, size_t size, int tag, void *mr, void *, void **request);
    int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **mrs, void **, void **request);
    void *iflush;
    int (*test)(void *request, int *done, int *sizes);
    int (*close_send)(void *comm);
    int (*close_recv)(void *comm);
    int (*close_listen)(void *listener);
    void *device_mr, *recv_consumed, *make_vdevice;
    int (*finalize)(void *ctx);
};

static double begun;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end(const char *what, int code)
{
    printf("%s: %d\n", what, code);
    exit(1);
}

/* Still within the limit. */
static void go_on(const char *what)
{
    if (now() - begun > LIMIT_S)
        end(what, -1);
}

static void check(const char *what, int code)
{
    if (code)
        end(what, code);
}

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

static int no_profile(void **handle, int type, void *where, int64_t id, void *more)
{
    (void)handle, (void)type, (void)where, (void)id, (void)more;
    return 0;
}

static unsigned next(void)
{
    static uint64_t state = 1; /* the same in both */

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33);
}

static unsigned char expected(unsigned fill, int message, size_t at)
{
    return (unsigned char)(fill + 31u * (unsigned)message + 7 * at + (at >> 8));
}

struct group {
    int n, tags[MOST], done[MOST];
    size_t sizes[MOST];
    void *data[MOST], *mrs[MOST], *none[MOST];
    unsigned fill;
};

static void draw(struct group *g, char *memory, void *mr, int most)
{
    size_t at = next() % 4096;
    static const unsigned limits[] = { 1, 64, 9000, 300000, 2 << 20 };

    g->n = 1 + (int)(next() % (unsigned)most);
    for (int i = 0; i < g->n; i++) {
        g->sizes[i] = next() % limits[next() % 5];
        g->tags[i] = 7 + i;
        g->data[i] = memory + at;
        g->mrs[i] = mr;
        g->none[i] = NULL;
        at += g->sizes[i] + next() % 100;
    }
    g->fill = next();
}

static void wait_for(const struct net *net, void *request, int *sizes)
{
    for (int done = 0; !done; go_on("test"))
        check("test", net->test(request, &done, sizes));
}

static long receive(const struct net *net, void *comm, struct group *g)
{
    void *request = NULL;
    long bad = 0;

    for (int i = 0; i < g->n; i++)
        memset(g->data[i], 0xEE, g->sizes[i]);
    for (; !request; go_on("irecv"))
        check("irecv", net->irecv(comm, g->n, g->data, g->sizes, g->tags, g->mrs, g->none, &request));
    wait_for(net, request, g->done);
    for (int i = 0; i < g->n; i++) {
        bad += (size_t)g->done[i] != g->sizes[i];
        for (size_t k = 0; k < g->sizes[i]; k++)
            bad += ((unsigned char *)g->data[i])[k] != expected(g->fill, i, k);
    }
    return bad;
}

static void send_group(const struct net *net, void *comm, struct group *g)
{
    void *requests[MOST] = { NULL };

    for (int i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->sizes[i]; k++)
            ((unsigned char *)g->data[i])[k] = expected(g->fill, i, k);
    for (int i = g->n - 1; i >= 0; i--)
        for (; !requests[i]; go_on("isend"))
            check("isend", net->isend(comm, g->data[i], g->sizes[i], g->tags[i], g->mrs[i], NULL, &requests[i]));
    for (int i = 0; i < g->n; i++)
        wait_for(net, requests[i], NULL);
}

static void *meet(const struct net *net, void *ctx, int server, const char *file)
{
    char handle[HANDLE] = "", part[512];
    void *listener, *comm = NULL;
    FILE *f;

    if (server) {
        check("listen", net->listen(ctx, 0, handle, &listener));
        snprintf(part, sizeof part, "%s.part", file);
        f = fopen(part, "w");
        if (!f || fwrite(handle, HANDLE, 1, f) != 1 || fclose(f) || rename(part, file))
            end("handle", 1);
        for (; !comm; go_on("accept"))
            check("accept", net->accept(listener, &comm, NULL));
        check("closeListen", net->close_listen(listener));
        return comm;
    }
    while (!(f = fopen(file, "r"))) {
        go_on("no server");
        usleep(10000);
    }
    if (fread(handle, HANDLE, 1, f) != 1)
        end("handle", 1);
    fclose(f);
    for (; !comm; go_on("connect"))
        check("connect", net->connect(ctx, 0, handle, &comm, NULL));
    return comm;
}

int main(int argc, char **argv)
{
    int server = argc == 6 && !strcmp(argv[3], "server"), group = argc == 6 ? atoi(argv[5]) : 0, n = -1, config = -1;
    void *library = group ? dlopen(argv[1], RTLD_NOW) : NULL, *ctx = NULL, *comm, *mr;
    char *memory = calloc(1, SIZE), properties[512] = "";
    const struct link_map *map;
    const struct net *net;
    long bad = 0, bytes = 0;

    begun = now();
    if (!library || !memory || dlinfo(library, RTLD_DI_LINKMAP, &map))
        end(library ? "memory" : dlerror(), 1);
    net = (const struct net *)(map->l_addr + strtoul(argv[2], NULL, 16));
    check("init", net->init(&ctx, 42, &config, (void *)quiet, (void *)no_profile));
    check("devices", net->devices(&n));
    printf("net %s devices %d\n", net->name, n);
    if (n < 1)
        return 3;
    check("getProperties", net->properties(0, properties));
    printf("device %s\n", *(char **)properties);
    comm = meet(net, ctx, server, argv[4]);
    check("regMr", net->reg(comm, memory, SIZE, HOST_MEMORY, &mr));
    for (int round = 0; round < ROUNDS; round++) {
        struct group g;

        draw(&g, memory, mr, group);
        if (server)
            bad += receive(net, comm, &g);
        else
            send_group(net, comm, &g);
        for (int i = 0; i < g.n; i++)
            bytes += (long)g.sizes[i];
    }
    check("deregMr", net->dereg(comm, mr));
    check("close", server ? net->close_recv(comm) : net->close_send(comm));
    check("finalize", net->finalize(ctx));
    printf("rounds %d bytes %ld bad %ld\n", ROUNDS, bytes, bad);
    return bad != 0;
}
