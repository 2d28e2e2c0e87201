/*
 * The end of what two processes share by a context's descriptor: who destroys it destroys it for both. "shared_ends ends",
 * "shared_ends mixed", "shared_ends race ROUNDS", "shared_ends importer ROUNDS", "shared_ends maker".
 */
#include "sharing.h"

#include <sys/mman.h>

#define AREA (4 << 20)
#define TAIL 65536
#define PIECE 5000

struct handles {
    uint32_t pd, mr, dm, rkey;
    uint64_t area, target;
};

static struct ibv_context *context;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct handles t;

static char *map(void)
{
    char *at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(at != MAP_FAILED);
    return at;
}

/* Both connect a new QP. */
static void meet(struct ibv_pd *pd)
{
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 3,
                                                                     .max_recv_sge = 3 } };
    struct end mine = { .lid = rig_lid(context, 1) }, other;

    if (!cq)
        cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    init.send_cq = init.recv_cq = cq;
    qp = ibv_create_qp(pd, &init);
    MUST(qp);
    mine.qpn = qp->qp_num;
    say(&mine, sizeof mine);
    receive_from_peer(&other, sizeof other);
    rig_init(qp, 1);
    rig_rtr(qp, 1, other.qpn, other.lid);
    rig_rts(qp, 14, 7);
    pass_on();
    wait_for_peer();
}

static enum ibv_wc_status write_from(uint64_t address, uint32_t lkey)
{
    return rig_send(qp, cq, IBV_WR_RDMA_WRITE, address, PIECE, lkey, t.target, t.rkey, 0).status;
}

/* No window is bound to another process's memory: by ibv_bind_mw, and by a request. */
static void binds_no_window(struct ibv_pd *pd, struct ibv_mr *mr)
{
    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        struct ibv_cq *its = ibv_create_cq(context, 4, NULL, NULL, 0);
        struct ibv_qp *loop = rig_qp(pd, its, IBV_QPT_RC);
        struct ibv_mw *mw = ibv_alloc_mw(pd, type);
        struct ibv_mw_bind_info info = { .mr = mr, .addr = t.area, .length = 4096, .mw_access_flags = IBV_ACCESS_REMOTE_READ };
        struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
        struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = { mw, mw->rkey + 1, info } }, *bad;

        rig_init(loop, 1);
        rig_rtr(loop, 1, loop->qp_num, rig_lid(context, 1));
        rig_rts(loop, 14, 7);
        MUST(!(type == IBV_MW_TYPE_1 ? ibv_bind_mw(loop, mw, &bind) : ibv_post_send(loop, &wr, &bad)));
        MUST(rig_poll(its).status == IBV_WC_MW_BIND_ERR);
        MUST(!ibv_destroy_qp(loop) && !ibv_dealloc_mw(mw) && !ibv_destroy_cq(its));
    }
}

/* -- ends: first the owner ends it, then the other -- */

static void owner_ends(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    char *area = map(), *target = malloc(PIECE);
    struct ibv_mr *mr = ibv_reg_mr(pd, area, AREA, ALL | IBV_ACCESS_MW_BIND), *remote = ibv_reg_mr(pd, target, PIECE, ALL);
    struct ibv_alloc_dm_attr attr = { .length = 8192 };
    struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

    t = (struct handles){ .pd = pd->handle, .mr = mr->handle, .dm = dm->handle, .area = (uintptr_t)area, .rkey = remote->rkey,
                       .target = (uintptr_t)target };
    memset(area, 1, AREA);
    say(&t, sizeof t);
    meet(pd);
    wait_for_peer(); /* it has written from the region, and has one of the device memory */
    MUST(target[PIECE - 1] == 1 && ibv_free_dm(dm) == EBUSY && !ibv_memcpy_to_dm(dm, 0, area, 4096));
    pass_on();
    wait_for_peer(); /* it has none any more */
    MUST(!ibv_free_dm(dm) && !ibv_dereg_mr(mr) && !munmap(area, AREA));
    pass_on();
    wait_for_peer();
    MUST(!ibv_destroy_qp(qp));
    area = map();
    mr = ibv_reg_mr(pd, area, AREA, ALL);
    dm = ibv_alloc_dm(context, &attr);
    t.mr = mr->handle;
    t.dm = dm->handle;
    say(&t, sizeof t);
    meet(pd);
    wait_for_peer(); /* it has ended both */
    MUST(write_from((uintptr_t)area, mr->lkey) == IBV_WC_LOC_PROT_ERR);
    MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && errno == EINVAL);
    MUST(ibv_dereg_mr(mr) == ENOENT && ibv_free_dm(dm) == ENOENT && ibv_memcpy_to_dm(dm, 0, target, 4096));
    ibv_unimport_mr(mr);
    MUST(!ibv_destroy_qp(qp) && !ibv_dereg_mr(remote) && !ibv_dealloc_pd(pd));
}

