/*
 * Two processes share a context by its descriptor. The parent makes things and is the remote side; the child imports them.
 * "imports regions", "imports memory", "imports target".
 */
#include "sharing.h"

#include <fcntl.h>

#define OCTETS 5000

struct handles {
    uint32_t pd, mr, dm, qpn, rkey;
    uint64_t address, target, buffer;
    uint16_t lid;
};

static char *pattern(char *to, int seed)
{
    for (int i = 0; i < OCTETS; i++)
        to[i] = (char)(i * 31 + seed);
    return to;
}

static char expected[OCTETS];

/* -- regions and device memory -- */

static void owner(bool memory)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *shared = ibv_alloc_pd(context), *mine = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp *qp = rig_qp(mine, cq, IBV_QPT_RC);
    char *buffer = malloc(OCTETS), *target = malloc(OCTETS);
    struct ibv_mr *mr = ibv_reg_mr(shared, buffer, OCTETS, ALL), *remote = ibv_reg_mr(mine, target, OCTETS, ALL);
    struct ibv_alloc_dm_attr attr = { .length = 8192 };
    struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
    struct handles t = { .pd = shared->handle, .mr = mr->handle, .dm = dm->handle, .qpn = qp->qp_num, .rkey = remote->rkey,
                      .buffer = (uintptr_t)buffer, .target = (uintptr_t)target, .lid = rig_lid(context, 1) };
    struct end other;

    give(context->cmd_fd);
    say(&t, sizeof t);
    receive_from_peer(&other, sizeof other);
    rig_init(qp, 1);
    rig_rtr(qp, 1, other.qpn, other.lid);
    rig_rts(qp, 14, 7);
    pass_on();
    if (memory) {
        wait_for_peer(); /* it wrote to the device memory */
        MUST(!ibv_memcpy_from_dm(target, dm, 0, 4096) && !memcmp(target, pattern(expected, 1), 4096));
        pattern(target, 2); /* by RDMA through its region of it */
        MUST(rig_send(qp, cq, IBV_WR_RDMA_WRITE, (uintptr_t)target, 4096, remote->lkey, 4096, other.rkey, 0).status == 0);
        pass_on();
        MUST(rig_send(qp, cq, IBV_WR_RDMA_READ, (uintptr_t)target, 4096, remote->lkey, 0, other.rkey, 0).status == 0);
        MUST(!memcmp(target, pattern(expected, 1), 4096));
    } else {
        pattern(buffer, 1);
        pass_on();
        wait_for_peer(); /* it wrote from the region */
        MUST(!memcmp(target, pattern(expected, 1), OCTETS));
        pattern(target, 2);
        pass_on();
        wait_for_peer(); /* it read into the region */
        MUST(!memcmp(buffer, pattern(expected, 2), OCTETS));
        pattern(target, 3); /* its QP opens the region, too */
        MUST(rig_send(qp, cq, IBV_WR_RDMA_WRITE, (uintptr_t)target, OCTETS, remote->lkey, t.buffer, mr->rkey, 0).status == 0);
        MUST(!memcmp(buffer, pattern(expected, 3), OCTETS));
        pass_on();
        wait_for_peer(); /* and it posted a receive there */
        pattern(target, 4);
        MUST(rig_send(qp, cq, IBV_WR_SEND, (uintptr_t)target, OCTETS, remote->lkey, 0, 0, 0).status == 0);
        MUST(!memcmp(buffer, pattern(expected, 4), OCTETS));
    }
    pass_on();
    wait_for_peer();
    MUST(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_dereg_mr(remote) && !ibv_free_dm(dm) && !ibv_dealloc_pd(shared));
}

static void importer(bool memory)
{
    struct ibv_context *context = ibv_import_device(take());
    struct ibv_pd *pd, *other;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr, *of_dm;
    struct ibv_dm *dm;
    struct handles t;
    struct end mine;

    MUST(context);
    receive_from_peer(&t, sizeof t);
    pd = ibv_import_pd(context, t.pd);
    other = ibv_alloc_pd(context);
    MUST(pd && other && !ibv_import_mr(other, t.mr) && errno == EINVAL); /* another domain's */
    MUST(!ibv_import_mr(pd, t.mr ^ 0x100) && !ibv_import_dm(context, t.qpn) && !ibv_import_dm(context, 0));
    mr = ibv_import_mr(pd, t.mr);
    dm = ibv_import_dm(context, t.dm);
    MUST(mr && !mr->addr && mr->length == OCTETS && dm);
    of_dm = ibv_reg_dm_mr(pd, dm, 0, 8192, ALL | IBV_ACCESS_ZERO_BASED);
    MUST(of_dm);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    qp = rig_qp(pd, cq, IBV_QPT_RC);
    rig_init(qp, 1);
    mine = (struct end){ .qpn = qp->qp_num, .lid = rig_lid(context, 1), .rkey = of_dm->rkey };
    rig_rtr(qp, 1, t.qpn, t.lid);
    rig_rts(qp, 14, 7);
    say(&mine, sizeof mine);
    wait_for_peer();
    if (memory) {
        MUST(!ibv_memcpy_to_dm(dm, 0, pattern(expected, 1), 4096));
        pass_on();
        wait_for_peer();
        MUST(!ibv_memcpy_from_dm(expected, dm, 4096, 4096));
        char *want = malloc(OCTETS);
        MUST(!memcmp(expected, pattern(want, 2), 4096));
    } else {
        wait_for_peer();
        MUST(rig_send(qp, cq, IBV_WR_RDMA_WRITE, t.buffer, OCTETS, mr->lkey, t.target, t.rkey, 0).status == 0);
        pass_on();
        wait_for_peer();
        MUST(rig_send(qp, cq, IBV_WR_RDMA_READ, t.buffer, OCTETS, mr->lkey, t.target, t.rkey, 0).status == 0);
        pass_on();
        wait_for_peer();
        rig_recv(qp, t.buffer, OCTETS, mr->lkey);
        pass_on();
        MUST(rig_poll(cq).status == IBV_WC_SUCCESS);
    }
    wait_for_peer();
    MUST(!ibv_destroy_qp(qp) && !ibv_dereg_mr(of_dm));
    ibv_unimport_mr(mr);
    ibv_unimport_dm(dm);
    ibv_unimport_pd(pd);
    pass_on();
}

