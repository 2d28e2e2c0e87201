/* The verbs objects of an interface (device, queue pair, memory) and the events of its port. */
#include "ipoib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECEIVES_OCTETS ((size_t)RECEIVES * SLOT)
#define CONNECTED_HEADERS ((size_t)(BUFFERS + CONNECTED_SENDS) * MOST_SEGMENTS * HEADERS)
#define CONNECTED_OCTETS (CONNECTED_HEADERS + (size_t)CONNECTED_RECEIVES * CONNECTED_SLOT)

static int fails(struct interface *i, const char *what)
{
    snprintf(i->problem, sizeof i->problem, "%s: %s", what, strerror(errno));
    return -1;
}

static struct ibv_context *open_named(const char *name)
{
    int n = 0;
    struct ibv_device **all = ibv_get_device_list(&n);
    struct ibv_context *context = NULL;

    for (int d = 0; all && d < n; d++)
        if (!strcmp(ibv_get_device_name(all[d]), name))
            context = ibv_open_device(all[d]);
    if (all)
        ibv_free_device_list(all);
    return context;
}

/* Read LID, SM LID, GID and the size of the P_Key table. Return nonzero if the port is active. */
static int read_port(struct interface *i)
{
    struct ibv_port_attr port;

    if (ibv_query_port(i->context, (uint8_t)i->portnum, &port))
        return 0;
    i->lid = port.lid;
    i->sm_lid = port.sm_lid;
    i->sm_sl = port.sm_sl;
    i->group_mtu = 128u << port.active_mtu;
    i->pkeys = port.pkey_tbl_len;
    ibv_query_gid(i->context, (uint8_t)i->portnum, 0, (union ibv_gid *)i->gid);
    return port.state == IBV_PORT_ACTIVE;
}

static void join(struct interface *i)
{
    uint8_t mgid[16];

    if (i->broadcast)
        i->broadcast->state = GROUP_IDLE;
    mgid_of_ip4(i, (const uint8_t *)"\xff\xff\xff\xff", mgid);
    i->broadcast = group_of(i, mgid, 1);
}

/* Allocate the memory of the queues, in one registration. Pages are used as packets arrive. Return 0, or -1 with errno.
 * */
static int allocate(struct interface *i)
{
    unsigned buffers = BUFFERS + (i->connected ? CONNECTED_SENDS : 0);
    size_t headers = (size_t)buffers * PACKET, receives = headers + (size_t)SENDS * HEADERS, more = receives + RECEIVES_OCTETS;
    size_t size = more + (i->connected ? CONNECTED_OCTETS : 0);
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -1;
    i->buffers = memory;
    i->headers = memory + headers;
    i->receives = memory + receives;
    i->connected_headers = memory + more;
    i->connected_receives = memory + more + CONNECTED_HEADERS;
    for (unsigned k = 0; k < BUFFERS; k++)
        i->place[k] = (uint8_t)k;
    for (unsigned k = BUFFERS; k < buffers; k++)
        i->spare[i->spares++] = (uint8_t)k;
    i->mr = i->pd ? ibv_reg_mr(i->pd, memory, size, IBV_ACCESS_LOCAL_WRITE) : NULL;
    return i->mr ? 0 : -1;
}

/* Open the device, create the TAP and join the broadcast group; the answer to the join starts the rest. Return 0, or -1
 * and set `problem`; `tap` is -1 if it cannot be used. */
int interface_open(struct interface *i)
{
    int sends = SENDS + (i->connected ? CONNECTED_SENDS : 0), receives = RECEIVES + (i->connected ? CONNECTED_RECEIVES : 0), active;

    i->context = open_named(i->device);
    if (!i->context)
        return fails(i, i->device);
    fcntl(i->context->async_fd, F_SETFL, fcntl(i->context->async_fd, F_GETFL) | O_NONBLOCK);
    i->pd = ibv_alloc_pd(i->context);
    i->channel = ibv_create_comp_channel(i->context);
    i->send_cq = i->channel ? ibv_create_cq(i->context, sends, NULL, i->channel, 0) : NULL;
    i->recv_cq = i->channel ? ibv_create_cq(i->context, receives, NULL, i->channel, 0) : NULL;
    if (!i->send_cq || !i->recv_cq || allocate(i) < 0)
        return fails(i, "queues and memory");
    fcntl(i->channel->fd, F_SETFL, fcntl(i->channel->fd, F_GETFL) | O_NONBLOCK);
    if (sa_open(i) < 0)
        return fails(i, "umad device");
    active = read_port(i);
    if (tap_make(i) < 0)
        return fails(i, "TAP device");
    if (partition_find(i) == PARTITION_NONE) {
        snprintf(i->problem, sizeof i->problem, "no P_Key; is a subnet manager running?");
        return -1;
    }
    if (!active) {
        snprintf(i->problem, sizeof i->problem, "the port is not active");
        return -1;
    }
    join(i);
    return 0;
}