static void importer_ends(void)
{
    static char octets[4096];
    struct ibv_mr *mr, *of_dm;
    struct ibv_pd *pd;
    struct ibv_dm *dm;

    receive_from_peer(&t, sizeof t);
    MUST(!ibv_import_pd(context, 0) && errno == EINVAL && !ibv_import_pd(context, 1u << 31) && errno == EINVAL);
    pd = ibv_import_pd(context, t.pd);
    mr = ibv_import_mr(pd, t.mr);
    dm = ibv_import_dm(context, t.dm);
    MUST(pd && mr && dm);
    of_dm = ibv_reg_dm_mr(pd, dm, 0, 8192, ALL | IBV_ACCESS_ZERO_BASED);
    MUST(of_dm);
    meet(pd);
    MUST(write_from(t.area, mr->lkey) == IBV_WC_SUCCESS && !ibv_memcpy_to_dm(dm, 0, octets, 4096));
    MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && errno == EINVAL);
    binds_no_window(pd, mr);
    pass_on();
    wait_for_peer();
    MUST(!ibv_dereg_mr(of_dm));
    pass_on();
    wait_for_peer(); /* the owner has ended both */
    MUST(ibv_memcpy_to_dm(dm, 0, octets, 4096) == EINVAL && ibv_memcpy_from_dm(octets, dm, 0, 4096) == EINVAL);
    MUST(!ibv_reg_dm_mr(pd, dm, 0, 8192, ALL | IBV_ACCESS_ZERO_BASED) && errno == EINVAL && !ibv_import_dm(context, t.dm));
    MUST(write_from(t.area, mr->lkey) == IBV_WC_LOC_PROT_ERR && !ibv_import_mr(pd, t.mr));
    MUST(ibv_dereg_mr(mr) == ENOENT && ibv_free_dm(dm) == ENOENT);
    ibv_unimport_mr(mr);
    ibv_unimport_dm(dm);
    MUST(!ibv_destroy_qp(qp));
    pass_on();
    receive_from_peer(&t, sizeof t);
    mr = ibv_import_mr(pd, t.mr);
    dm = ibv_import_dm(context, t.dm);
    meet(pd);
    MUST(mr && dm && !ibv_dereg_mr(mr) && !ibv_free_dm(dm));
    pass_on();
    MUST(!ibv_destroy_qp(qp));
    ibv_unimport_pd(pd);
}

/* -- mixed: one list of memory of both -- */

