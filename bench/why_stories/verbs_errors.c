/* Errors that perftest cannot make: a receiver without receives, a wrong key, registrations beyond the limit.
 *
 *     verbs_errors serve ADDRESS MODE       MODE: idle (posts no receive), key
 *     verbs_errors send ADDRESS MODE
 *     verbs_errors register                 registers memory until the device refuses
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 4096, TRIES = 100, PAUSE_US = 50000, IDLE_S = 6 };
static const char port[] = "7473";

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct rdma_cm_id *endpoint(const char *address, int listens)
{
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = listens ? RAI_PASSIVE : 0 }, *found;
    struct ibv_qp_init_attr qp = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
    struct rdma_cm_id *id;
    check(rdma_getaddrinfo(address, port, &hints, &found), "rdma_getaddrinfo");
    check(rdma_create_ep(&id, found, NULL, &qp), "rdma_create_ep");
    rdma_freeaddrinfo(found);
    return id;
}

static struct rdma_cm_id *connected(const char *address)
{
    struct rdma_conn_param how = { .retry_count = 7, .rnr_retry_count = 2, .responder_resources = 1, .initiator_depth = 1 };
    for (int i = 0; i < TRIES; i++) {
        struct rdma_cm_id *id = endpoint(address, 0);
        if (!rdma_connect(id, &how))
            return id;
        rdma_destroy_ep(id);
        usleep(PAUSE_US);
    }
    check(1, "rdma_connect");
    return NULL;
}

static int serve(const char *address, const char *mode)
{
    static char text[ROOM];
    struct rdma_cm_id *listener = endpoint(address, 1), *id;
    check(rdma_listen(listener, 1), "rdma_listen");
    check(rdma_get_request(listener, &id), "rdma_get_request");
    struct ibv_mr *mr = rdma_reg_write(id, text, ROOM);
    check(!mr, "rdma_reg_write");
    struct rdma_conn_param how = { .retry_count = 7, .rnr_retry_count = 2, .responder_resources = 1, .initiator_depth = 1 };
    check(rdma_accept(id, &how), "rdma_accept");
    printf("serving, %s, rkey 0x%x\n", mode, mr->rkey);
    fflush(stdout);
    sleep(IDLE_S);
    return 0;
}

static int send_to(const char *address, const char *mode)
{
    static char text[ROOM];
    struct rdma_cm_id *id = connected(address);
    struct ibv_mr *mr = rdma_reg_msgs(id, text, ROOM);
    struct ibv_wc wc;
    check(!mr, "rdma_reg_msgs");
    struct ibv_sa_path_rec *path = id->route.path_rec;
    printf("connected, slid %u dlid %u\n", be16toh(path->slid), be16toh(path->dlid));
    fflush(stdout);
    if (!strcmp(mode, "key"))
        check(rdma_post_write(id, NULL, text, ROOM, mr, 0, 4096, 0x12345), "rdma_post_write");
    else
        check(rdma_post_send(id, NULL, text, ROOM, mr, 0), "rdma_post_send");
    check(rdma_get_send_comp(id, &wc) < 0, "rdma_get_send_comp");
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "work completion: %s (%d), vendor_err 0x%x, qp 0x%x\n", ibv_wc_status_str(wc.status), wc.status,
                wc.vendor_err, wc.qp_num);
        return 1;
    }
    return 0;
}

static int register_all(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *context = n ? ibv_open_device(list[0]) : NULL;
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    static char text[ROOM];
    check(!pd, "ibv_alloc_pd");
    for (long i = 0; i < 4000000; i++) {
        if (!ibv_reg_mr(pd, text, ROOM, IBV_ACCESS_LOCAL_WRITE)) {
            fprintf(stderr, "ibv_reg_mr on %s: %s (after %ld regions)\n", ibv_get_device_name(list[0]), strerror(errno), i);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "serve"))
        return serve(argv[2], argv[3]);
    if (argc == 4 && !strcmp(argv[1], "send"))
        return send_to(argv[2], argv[3]);
    return register_all();
}