static int post_receives(struct interface *i)
{
    for (unsigned k = 0; k < RECEIVES; k++) {
        struct ibv_sge sge = { (uintptr_t)i->receives + (uintptr_t)k * SLOT, GRH_OCTETS + MOST_MTU, i->mr->lkey };
        struct ibv_recv_wr wr = { .wr_id = k, .sg_list = &sge, .num_sge = 1 }, *bad;

        if (ibv_post_recv(i->qp, &wr, &bad))
            return -1;
    }
    return 0;
}

static int queue_pair(struct interface *i)
{
    struct ibv_qp_init_attr init = {
        .send_cq = i->send_cq, .recv_cq = i->recv_cq, .qp_type = IBV_QPT_UD,
        .cap = { .max_send_wr = SENDS, .max_recv_wr = RECEIVES, .max_send_sge = 2, .max_recv_sge = 1 },
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .pkey_index = (uint16_t)i->pkey_index, .port_num = (uint8_t)i->portnum,
                                .qkey = i->broadcast->to.qkey };

    if (!i->qp && !(i->qp = ibv_create_qp(i->pd, &init)))
        return -1;
    if (ibv_modify_qp(i->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) || post_receives(i))
        return -1;
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(i->qp, &attr, IBV_QP_STATE))
        return -1;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(i->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -1 : 0;
}

static void join_all_nodes(struct interface *i)
{
    static const uint8_t ip6[16] = { 0xff, 2, [15] = 1 };
    uint8_t mgid[16];

    mgid_of_ip4(i, (const uint8_t *)"\xe0\0\0\1", mgid);
    group_of(i, mgid, 1);
    mgid_of_ip6(i, ip6, mgid);
    group_of(i, mgid, 1);
}

static int set_mtu(struct interface *i)
{
    uint32_t group = 128u << i->broadcast->mtu;

    i->mtu = (group < i->group_mtu ? group : i->group_mtu) - ENCAPSULATION;
    return i->connected ? tap_set_mtu(i, CONNECTED_MTU) : tap_set_mtu(i, i->mtu);
}

/* After the broadcast group is joined: set up queue pair, hardware address and MTU of the TAP. */
int interface_start(struct interface *i)
{
    if (queue_pair(i) < 0)
        return fails(i, "queue pair");
    put32(i->hardware, i->qp->qp_num | (i->connected ? (uint32_t)HAS_RC << 24 : 0));
    memcpy(i->hardware + 4, i->gid, 16);
    if (set_mtu(i) < 0)
        return fails(i, "MTU");
    if (i->connected && connected_start(i) < 0)
        return fails(i, "connected mode");
    i->running = i->coalesce = i->readable = 1;
    i->problem[0] = 0;
    tap_carrier(i, 1);
    neighbours_forget_paths(i);
    groups_start(i);
    join_all_nodes(i);
    return 0;
}

/* Called when the broadcast group is joined again, possibly with another MTU, rate and SL. */
int interface_renew(struct interface *i)
{
    if (set_mtu(i) < 0)
        return fails(i, "MTU");
    groups_start(i);
    return 0;
}

/* Called when the port has left the interface's partition, or the P_Key has moved to another index. The interface has
 * no carrier until it has joined the broadcast group again. The queue pair keeps its number. */
static void interface_stop(struct interface *i)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    struct ibv_wc wc;

    groups_stop(i);
    if (!i->running)
        return;
    i->running = 0;
    tap_carrier(i, 0);
    if (i->connected)
        connected_stop(i);
    ibv_modify_qp(i->qp, &attr, IBV_QP_STATE);
    while (ibv_poll_cq(i->recv_cq, 1, &wc) > 0)
        if (wc.qp_num != i->qp->qp_num)
            connected_repost(i, (unsigned)wc.wr_id);
    while (ibv_poll_cq(i->send_cq, 1, &wc) > 0)
        ; /* the buffer of this completion is released with the others */
    i->freed = i->used;
    i->done = i->posted;
}

/* Called when the port has a new LID, SM or P_Key table: query groups and paths again. */
static void changed(struct interface *i)
{
    int active = read_port(i);
    enum partition partition = partition_find(i);

    if (i->tap < 0)
        return;
    if (partition != PARTITION_SAME)
        interface_stop(i);
    tap_carrier(i, active && i->running);
    if (partition == PARTITION_NONE)
        snprintf(i->problem, sizeof i->problem, "the port is no longer in partition 0x%04x", i->pkey & 0x7fff);
    if (!active || partition == PARTITION_NONE)
        return;
    if (!i->running) {
        join(i);
    } else {
        groups_rejoin(i);
        neighbours_forget_paths(i);
    }
}

/* Handle all pending asynchronous events. Return whether the P_Key table changed. */
int interface_events(struct interface *i)
{
    struct ibv_async_event event;
    int pkeys = 0;

    while (!ibv_get_async_event(i->context, &event)) {
        enum ibv_event_type type = event.event_type;
        unsigned port = (unsigned)event.element.port_num;

        ibv_ack_async_event(&event);
        switch (type) {
        case IBV_EVENT_DEVICE_FATAL:
            say("the fabric went down");
            _exit(0);
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
            if (port == i->portnum) {
                changed(i);
                pkeys |= type == IBV_EVENT_PKEY_CHANGE;
            }
            break;
        default:
            break;
        }
    }
    return pkeys;
}