static void owner_mixes(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    char *area = map(), *from = malloc(3 * PIECE);
    struct ibv_mr *mr = ibv_reg_mr(pd, area, AREA, ALL), *source = ibv_reg_mr(pd, from, 3 * PIECE, ALL);

    for (int i = 0; i < 3 * PIECE; i++)
        from[i] = (char)(i * 31);
    t = (struct handles){ .pd = pd->handle, .mr = mr->handle, .area = (uintptr_t)area, .rkey = source->rkey, .target = (uintptr_t)from };
    say(&t, sizeof t);
    meet(pd);
    wait_for_peer(); /* it has posted its receive */
    MUST(rig_send(qp, cq, IBV_WR_SEND, (uintptr_t)from, 3 * PIECE, source->lkey, 0, 0, 0).status == IBV_WC_SUCCESS);
    MUST(!memcmp(area + 100, from + PIECE, PIECE) && area[99] == 0 && area[100 + PIECE] == 0);
    memset(area, 0, AREA);
    pass_on();
    wait_for_peer(); /* it has read into the same places */
    MUST(!memcmp(area + 100, from + PIECE, PIECE) && area[99] == 0 && area[100 + PIECE] == 0);
}

static void importer_mixes(void)
{
    char *local = map(), *want = malloc(3 * PIECE);
    struct ibv_sge sges[3];
    struct ibv_recv_wr receive = { .sg_list = sges, .num_sge = 3 }, *bad;
    struct ibv_send_wr read = { .sg_list = sges, .num_sge = 3, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED }, *wrong;
    struct ibv_mr *mr, *mine;
    struct ibv_pd *pd;

    receive_from_peer(&t, sizeof t);
    pd = ibv_import_pd(context, t.pd);
    mr = ibv_import_mr(pd, t.mr);
    mine = ibv_reg_mr(pd, local, AREA, ALL);
    sges[0] = (struct ibv_sge){ (uintptr_t)local + 10, PIECE, mine->lkey };
    sges[1] = (struct ibv_sge){ t.area + 100, PIECE, mr->lkey };
    sges[2] = (struct ibv_sge){ (uintptr_t)local + 3 * PIECE, PIECE, mine->lkey };
    for (int i = 0; i < 3 * PIECE; i++)
        want[i] = (char)(i * 31);
    meet(pd);
    MUST(!ibv_post_recv(qp, &receive, &bad));
    pass_on();
    MUST(rig_poll(cq).status == IBV_WC_SUCCESS);
    MUST(!memcmp(local + 10, want, PIECE) && !memcmp(local + 3 * PIECE, want + 2 * PIECE, PIECE) && local[9] == 0 && local[10 + PIECE] == 0);
    memset(local, 0, AREA);
    wait_for_peer();
    read.wr.rdma.remote_addr = t.target;
    read.wr.rdma.rkey = t.rkey;
    MUST(!ibv_post_send(qp, &read, &wrong) && rig_poll(cq).status == IBV_WC_SUCCESS);
    MUST(!memcmp(local + 10, want, PIECE) && !memcmp(local + 3 * PIECE, want + 2 * PIECE, PIECE) && local[9] == 0 && local[10 + PIECE] == 0);
    pass_on();
}

/* -- race: the owner ends it while the other reads into it -- */

static void owner_races(int rounds)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    char *area = map(), *from = memset(map(), 'w', AREA);
    struct ibv_mr *source = ibv_reg_mr(pd, from, AREA, ALL), *mr;

    t = (struct handles){ .pd = pd->handle, .rkey = source->rkey, .target = (uintptr_t)from, .area = (uintptr_t)area };
    for (int round = 0; round < rounds; round++) {
        mr = ibv_reg_mr(pd, area, AREA, ALL);
        t.mr = mr->handle;
        say(&t, sizeof t);
        meet(pd);
        wait_for_peer(); /* it has read once */
        nanosleep(&(struct timespec){ 0, round * 37 % 1500 * 1000 }, NULL);
        if (round % 2)
            MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
        else
            MUST(!ibv_dereg_mr(mr));
        memset(area + AREA - TAIL, 'c', TAIL);
        nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
        for (int i = AREA - TAIL; i < AREA; i++)
            MUST(area[i] == 'c');
        wait_for_peer();
        MUST(!ibv_destroy_qp(qp) && (round % 2 == 0 || !ibv_dereg_mr(mr)));
    }
}

