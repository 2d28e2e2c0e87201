#include "peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct host host_open(void)
{
    struct host h;
    struct ibv_device **list = ibv_get_device_list(NULL);

    MUST(list && list[0]);
    h.context = ibv_open_device(list[0]);
    MUST(h.context);
    ibv_free_device_list(list);
    h.pd = ibv_alloc_pd(h.context);
    MUST(h.pd && !ibv_query_port(h.context, 1, &h.port));
    return h;
}

uint16_t host_pkey(const struct host *h, uint16_t pkey)
{
    uint16_t value;

    for (int i = 0; i < h->port.pkey_tbl_len; i++)
        if (!ibv_query_pkey(h->context, 1, i, &value) && ntohs(value) == pkey)
            return (uint16_t)i;
    fprintf(stderr, "no P_Key %x\n", pkey);
    abort();
}

struct ibv_qp *host_qp(const struct host *h, enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq, uint32_t depth)
{
    struct ibv_qp_init_attr a = {
        .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
        .cap = { .max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64 },
    };
    struct ibv_qp *qp = ibv_create_qp(h->pd, &a);

    MUST(qp);
    return qp;
}

int to_init(struct ibv_qp *qp, uint16_t pkey_index)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .pkey_index = pkey_index, .port_num = 1, .qkey = QKEY,
                             .qp_access_flags = ALL_ACCESS };

    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int to_rtr(struct ibv_qp *qp, const struct link *l)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = l->qpn, .rq_psn = l->psn, .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1, .ah_attr = { .dlid = l->lid, .port_num = 1 },
    };

    return ibv_modify_qp(qp, &a, qp->qp_type == IBV_QPT_UD ? IBV_QP_STATE
                             : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   (qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
}

int to_rts(struct ibv_qp *qp, const struct link *l)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .sq_psn = l->psn, .timeout = l->timeout, .retry_cnt = l->retry_cnt,
                             .rnr_retry = l->rnr_retry, .max_rd_atomic = 4 };

    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN |
                                     (qp->qp_type == IBV_QPT_RC ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                                      IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

void to_reset(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
}

void connect_qp(struct ibv_qp *qp, const struct link *l)
{
    MUST(!to_init(qp, l->pkey_index) && !to_rtr(qp, l) && !to_rts(qp, l));
}

void post_receive(struct ibv_qp *qp, uint64_t id, void *to, uint32_t length, uint32_t lkey)
{
    struct ibv_sge sge = { (uintptr_t)to, length, lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(!ibv_post_recv(qp, &wr, &bad));
}

int await(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
    uint64_t end = now_ns() + (uint64_t)ms * 1000000;

    for (uint32_t n = 1;; n++) {
        int got = ibv_poll_cq(cq, 1, wc);

        MUST(got >= 0);
        if (got || (n % 64 == 0 && now_ns() >= end))
            return got;
        if (n % 4096 == 0)
            nanosleep(&(struct timespec){ 0, 100000 }, NULL); /* others need the processor, too */
    }
}

void *meet(const char *path, size_t octets)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at;

    MUST(fd >= 0 && !ftruncate(fd, (off_t)octets));
    at = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(at != MAP_FAILED);
    close(fd);
    return at;
}

void wait_for(const uint32_t *flag, uint32_t value)
{
    for (int i = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value; i++) {
        MUST(i < 120000);
        nanosleep(&(struct timespec){ 0, 500000 }, NULL);
    }
}

void set_flag(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t starved_ns(void)
{
    static __thread int fd = -1;
    unsigned long long ran, waited;
    char text[100];
    ssize_t n;

    if (fd < 0)
        fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull >> 16;
}
