/* librpma: one node writes to the other's memory, flushes it and reads it back. Arguments: role, address, port. */
#include <librpma.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (4ul << 20)
#define MUST(call) \
    do { \
        int result = (call); \
        if (result) { \
            fprintf(stderr, "%s: %s\n", #call, rpma_err_2str(result)); \
            exit(1); \
        } \
    } while (0)

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 24);
}

static void expect(struct rpma_conn *connection, enum rpma_conn_event wanted)
{
    enum rpma_conn_event event;

    MUST(rpma_conn_next_event(connection, &event));
    if (event != wanted) {
        fprintf(stderr, "%s\n", rpma_utils_conn_event_2str(event));
        exit(1);
    }
}

static int check(const unsigned char *data)
{
    int wrong = 0;

    for (size_t i = 0; i < SIZE; i++)
        wrong |= data[i] != pattern(i);
    printf("checked %lu bytes: %s\n", SIZE, wrong ? "DIFFERENT" : "same");
    return wrong;
}

static void completed(struct rpma_conn *connection)
{
    struct rpma_cq *queue;
    struct ibv_wc done;
    int result;

    MUST(rpma_conn_get_cq(connection, &queue));
    do
        result = rpma_cq_get_wc(queue, 1, &done, NULL);
    while (result == RPMA_E_NO_COMPLETION);
    MUST(result);
    if (done.status) {
        fprintf(stderr, "%s\n", ibv_wc_status_str(done.status));
        exit(1);
    }
}

static int serve(struct rpma_peer *peer, unsigned char *memory, char **to)
{
    struct rpma_conn_private_data data;
    struct rpma_mr_local *region;
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    struct rpma_ep *endpoint;
    size_t size;
    char descriptor[64];

    MUST(rpma_mr_reg(peer, memory, SIZE,
                     RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &region));
    MUST(rpma_mr_get_descriptor_size(region, &size));
    MUST(rpma_mr_get_descriptor(region, descriptor));
    data = (struct rpma_conn_private_data){ descriptor, (uint8_t)size };
    MUST(rpma_ep_listen(peer, to[0], to[1], &endpoint));
    puts("listening");
    fflush(stdout);
    MUST(rpma_ep_next_conn_req(endpoint, NULL, &request));
    MUST(rpma_conn_req_connect(&request, &data, &connection));
    expect(connection, RPMA_CONN_ESTABLISHED);
    expect(connection, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(connection));
    MUST(rpma_conn_delete(&connection));
    MUST(rpma_mr_dereg(&region));
    return check(memory);
}

static int use(struct rpma_peer *peer, unsigned char *memory, char **to)
{
    struct rpma_conn_private_data data;
    struct rpma_mr_local *region;
    struct rpma_mr_remote *there;
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    int wrong;

    for (size_t i = 0; i < SIZE; i++)
        memory[i] = pattern(i);
    MUST(rpma_mr_reg(peer, memory, SIZE,
                     RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &region));
    MUST(rpma_conn_req_new(peer, to[0], to[1], NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &connection));
    expect(connection, RPMA_CONN_ESTABLISHED);
    MUST(rpma_conn_get_private_data(connection, &data));
    MUST(rpma_mr_remote_from_descriptor(data.ptr, data.len, &there));
    MUST(rpma_write(connection, there, 0, region, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(rpma_flush(connection, there, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL));
    completed(connection);
    memset(memory, 0, SIZE);
    MUST(rpma_read(connection, region, 0, there, 0, SIZE, RPMA_F_COMPLETION_ALWAYS, NULL));
    completed(connection);
    wrong = check(memory);
    MUST(rpma_conn_disconnect(connection));
    expect(connection, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&connection));
    return wrong;
}

int main(int n, char **arguments)
{
    struct ibv_context *device;
    struct rpma_peer *peer;
    unsigned char *memory = aligned_alloc(4096, SIZE);
    int serves = n == 4 && !strcmp(arguments[1], "server");

    if (n != 4 || !memory)
        return 2;
    memset(memory, 0, SIZE);
    MUST(rpma_utils_get_ibv_context(arguments[2], serves ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &device));
    MUST(rpma_peer_new(device, &peer));
    return (serves ? serve : use)(peer, memory, arguments + 2);
}