static void importer_races(int rounds)
{
    struct ibv_pd *pd = NULL;
    struct ibv_mr *mr;
    uint64_t n;

    for (int round = 0; round < rounds; round++) {
        receive_from_peer(&t, sizeof t);
        pd = pd ? pd : ibv_import_pd(context, t.pd);
        mr = ibv_import_mr(pd, t.mr);
        meet(pd);
        for (n = 0; rig_send(qp, cq, IBV_WR_RDMA_READ, t.area, AREA, mr->lkey, t.target, t.rkey, 0).status == IBV_WC_SUCCESS; n++)
            if (!n)
                pass_on();
        MUST(n);
        ibv_unimport_mr(mr);
        MUST(!ibv_destroy_qp(qp));
        pass_on();
    }
}

/*
 * -- importer: the other ends it while its owner reads into it from a third process; both have the memory, so that the other sees what
 * comes late --
 */

static char *both;
static int aside; /* line between the owner and the third */

static void swap_lines(void)
{
    int other = line;

    line = aside;
    aside = other;
}

static void third(int rounds)
{
    struct ibv_pd *pd;
    char *from = memset(map(), 'w', AREA);
    struct ibv_mr *source;

    context = rig_device();
    pd = ibv_alloc_pd(context);
    source = ibv_reg_mr(pd, from, AREA, ALL);
    for (int round = 0; round < rounds; round++) {
        t = (struct handles){ .rkey = source->rkey, .target = (uintptr_t)from };
        say(&t, sizeof t);
        meet(pd);
        wait_for_peer();
        MUST(!ibv_destroy_qp(qp));
    }
}

static void owner_goes_on(int rounds)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);

    for (int round = 0; round < rounds; round++) {
        struct ibv_mr *mr = ibv_reg_mr(pd, both, AREA, ALL);
        struct handles first;
        uint64_t n;

        swap_lines();
        receive_from_peer(&first, sizeof first);
        meet(pd);
        swap_lines();
        t = (struct handles){ .pd = pd->handle, .mr = mr->handle };
        say(&t, sizeof t);
        for (n = 0; rig_send(qp, cq, IBV_WR_RDMA_READ, (uintptr_t)both, AREA, mr->lkey, first.target, first.rkey, 0).status == IBV_WC_SUCCESS; n++)
            if (!n)
                pass_on();
        MUST(n);
        wait_for_peer();
        MUST(ibv_dereg_mr(mr) == ENOENT);
        ibv_unimport_mr(mr);
        MUST(!ibv_destroy_qp(qp));
        swap_lines();
        pass_on();
        swap_lines();
    }
}

static void importer_takes_away(int rounds)
{
    struct ibv_pd *pd = NULL;
    struct ibv_mr *mr;

    for (int round = 0; round < rounds; round++) {
        receive_from_peer(&t, sizeof t);
        pd = pd ? pd : ibv_import_pd(context, t.pd);
        mr = ibv_import_mr(pd, t.mr);
        MUST(mr);
        wait_for_peer(); /* it has read once */
        nanosleep(&(struct timespec){ 0, round * 37 % 1500 * 1000 }, NULL);
        MUST(!ibv_dereg_mr(mr));
        memset(both + AREA - TAIL, 'c', TAIL);
        nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
        for (int i = AREA - TAIL; i < AREA; i++)
            MUST(both[i] == 'c');
        pass_on();
    }
}

/* -- maker: device memory goes with the process that made it, and regions that others made of it open nothing any more -- */

static void makes_and_goes(void)
{
    struct ibv_alloc_dm_attr attr = { .length = 8192 };
    struct ibv_dm *dm;

    context = rig_device();
    give(context->cmd_fd);
    dm = ibv_alloc_dm(context, &attr);
    MUST(dm);
    t.dm = dm->handle;
    say(&t, sizeof t);
    wait_for_peer();
}

