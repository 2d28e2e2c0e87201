/*
 * Two programs that share a folder and a fabric: `b` owns memory and, once connected, makes no call of verbs until `a` has
 * done with it; `a` writes, reads, adds, swaps and sends. The address of b's memory is also one of a's.
 *
 * containers a|b FOLDER KIND [octets [on]] prints whether a maps b's memory, and whether b has a thread that serves. KIND is plain, odd (no whole pages at the ends), threads, direct (threads, and a file open with
 * O_DIRECT), file (a mapping of a file in FOLDER). With "on" a writes until that fails, and prints why.
 */
#include "rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define AT ((char *)0x600000000000)
#define PART(n) ((n) * (octets / 4))

static const char *folder, *kind;
static size_t octets = 1 << 20;

static void path(char at[300], const char *role, const char *what)
{
    snprintf(at, 300, "%s/%s.%s", folder, role, what);
}

static void put(const char *role, const char *what, const void *data, size_t n)
{
    char made[300], name[300];
    FILE *file;

    path(made, role, "making");
    path(name, role, what);
    MUST((file = fopen(made, "w")) && fwrite(data, 1, n, file) == n && !fclose(file) && !rename(made, name));
}

static void get(const char *role, const char *what, void *data, size_t n)
{
    char name[300];
    FILE *file = NULL;

    path(name, role, what);
    for (int i = 0; i < 60000 && !(file = fopen(name, "r")); i++)
        usleep(1000);
    MUST(file && fread(data, 1, n, file) == n);
    fclose(file);
}

static void fill(char *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (char)(i * 31 + i / 251 + seed);
}

static bool is_filled(const char *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != (char)(i * 31 + i / 251 + seed))
            return false;
    return true;
}

static void *sleeper(void *none)
{
    pause();
    return none;
}

static char *memory(bool owner)
{
    int fd = -1, shared = MAP_PRIVATE | MAP_ANONYMOUS;
    pthread_t thread;
    char name[300];

    path(name, "own", "file");
    if (owner && !strcmp(kind, "file")) {
        fd = open(name, O_RDWR | O_CREAT, 0600);
        MUST(fd >= 0 && !ftruncate(fd, (off_t)octets + 4096));
        shared = MAP_SHARED;
    }
    if (owner && (!strcmp(kind, "threads") || !strcmp(kind, "direct")))
        MUST(!pthread_create(&thread, NULL, sleeper, NULL));
    if (owner && !strcmp(kind, "direct"))
        MUST(open("/usr/bin/env", O_RDONLY | O_DIRECT) >= 0);
    MUST(mmap(AT, octets + 4096, PROT_READ | PROT_WRITE, shared | MAP_FIXED, fd, 0) == AT);
    return AT + (strcmp(kind, "odd") ? 0 : 104);
}

/* Does this process map memory of the other one? */
static const char *maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[600], mine[60];
    struct stat space;
    bool found = false;

    MUST(file && !stat("/proc/self/ns/pid", &space));
    snprintf(mine, sizeof mine, "softib-memory-%d-%llx ", getpid(), (unsigned long long)space.st_ino);
    while (fgets(line, sizeof line, file))
        found = found || strstr(line, "/own.file") || (strstr(line, "softib-memory-") && !strstr(line, mine));
    fclose(file);
    return found ? "maps" : "does not map";
}

/* Has this process a thread that is not its own? */
static const char *serves(void)
{
    struct stat tasks;

    MUST(!stat("/proc/self/task", &tasks));
    return (int)tasks.st_nlink - 2 > (!strcmp(kind, "threads") || !strcmp(kind, "direct") ? 2 : 1) ? "serves" : "does not serve";
}

static void as_b(struct ibv_cq *cq, char *m, uint64_t *word)
{
    char octet;

    get("a", "done", &octet, 1);
    MUST(is_filled(m + PART(1), PART(1) - 3, 7));
    MUST(is_filled(m + PART(3), PART(1), 'b'));
    MUST(*word == 42);
    MUST(rig_poll(cq).status == IBV_WC_SUCCESS && is_filled(m, 5001, 9));
    printf("b: right, %s\n", serves());
}

