/*
 * A connection with an alternate path, between two nodes whose ports have two LIDs each. "apm FOLDER first|second BIT": the two
 * tell each other what they know through files in FOLDER; BIT is the LID of the primary path. "apm FOLDER first|second ports":
 * the alternate path is from second port to second port. The test cuts the primary path when it reads "armed".
 */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>

#define OCTETS 64
#define PRIMARY_TIMEOUT 8 /* 1.05 ms */
#define ALTERNATE_TIMEOUT 10

static const char *folder, *me, *other;
static struct ibv_context *context;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char buffer[OCTETS];
static struct end mine, its;
static int step;
static uint8_t bit;
static bool ports;

static void publish(const void *what, size_t octets)
{
    char path[300], made[310];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s-%d", folder, me, step);
    snprintf(made, sizeof made, "%s.new", path);
    MUST((file = fopen(made, "w")) && fwrite(what, octets, 1, file) == 1 && !fclose(file) && !rename(made, path));
}

static void learn(const char *of, void *what, size_t octets)
{
    time_t end = time(NULL) + 60;
    char path[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s-%d", folder, of, step);
    while (!(file = fopen(path, "r"))) {
        MUST(time(NULL) < end);
        usleep(1000);
    }
    MUST(fread(what, octets, 1, file) == 1 && !fclose(file));
}

/* Both are here. */
static void meet(void)
{
    char octet = 0;

    step++;
    publish(&octet, 1);
    learn(other, &octet, 1);
}

static struct ibv_qp_attr now(void)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr a;

    MUST(!ibv_query_qp(qp, &a, IBV_QP_PATH_MIG_STATE | IBV_QP_AV | IBV_QP_TIMEOUT, &init));
    return a;
}

static enum ibv_event_type event(void)
{
    struct pollfd p = { context->async_fd, POLLIN, 0 };
    struct ibv_async_event e;

    for (;;) {
        MUST(poll(&p, 1, 20000) == 1 && !ibv_get_async_event(context, &e));
        ibv_ack_async_event(&e);
        if (e.event_type == IBV_EVENT_PATH_MIG || e.event_type == IBV_EVENT_PATH_MIG_ERR)
            return e.event_type;
    }
}

static void load(struct ibv_qp_attr *a, uint16_t dlid)
{
    uint8_t portnum = ports && dlid != its.lid ? 2 : 1;

    a->alt_ah_attr = (struct ibv_ah_attr){ .dlid = dlid, .port_num = portnum,
                                           .src_path_bits = ports ? 0 : dlid == its.lid ? bit : !bit };
    a->alt_port_num = portnum;
    a->alt_timeout = ALTERNATE_TIMEOUT;
}

static int rearm(uint16_t dlid)
{
    struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_REARM };

    load(&a, dlid);
    return ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH);
}

static int set(enum ibv_mig_state state)
{
    struct ibv_qp_attr a = { .path_mig_state = state };

    return ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE);
}

static enum ibv_wc_status write_there(void)
{
    return rig_send(qp, cq, IBV_WR_RDMA_WRITE, (uintptr_t)buffer, OCTETS, mr->lkey, its.address, its.rkey, 0).status;
}

static void connect_both(void)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = its.qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
        .ah_attr = { .dlid = its.lid, .port_num = 1, .src_path_bits = bit },
    };

    rig_init(qp, 1);
    load(&a, its.alternate);
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH));
    rig_rts(qp, PRIMARY_TIMEOUT, 1);
    MUST(now().path_mig_state == IBV_MIG_MIGRATED && set(IBV_MIG_ARMED) == EINVAL); /* that comes of itself */
    MUST(!set(IBV_MIG_REARM) && now().path_mig_state == IBV_MIG_REARM);
}

int main(int argc, char **argv)
{
    bool first;
    struct ibv_pd *pd;

    MUST(argc == 4);
    ports = !strcmp(argv[3], "ports");
    bit = ports ? 0 : (uint8_t)atoi(argv[3]);
    folder = argv[1];
    me = argv[2];
    first = !strcmp(me, "first");
    other = first ? "second" : "first";
    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    qp = rig_qp(pd, cq, IBV_QPT_RC);
    mr = ibv_reg_mr(pd, buffer, OCTETS, ALL);
    MUST(rearm(1) == EINVAL); /* not in RESET */
    mine = (struct end){ .qpn = qp->qp_num, .lid = rig_lid(context, 1), .rkey = mr->rkey, .address = (uintptr_t)buffer };
    mine.alternate = ports ? rig_lid(context, 2) : (uint16_t)(mine.lid + !bit);
    mine.lid += bit;
    publish(&mine, sizeof mine);
    learn(other, &its, sizeof its);
    connect_both();
    meet();
    if (first) { /* the first message arms both */
        MUST(now().path_mig_state == IBV_MIG_REARM && write_there() == IBV_WC_SUCCESS);
    }
    meet();
    MUST(now().path_mig_state == IBV_MIG_ARMED && now().ah_attr.dlid == its.lid && now().timeout == PRIMARY_TIMEOUT);
    if (first) {
        time_t end = time(NULL) + 60;

        puts("armed");
        fflush(stdout);
        while (now().path_mig_state == IBV_MIG_ARMED) { /* retries are spent, then it goes the other way */
            MUST(write_there() == IBV_WC_SUCCESS && time(NULL) < end);
            usleep(100);
        }
        memset(buffer, 1, OCTETS);
        MUST(write_there() == IBV_WC_SUCCESS);
    }
    MUST(event() == IBV_EVENT_PATH_MIG);
    meet();
    MUST(first || buffer[OCTETS - 1] == 1);
    MUST(now().path_mig_state == IBV_MIG_MIGRATED && now().ah_attr.dlid == its.alternate && now().port_num == 1 + ports);
    MUST(now().timeout == ALTERNATE_TIMEOUT && write_there() == IBV_WC_SUCCESS); /* also back */
    meet();
    if (first) {
        printf("migrated\n");
        fflush(stdout);
        char octet;
        learn("mended", &octet, 1);
    }
    meet();
    MUST(set(IBV_MIG_REARM) == EINVAL); /* its alternate path is used up */
    MUST(!rearm(its.lid));
    meet();
    MUST(first || write_there() == IBV_WC_SUCCESS);
    meet();
    MUST(now().path_mig_state == IBV_MIG_ARMED);
    meet();
    if (first) /* told to */
        MUST(!set(IBV_MIG_MIGRATED) && now().ah_attr.dlid == its.lid && write_there() == IBV_WC_SUCCESS);
    MUST(event() == IBV_EVENT_PATH_MIG && now().path_mig_state == IBV_MIG_MIGRATED && now().ah_attr.dlid == its.lid);
    meet();
    MUST(!rearm(first ? its.alternate : its.alternate + 64)); /* the second's leads elsewhere */
    meet();
    MUST(!first || write_there() == IBV_WC_SUCCESS);
    meet();
    if (first) {
        MUST(!set(IBV_MIG_MIGRATED) && event() == IBV_EVENT_PATH_MIG);
        MUST(write_there() == IBV_WC_RETRY_EXC_ERR); /* refused */
    } else {
        MUST(event() == IBV_EVENT_PATH_MIG_ERR && now().path_mig_state == IBV_MIG_ARMED);
    }
    puts("ok");
    return 0;
}