/* A request between 8 octets of `mr` and of the device memory: `local` says which of them is the requester's. */
static enum ibv_wc_status status_of(enum ibv_wr_opcode op, bool local, struct ibv_mr *mr, struct ibv_mr *of_dm)
{
    struct ibv_mr *here = local ? of_dm : mr, *there = local ? mr : of_dm;
    struct ibv_sge sge = { (uintptr_t)here->addr, 8, here->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED }, *bad;

    if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)there->addr;
        wr.wr.atomic.rkey = there->rkey;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)there->addr;
        wr.wr.rdma.rkey = there->rkey;
    }
    MUST(!ibv_post_send(qp, &wr, &bad));
    return rig_poll(cq).status;
}

static void stays_behind(pid_t child)
{
    static char area[4096];
    time_t end = time(NULL) + 60;
    struct ibv_mr *of_dm, *mr;
    struct ibv_pd *pd;
    struct ibv_dm *dm;
    int status;

    context = ibv_import_device(take());
    receive_from_peer(&t, sizeof t);
    pd = ibv_alloc_pd(context);
    dm = ibv_import_dm(context, t.dm);
    of_dm = ibv_reg_dm_mr(pd, dm, 0, 8192, ALL | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
    mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    MUST(of_dm && mr && cq && !ibv_import_mr(pd, of_dm->handle) && errno == EINVAL);
    binds_no_window(pd, of_dm);
    for (int i = 0; i < 4; i++) {
        struct { enum ibv_wr_opcode op; bool local; enum ibv_wc_status then; } const how[] = {
            { IBV_WR_RDMA_READ, true, IBV_WC_LOC_PROT_ERR }, { IBV_WR_RDMA_WRITE, true, IBV_WC_LOC_PROT_ERR },
            { IBV_WR_RDMA_WRITE, false, IBV_WC_REM_ACCESS_ERR }, { IBV_WR_ATOMIC_FETCH_AND_ADD, false, IBV_WC_REM_ACCESS_ERR },
        };

        qp = rig_qp(pd, cq, IBV_QPT_RC);
        rig_init(qp, 1);
        rig_rtr(qp, 1, qp->qp_num, rig_lid(context, 1));
        rig_rts(qp, 14, 7);
        if (child) {
            for (int j = 0; j < 4; j++) /* as long as it is there */
                MUST(status_of(how[j].op, how[j].local, mr, of_dm) == IBV_WC_SUCCESS);
            pass_on();
            MUST(waitpid(child, &status, 0) == child && status == 0);
            child = 0;
        }
        MUST(status_of(how[i].op, how[i].local, mr, of_dm) == how[i].then);
        MUST(!ibv_destroy_qp(qp));
    }
    while (ibv_memcpy_to_dm(dm, 0, area, 8) != EINVAL) /* the fabric has not heard of it yet */
        MUST(time(NULL) < end);
    MUST(!ibv_dereg_mr(of_dm) && !ibv_dereg_mr(mr));
    ibv_unimport_dm(dm);
    puts("ok");
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    pid_t child;
    bool owner;
    int pair[2];

    both = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc == 3 && !strcmp(argv[1], "importer")) {
        MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        aside = pair[0];
        line = pair[1];
        if (!fork()) {
            close(aside);
            third(rounds);
            return 0;
        }
        close(line);
    }
    owner = sharing_fork(&child);
    if (argc == 2 && !strcmp(argv[1], "maker")) {
        if (owner)
            stays_behind(child);
        else
            makes_and_goes();
        return 0;
    }

    MUST(argc >= 2);
    context = owner ? rig_device() : ibv_import_device(take());
    MUST(context);
    if (owner)
        give(context->cmd_fd);
    if (!strcmp(argv[1], "ends"))
        (owner ? owner_ends : importer_ends)();
    else if (!strcmp(argv[1], "mixed"))
        (owner ? owner_mixes : importer_mixes)();
    else if (!strcmp(argv[1], "importer"))
        (owner ? owner_goes_on : importer_takes_away)(rounds);
    else
        (owner ? owner_races : importer_races)(rounds);
    return owner ? sharing_end(child) : 0;
}
