/* A message over a reliable connection, with librdmacm and libibverbs alone.
 *
 *     cc -O2 examples/rdma_hello.c -o rdma_hello -lrdmacm -libverbs
 *     softib run --node host-0001 -- ./rdma_hello &
 *     softib run --node host-0002 -- ./rdma_hello "$(softib run --node host-0001 -- printenv SOFTIB_ADDRESS)"
 *
 * Without an argument it listens on its node's address; with one it connects there and sends.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 64, TRIES = 100, PAUSE_US = 50000 };
static const char port[] = "7471";

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "rdma_hello: %s: %s\n", what, strerror(errno));
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
    for (int i = 0; i < TRIES; i++) { /* until it listens */
        struct rdma_cm_id *id = endpoint(address, 0);
        if (!rdma_connect(id, NULL))
            return id;
        rdma_destroy_ep(id);
        usleep(PAUSE_US);
    }
    check(1, "rdma_connect");
    return NULL;
}

static void wait_for(int (*poll)(struct rdma_cm_id *, struct ibv_wc *), struct rdma_cm_id *id, const char *what)
{
    struct ibv_wc wc;
    check(poll(id, &wc) < 0, what);
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "rdma_hello: %s: %s\n", what, ibv_wc_status_str(wc.status));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static char text[ROOM];
    struct rdma_cm_id *id, *listener = NULL;
    struct ibv_mr *mr;
    if (argc > 1) {
        id = connected(argv[1]);
        check(!(mr = rdma_reg_msgs(id, text, ROOM)), "rdma_reg_msgs");
        snprintf(text, ROOM, "hello from %s", getenv("SOFTIB_PLACE") ? getenv("SOFTIB_PLACE") : "far away");
        check(rdma_post_send(id, NULL, text, ROOM, mr, 0), "rdma_post_send");
        wait_for(rdma_get_send_comp, id, "send");
    } else {
        listener = endpoint(getenv("SOFTIB_ADDRESS"), 1);
        check(rdma_listen(listener, 1), "rdma_listen");
        check(rdma_get_request(listener, &id), "rdma_get_request");
        check(!(mr = rdma_reg_msgs(id, text, ROOM)), "rdma_reg_msgs");
        check(rdma_post_recv(id, NULL, text, ROOM, mr), "rdma_post_recv");
        check(rdma_accept(id, NULL), "rdma_accept");
        wait_for(rdma_get_recv_comp, id, "receive");
        printf("%s\n", text);
    }
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    if (listener)
        rdma_destroy_ep(listener);
    return 0;
}
