/* Regions that are not the program's memory: null (ibv_alloc_null_mr(3)) and by descriptor (ibv_reg_dmabuf_mr(3)). Two processes. */
#include "rig.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { FILE_SIZE = 3 * 4096, OFFSET = 4196, LENGTH = 5000 };
static const uint64_t IOVA = 0x700000001000;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void meet(int channel, struct end *mine, struct end *other)
{
    struct ibv_port_attr port;

    MUST(!ibv_query_port(context, 1, &port));
    mine->qpn = qp->qp_num;
    mine->lid = port.lid;
    MUST(write(channel, mine, sizeof *mine) == sizeof *mine && read(channel, other, sizeof *other) == sizeof *other);
    rig_rtr(qp, 1, other->qpn, other->lid);
    rig_rts(qp, 14, 7);
}

static void await(int channel)
{
    char c = 0;

    MUST(write(channel, &c, 1) == 1 && read(channel, &c, 1) == 1);
}

static void post(enum ibv_wr_opcode opcode, struct ibv_sge *sges, int n, uint64_t address, uint32_t rkey,
                 enum ibv_wc_status expected)
{
    struct ibv_send_wr *bad, wr = { .sg_list = sges, .num_sge = n, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
                                    .wr.rdma = { address, rkey } };
    struct ibv_wc wc;

    MUST(!ibv_post_send(qp, &wr, &bad));
    while (!ibv_poll_cq(cq, 1, &wc))
        ;
    MUST(wc.status == expected);
}

static void begin(void)
{
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4 } };

    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    init.send_cq = init.recv_cq = cq;
    qp = ibv_create_qp(pd, &init);
    MUST(qp);
    rig_init(qp, 1);
}

/* Writes into the peer's buffer, reads it back with a hole, sends what it half discards, and is refused. */
static void child(int channel)
{
    static char buffer[LENGTH], back[LENGTH];
    struct end mine = { 0 }, other;
    struct ibv_mr *mr, *null;
    struct ibv_sge sges[3];
    uint32_t lkey;

    begin();
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, ALL);
    null = ibv_alloc_null_mr(pd);
    MUST(mr && null && null->rkey == 0 && ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL));
    meet(channel, &mine, &other);
    for (int i = 0; i < LENGTH; i++)
        buffer[i] = (char)(i * 7 + 1);
    sges[0] = (struct ibv_sge){ (uintptr_t)buffer, LENGTH, mr->lkey };
    post(IBV_WR_RDMA_WRITE, sges, 1, other.address, other.rkey, IBV_WC_SUCCESS);
    /* Zeros in the middle: 100 of the buffer's, 200 of nothing, at any address, and 100 of the buffer's. */
    sges[0].length = 100;
    sges[1] = (struct ibv_sge){ 0xDEAD0000BEEF, 200, null->lkey };
    sges[2] = (struct ibv_sge){ (uintptr_t)buffer + 300, 100, mr->lkey };
    post(IBV_WR_RDMA_WRITE, sges, 3, other.address + 1000, other.rkey, IBV_WC_SUCCESS);
    await(channel);
    await(channel); /* the file was looked at */
    /* A read whose middle is discarded. */
    mr = ibv_reg_mr(pd, back, sizeof back, ALL);
    MUST(mr);
    sges[0] = (struct ibv_sge){ (uintptr_t)back, 1000, mr->lkey };
    sges[1] = (struct ibv_sge){ 0, 400, null->lkey };
    sges[2] = (struct ibv_sge){ (uintptr_t)back + 1400, LENGTH - 1400, mr->lkey };
    post(IBV_WR_RDMA_READ, sges, 3, other.address, other.rkey, IBV_WC_SUCCESS);
    for (int i = 0; i < LENGTH; i++)
        MUST(back[i] == (i >= 1000 && i < 1400 ? 0 : buffer[i]));
    sges[0] = (struct ibv_sge){ 0, 300, null->lkey }; /* written to above: still zeros */
    post(IBV_WR_RDMA_WRITE, sges, 1, other.address, other.rkey, IBV_WC_SUCCESS);
    await(channel);
    sges[0] = (struct ibv_sge){ (uintptr_t)buffer, 64, ibv_reg_mr(pd, buffer, 64, ALL)->lkey };
    post(IBV_WR_SEND, sges, 1, 0, 0, IBV_WC_SUCCESS);
    MUST(read(channel, &lkey, sizeof lkey) == sizeof lkey);
    sges[0].length = 8;
    post(IBV_WR_RDMA_WRITE, sges, 1, 0, lkey, IBV_WC_REM_ACCESS_ERR);
    exit(0);
}

