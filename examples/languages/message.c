/* A message over a reliable connection, as functions for languages that call C: librdmacm's calls for posting and polling
 * are inline functions of its headers, which no other compiler sees. Return 0, or -1 with errno.
 *
 *     cc -O2 -shared -fPIC message.c -o libmessage.so -lrdmacm -libverbs
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRIES = 100, PAUSE_US = 50000 };

struct end {
    struct rdma_cm_id *id, *listener;
    struct ibv_mr *memory;
};

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
    struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags }, *list;
    struct ibv_qp_init_attr qp = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
    struct rdma_cm_id *id = NULL;

    if (rdma_getaddrinfo(address, "7471", &hints, &list))
        return NULL;
    if (rdma_create_ep(&id, list, NULL, &qp))
        id = NULL;
    rdma_freeaddrinfo(list);
    return id;
}

struct end *message_connect(const char *address, void *buffer, size_t octets)
{
    struct end *end = calloc(1, sizeof *end);

    for (int i = 0; end && i < TRIES; i++) { /* until it listens */
        end->id = endpoint(address, 0);
        if (end->id && !rdma_connect(end->id, NULL)) {
            end->memory = rdma_reg_msgs(end->id, buffer, octets);
            return end;
        }
        if (end->id)
            rdma_destroy_ep(end->id);
        usleep(PAUSE_US);
    }
    free(end);
    return NULL;
}

struct end *message_accept(const char *address, void *buffer, size_t octets)
{
    struct end *end = calloc(1, sizeof *end);

    if (!end || !(end->listener = endpoint(address, RAI_PASSIVE)) || rdma_listen(end->listener, 1) ||
        rdma_get_request(end->listener, &end->id) || !(end->memory = rdma_reg_msgs(end->id, buffer, octets)) ||
        rdma_post_recv(end->id, NULL, buffer, octets, end->memory) || rdma_accept(end->id, NULL)) {
        free(end);
        return NULL;
    }
    return end;
}

static int success(int polled, const struct ibv_wc *wc)
{
    if (polled > 0 && wc->status != IBV_WC_SUCCESS)
        errno = EIO;
    return polled > 0 && wc->status == IBV_WC_SUCCESS ? 0 : -1;
}

int message_send(struct end *end, void *buffer, size_t octets)
{
    struct ibv_wc wc;

    if (!end->memory || rdma_post_send(end->id, NULL, buffer, octets, end->memory, 0))
        return -1;
    return success(rdma_get_send_comp(end->id, &wc), &wc);
}

int message_receive(struct end *end)
{
    struct ibv_wc wc;

    return success(rdma_get_recv_comp(end->id, &wc), &wc);
}

void message_close(struct end *end)
{
    rdma_disconnect(end->id);
    rdma_dereg_mr(end->memory);
    rdma_destroy_ep(end->id);
    if (end->listener)
        rdma_destroy_ep(end->listener);
    free(end);
}