/* -- XRC: a target that one process made and the other brings to RTS, with an SRQ of the other -- */

static struct ibv_xrcd *domain(struct ibv_context *context, int fd)
{
    struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd,
                                       .oflags = O_CREAT };

    return ibv_open_xrcd(context, &attr);
}

static void target_owner(int file)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_xrcd *xrcd = domain(context, file);
    struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
    struct ibv_qp *target = ibv_create_qp_ex(context, &init), *sender = rig_qp(pd, cq, IBV_QPT_XRC_SEND);
    char *buffer = pattern(malloc(OCTETS), 1);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, OCTETS, ALL);
    struct handles t = { .qpn = target->qp_num, .rkey = sender->qp_num, .lid = rig_lid(context, 1) };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr made;
    uint32_t srqn;

    rig_init(target, 1);
    rig_init(sender, 1);
    rig_rtr(sender, 1, target->qp_num, t.lid);
    rig_rts(sender, 10, 1);
    say(&t, sizeof t);
    receive_from_peer(&srqn, sizeof srqn);
    MUST(!ibv_query_qp(target, &attr, IBV_QP_STATE, &made)); /* what the other did is seen here */
    MUST(attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == sender->qp_num && attr.min_rnr_timer == 1);
    MUST(rig_send(sender, cq, IBV_WR_SEND, (uintptr_t)buffer, OCTETS, mr->lkey, 0, 0, srqn).status == IBV_WC_SUCCESS);
    MUST(!ibv_destroy_qp(target) && !ibv_close_xrcd(xrcd)); /* the other has it still */
    pattern(buffer, 2);
    MUST(rig_send(sender, cq, IBV_WR_SEND, (uintptr_t)buffer, OCTETS, mr->lkey, 0, 0, srqn).status == IBV_WC_SUCCESS);
    pass_on();
    wait_for_peer(); /* it has destroyed it */
    MUST(rig_send(sender, cq, IBV_WR_SEND, (uintptr_t)buffer, 8, mr->lkey, 0, 0, srqn).status == IBV_WC_RETRY_EXC_ERR);
}

static void target_opener(int file)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_xrcd *xrcd = domain(context, file), *strange = domain(context, -1);
    struct ibv_srq_init_attr_ex attr = {
        .attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
    };
    struct ibv_srq *srq = ibv_create_srq_ex(context, &attr);
    char *buffer = malloc(2 * OCTETS);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, 2 * OCTETS, ALL);
    struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
                                     .qp_type = IBV_QPT_XRC_RECV };
    struct ibv_qp *target;
    struct handles t;
    uint32_t srqn;

    receive_from_peer(&t, sizeof t);
    open.qp_num = t.qpn;
    open.xrcd = strange;
    MUST(!ibv_open_qp(context, &open) && errno == EINVAL); /* not in this domain */
    open.xrcd = xrcd;
    target = ibv_open_qp(context, &open);
    MUST(target && target->qp_num == t.qpn && target->state == IBV_QPS_INIT && ibv_close_xrcd(xrcd) == EBUSY);
    rig_rtr(target, 1, t.rkey, t.lid);
    rig_rts(target, 10, 1);
    for (int i = 0; i < 2; i++) {
        struct ibv_sge sge = { (uintptr_t)buffer + (unsigned)i * OCTETS, OCTETS, mr->lkey };
        struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

        MUST(!ibv_post_srq_recv(srq, &wr, &bad));
    }
    MUST(!ibv_get_srq_num(srq, &srqn));
    say(&srqn, sizeof srqn);
    for (int i = 0; i < 2; i++) {
        struct ibv_wc wc = rig_poll(cq);

        MUST(wc.status == IBV_WC_SUCCESS && wc.byte_len == OCTETS);
        MUST(!memcmp(buffer + i * OCTETS, pattern(expected, i + 1), OCTETS));
    }
    wait_for_peer();
    MUST(!ibv_destroy_qp(target) && !ibv_destroy_srq(srq) && !ibv_close_xrcd(xrcd));
    MUST(!ibv_open_qp(context, &open));
    pass_on();
}

int main(int argc, char **argv)
{
    int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    pid_t child;
    bool first = sharing_fork(&child);

    MUST(argc == 2);
    if (!strcmp(argv[1], "target"))
        (first ? target_owner : target_opener)(file);
    else
        (first ? owner : importer)(!strcmp(argv[1], "memory"));
    return first ? sharing_end(child) : 0;
}