int main(void)
{
    char file[FILE_SIZE], into[32];
    struct ibv_recv_wr *bad, wr = { .num_sge = 2 };
    struct ibv_sge sges[2];
    struct end mine = { 0 }, other;
    struct ibv_mr *buffer, *null, *mr;
    struct ibv_wc wc;
    int ends[2], fd = memfd_create("buffer", 0), copy, status;
    pid_t pid;

    MUST(fd >= 0 && !ftruncate(fd, FILE_SIZE) && !socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid = fork();
    if (!pid) {
        close(ends[0]);
        child(ends[1]);
    }
    close(ends[1]);
    begin();
    copy = dup(fd);
    MUST(lseek(fd, 77, SEEK_SET) == 77); /* the program's place in the file stays */
    buffer = ibv_reg_dmabuf_mr(pd, OFFSET, LENGTH, IOVA, fd, ALL);
    null = ibv_alloc_null_mr(pd);
    mr = ibv_reg_mr(pd, into, sizeof into, ALL);
    MUST(buffer && null && mr && buffer->length == LENGTH && lseek(fd, 0, SEEK_CUR) == 77);
    MUST(!ibv_reg_dmabuf_mr(pd, OFFSET, FILE_SIZE, IOVA, fd, ALL) && errno == EINVAL);
    MUST(!ibv_reg_dmabuf_mr(pd, 0, 4096, IOVA, ends[0], ALL) && errno == EOPNOTSUPP);
    close(fd);
    MUST(!ibv_reg_dmabuf_mr(pd, 0, 4096, IOVA, fd, ALL) && errno == EBADF);
    mine.address = IOVA;
    mine.rkey = buffer->rkey;
    meet(ends[0], &mine, &other);
    await(ends[0]); /* both writes are done */
    MUST(pread(copy, file, sizeof file, 0) == sizeof file);
    for (int i = 0; i < FILE_SIZE; i++) {
        int at = i - OFFSET, from = at >= 1000 && at < 1400 ? at - 1000 : at;
        char expected = at < 0 || at >= LENGTH || (from != at && from >= 100 && from < 300) ? 0 : (char)(from * 7 + 1);

        MUST(file[i] == expected);
    }
    await(ends[0]);
    memset(into, 0x55, sizeof into);
    sges[0] = (struct ibv_sge){ 0x1234, 40, null->lkey };
    sges[1] = (struct ibv_sge){ (uintptr_t)into, 24, mr->lkey };
    wr.sg_list = sges;
    MUST(!ibv_post_recv(qp, &wr, &bad));
    await(ends[0]);
    while (!ibv_poll_cq(cq, 1, &wc))
        ;
    MUST(wc.status == IBV_WC_SUCCESS && wc.byte_len == 64);
    for (int i = 0; i < 24; i++)
        MUST(into[i] == (char)((40 + i) * 7 + 1));
    MUST(into[24] == 0x55);
    MUST(pread(copy, file, sizeof file, 0) == sizeof file && file[OFFSET] == 0 && file[OFFSET + 300] == (char)(300 * 7 + 1));
    MUST(write(ends[0], &null->lkey, sizeof null->lkey) == sizeof null->lkey);
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    MUST(!ibv_dereg_mr(buffer) && !ibv_dereg_mr(null));
    MUST(pread(copy, file, sizeof file, 0) == sizeof file && file[OFFSET + 300] == (char)(300 * 7 + 1));
    puts("ok");
    return 0;
}