static enum ibv_wc_status atomic(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, const struct end *b, bool swaps,
                                 uint64_t one, uint64_t two)
{
    struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
                              .opcode = swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
                              .wr.atomic = { b->address + PART(2), one, two, b->rkey } }, *bad;

    MUST(!ibv_post_send(qp, &wr, &bad));
    return rig_poll(cq).status;
}

/* What lies at the address of b's memory, but is not b's. */
static bool is_untouched(const char *m)
{
    return is_filled(m, PART(3), 'a') && is_filled(m + PART(3), PART(1), 'a');
}

static void as_a(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, const struct end *b, const char *m)
{
    char *own = mr->addr;
    uint64_t at = b->address;
    enum ibv_wc_status status;

    fill(own, PART(1), 7);
    status = rig_send(qp, cq, IBV_WR_RDMA_WRITE, (uintptr_t)own, (uint32_t)PART(1) - 3, mr->lkey, at + PART(1), b->rkey, 0).status;
    MUST(is_untouched(m));
    if (status) {
        printf("a: refused: %s\n", ibv_wc_status_str(status));
        return;
    }
    memset(own, 0, PART(1));
    MUST(!rig_send(qp, cq, IBV_WR_RDMA_READ, (uintptr_t)own, (uint32_t)PART(1) - 3, mr->lkey, at + PART(1), b->rkey, 0).status);
    MUST(is_filled(own, PART(1) - 3, 7));
    MUST(!rig_send(qp, cq, IBV_WR_RDMA_READ, (uintptr_t)own, (uint32_t)PART(1), mr->lkey, at + PART(3), b->rkey, 0).status);
    MUST(is_filled(own, PART(1), 'b'));
    MUST(!atomic(qp, cq, mr, b, false, 20, 0) && *(uint64_t *)(void *)own == 3);
    MUST(!atomic(qp, cq, mr, b, true, 24, 1) && *(uint64_t *)(void *)own == 23);
    MUST(!atomic(qp, cq, mr, b, true, 23, 42) && *(uint64_t *)(void *)own == 23);
    fill(own, 5001, 9);
    MUST(!rig_send(qp, cq, IBV_WR_SEND, (uintptr_t)own, 5001, mr->lkey, 0, 0, 0).status);
    MUST(is_untouched(m));
    put("a", "done", "", 1);
    printf("a: right, %s\n", maps());
}

/* Until one fails. */
static void write_on(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, const struct end *b)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    setlinebuf(stdout);
    for (unsigned i = 0; !status; i++) {
        status = rig_send(qp, cq, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, (uint32_t)octets, mr->lkey, b->address, b->rkey, 0).status;
        if (i == 10)
            puts("a: writes");
    }
    printf("a: %s\n", ibv_wc_status_str(status));
}

int main(int n, char **arguments)
{
    bool owner = n > 1 && *arguments[1] == 'b';
    const char *me = owner ? "b" : "a", *other = owner ? "a" : "b";
    struct end mine, its;
    char *m, octet;

    MUST(n >= 4);
    folder = arguments[2], kind = arguments[3], octets = n > 4 ? strtoul(arguments[4], NULL, 0) : octets;
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_RC);

    m = memory(owner);
    fill(m, octets, (unsigned char)*me);
    fill(m + PART(3), PART(1), (unsigned char)*me);
    *(uint64_t *)(void *)(m + PART(2)) = owner ? 3 : *(uint64_t *)(void *)(m + PART(2));
    struct ibv_mr *mr = ibv_reg_mr(pd, owner ? m : malloc(octets), octets, ALL);

    MUST(mr);
    rig_init(qp, 1);
    if (owner)
        rig_recv(qp, (uintptr_t)m, (uint32_t)PART(1), mr->lkey);
    mine = (struct end){ .qpn = qp->qp_num, .lid = rig_lid(context, 1), .rkey = mr->rkey, .address = (uintptr_t)m };
    put(me, "end", &mine, sizeof mine);
    get(other, "end", &its, sizeof its);
    rig_rtr(qp, 1, its.qpn, its.lid);
    rig_rts(qp, 14, 7);
    put(me, "ready", "", 1);
    get(other, "ready", &octet, 1);
    if (n > 5 && owner)
        pause();
    else if (n > 5)
        write_on(qp, cq, mr, &its);
    else if (owner)
        as_b(cq, m, (uint64_t *)(void *)(m + PART(2)));
    else
        as_a(qp, cq, mr, &its, m);
    return 0;
}
