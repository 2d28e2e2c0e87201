/*
 * Connections through the kernel's rdma_cm device (linux/rdma_user_cm.h) with AF_IB addresses. Port space IB accepts
 * any service ID, and private data without an additional header, as the kernel's ib_cm does for ib_ipoib.
 */
#include "ipoib.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/rdma_cm"
#define FAMILY_IB 27
#define SERVICE 0x1000000000000000u /* with the UD queue pair in the low 24 bits: Linux' IPOIB_CM_IETF_ID */
#define TIMEOUT_MS 2000
#define RETRIES 7
#define RNR_RETRIES 2               /* few, since TCP retransmits too (RFC 4755, 7.1) */
#define BACKLOG 1024
#define PRIVATE_DATA 8              /* the UD queue pair, and the receive MTU with the encapsulation (RFC 4755, 6) */

/* Copies all fields except qp_state. Declared in libibverbs' marshall.h, which some packages lack. */
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);

int cm_fd = -1;

int cm_open_device(void)
{
    cm_fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return cm_fd < 0 ? -1 : 0;
}

static int command(unsigned number, const void *in, size_t size, size_t out)
{
    struct {
        struct rdma_ucm_cmd_hdr head;
        uint8_t body[sizeof(struct rdma_ucm_accept)];
    } call = { .head = { number, (uint16_t)size, (uint16_t)out } };

    memcpy(call.body, in, size);
    return write(cm_fd, &call, sizeof call.head + size) < 0 ? -1 : 0;
}

/* Write librdmacm's struct sockaddr_ib: family, P_Key, flow information, GID, service ID, mask, scope. */
static size_t address(void *to, const struct interface *i, const uint8_t *gid, uint32_t qpn)
{
    uint8_t *a = to;
    uint64_t service = qpn ? SERVICE | qpn : 0;
    uint16_t family = FAMILY_IB;

    memset(a, 0, 48);
    memcpy(a, &family, sizeof family);
    put16(a + 2, i->pkey);
    memcpy(a + 8, gid, 16);
    put32(a + 24, (uint32_t)(service >> 32));
    put32(a + 28, (uint32_t)service);
    memset(a + 32, 0xff, 8);
    return 48;
}

static int create(void *uid, uint32_t *id)
{
    struct rdma_ucm_create_id_resp answer;
    struct rdma_ucm_create_id c = { .uid = (uintptr_t)uid, .response = (uintptr_t)&answer, .ps = RDMA_PS_IB, .qp_type = IBV_QPT_RC };

    if (command(RDMA_USER_CM_CMD_CREATE_ID, &c, sizeof c, sizeof answer) < 0)
        return -1;
    *id = answer.id;
    return 0;
}

void cm_destroy(uint32_t id)
{
    struct rdma_ucm_destroy_id_resp answer;
    struct rdma_ucm_destroy_id c = { .response = (uintptr_t)&answer, .id = id };

    command(RDMA_USER_CM_CMD_DESTROY_ID, &c, sizeof c, sizeof answer);
}

/* Accept requests for the service of this interface's UD queue pair. */
int cm_listen_for(struct interface *i)
{
    struct rdma_ucm_bind bind = { 0 };
    struct rdma_ucm_listen listen = { .backlog = BACKLOG };

    if (create(i, &listen.id) < 0)
        return -1;
    bind.id = listen.id;
    bind.addr_size = (uint16_t)address(&bind.addr, i, i->gid, i->qp->qp_num);
    if (command(RDMA_USER_CM_CMD_BIND, &bind, sizeof bind, 0) < 0 || command(RDMA_USER_CM_CMD_LISTEN, &listen, sizeof listen, 0) < 0) {
        cm_destroy(listen.id);
        return -1;
    }
    i->listener = listen.id + 1;
    return 0;
}

/* Begin to connect; the events of the id continue it. */
int cm_resolve(struct connection *c)
{
    struct rdma_ucm_resolve_addr r = { .timeout_ms = TIMEOUT_MS };

    if (create(c, &c->id) < 0)
        return -1;
    r.id = c->id;
    r.src_size = (uint16_t)address(&r.src_addr, c->interface, c->interface->gid, 0);
    r.dst_size = (uint16_t)address(&r.dst_addr, c->interface, c->to->hardware + 4, c->to->to.qpn);
    if (command(RDMA_USER_CM_CMD_RESOLVE_ADDR, &r, sizeof r, 0) == 0)
        return 0;
    cm_destroy(c->id);
    return -1;
}

/* Bring the queue pair of an id to a state, and store its path in `attr`. */
int cm_modify(uint32_t id, struct ibv_qp *qp, enum ibv_qp_state to, struct ibv_qp_attr *attr)
{
    struct ib_uverbs_qp_attr answer;
    struct rdma_ucm_init_qp_attr c = { .response = (uintptr_t)&answer, .id = id, .qp_state = to };

    if (command(RDMA_USER_CM_CMD_INIT_QP_ATTR, &c, sizeof c, sizeof answer) < 0)
        return -1;
    ibv_copy_qp_attr_from_kern(attr, &answer);
    attr->qp_state = to;
    return ibv_modify_qp(qp, attr, (int)answer.qp_attr_mask) ? -1 : 0;
}

static struct rdma_ucm_conn_param parameters(const struct connection *c)
{
    struct rdma_ucm_conn_param p = { .qp_num = c->qp->qp_num, .private_data_len = PRIVATE_DATA, .srq = 1, .retry_count = RETRIES,
                                     .rnr_retry_count = RNR_RETRIES, .valid = 1 };

    put32(p.private_data, c->interface->qp->qp_num);
    put32(p.private_data + 4, CONNECTED_MTU + ENCAPSULATION);
    return p;
}

int cm_connect(struct connection *c)
{
    struct rdma_ucm_connect r = { .conn_param = parameters(c), .id = c->id };

    return command(RDMA_USER_CM_CMD_CONNECT, &r, sizeof r, 0);
}

/* Answer a request (`answer`), or confirm the peer's answer. */
int cm_accept(struct connection *c, int answer)
{
    struct rdma_ucm_accept r = { .uid = (uintptr_t)c, .id = c->id };

    if (answer)
        r.conn_param = parameters(c);
    return command(RDMA_USER_CM_CMD_ACCEPT, &r, sizeof r, 0);
}

static int resolve_route(uint32_t id)
{
    struct rdma_ucm_resolve_route r = { .id = id, .timeout_ms = TIMEOUT_MS };

    return command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, &r, sizeof r, 0);
}

/* Handle all pending events. */
void cm_events(void)
{
    struct rdma_ucm_event_resp e;
    struct rdma_ucm_get_event c = { .response = (uintptr_t)&e };

    while (command(RDMA_USER_CM_CMD_GET_EVENT, &c, sizeof c, sizeof e) == 0) {
        void *object = (void *)(uintptr_t)e.uid;
        const struct rdma_ucm_conn_param *p = &e.param.conn;

        if (e.event == CM_CONNECT_REQUEST)
            connection_request(object, e.id, p->private_data, p->private_data_len);
        else if (e.event != CM_ADDR_RESOLVED || resolve_route(e.id) < 0)
            connection_event(object, e.event, p->private_data, p->private_data_len);
    }
}
