/* The same over a connection that rdma_cm makes: the survivor hears DISCONNECTED. */
#include "killed.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <time.h>

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel, int ms)
{
    struct pollfd fd = { channel->fd, POLLIN, 0 };
    struct rdma_cm_event *event;

    MUST(poll(&fd, 1, ms) == 1 && !rdma_get_cm_event(channel, &event));
    return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type, struct rdma_cm_id **id)
{
    struct rdma_cm_event *event = next_event(channel, 20000);

    if (event->event != type) {
        fprintf(stderr, "%s (%d) instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(type));
        abort();
    }
    if (id)
        *id = event->id;
    MUST(!rdma_ack_cm_event(event));
}

static struct sockaddr_in at(uint32_t ip, uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = ip };
}

static void make_qp(struct rdma_cm_id *id, struct host *h, struct ibv_cq **cq, struct ibv_mr **mr, struct place *mine)
{
    struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC,
                                  .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 2 } };
    char *buffer = aligned_alloc(4096, BUFFER);

    h->context = id->verbs;
    h->pd = ibv_alloc_pd(id->verbs);
    *cq = ibv_create_cq(id->verbs, 256, NULL, NULL, 0);
    a.send_cq = a.recv_cq = *cq;
    MUST(h->pd && *cq && !rdma_create_qp(id, h->pd, &a));
    *mr = ibv_reg_mr(h->pd, buffer, BUFFER, ALL_ACCESS);
    MUST(*mr);
    for (int i = 0; i < 32; i++)
        post_receive(id->qp, 0, buffer, BUFFER, (*mr)->lkey);
    mine->rkey = (*mr)->rkey;
    mine->address = (uintptr_t)buffer;
}

/* The passive side is 0; its port is the round's. */
static struct rdma_cm_id *meet_by_cm(struct shared *s, int side, struct rdma_event_channel *channel,
                                     struct rdma_cm_id **listener, struct host *h, struct ibv_cq **cq, struct ibv_mr **mr)
{
    struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4, .retry_count = 1, .rnr_retry_count = 7 };
    uint16_t port = (uint16_t)(20000 + s->number % 20000);
    struct rdma_cm_id *id;
    struct sockaddr_in address;

    MUST(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    if (side == 0) {
        address = at(inet_addr(getenv("SOFTIB_ADDRESS")), port);
        *listener = id;
        MUST(!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, 1));
        s->place[0].ip = address.sin_addr.s_addr;
        set_flag(&s->place[0].state, 1);
        expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST, &id);
        make_qp(id, h, cq, mr, &s->place[0]);
        MUST(!rdma_accept(id, &param));
    } else {
        while (__atomic_load_n(&s->place[0].state, __ATOMIC_ACQUIRE) < 1)
            nanosleep(&(struct timespec){ 0, 100000 }, NULL);
        address = at(s->place[0].ip, port);
        MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 10000));
        expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
        MUST(!rdma_resolve_route(id, 10000));
        expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
        make_qp(id, h, cq, mr, &s->place[1]);
        MUST(!rdma_connect(id, &param));
    }
    expect(channel, RDMA_CM_EVENT_ESTABLISHED, NULL);
    return id;
}

static bool is_ready(struct rdma_event_channel *channel)
{
    struct pollfd fd = { channel->fd, POLLIN, 0 };

    return poll(&fd, 1, 0) == 1;
}

/* Transfers until the channel says something; then everything that is out must end. */
static void transfer(struct shared *s, int side, struct rdma_event_channel *channel, struct rdma_cm_id *id, struct host *h,
                     struct ibv_cq *cq, struct ibv_mr *mr)
{
    uint64_t random = s->round.seed * 2 + (unsigned)side + 88172645463325252ull, end = now_ns() + 30000000000ull;
    uint32_t out = 0, step = 0;
    struct ibv_wc wc;
    bool over = false;

    while (!over || out) {
        while (!over && out < OUTSTANDING && id->qp->state == IBV_QPS_RTS) {
            post_one(s, h, id->qp, mr, NULL, &s->place[!side], &random);
            out++;
        }
        while (ibv_poll_cq(cq, 1, &wc) == 1 && !(wc.opcode & IBV_WC_RECV && wc.status == IBV_WC_SUCCESS)) {
            MUST(wc.status == IBV_WC_SUCCESS || __atomic_load_n(&s->dead, __ATOMIC_ACQUIRE));
            out -= wc.opcode < IBV_WC_RECV && out;
        }
        __atomic_fetch_add(&s->place[side].moved, 1, __ATOMIC_RELAXED);
        if (!over && ++step % 16 == 0 && is_ready(channel)) {
            expect(channel, RDMA_CM_EVENT_DISCONNECTED, NULL);
            MUST(__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE));
            __atomic_store_n(&s->reported_ns, now_ns(), __ATOMIC_RELEASE);
            rdma_disconnect(id); /* the QP goes to ERR: what is out is flushed */
            over = true;
        }
        MUST(now_ns() < end);
    }
}

int by_cm(struct shared *s, int side)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener = NULL, *id;
    struct host h = { 0 };
    struct ibv_cq *cq;
    struct ibv_mr *mr;

    MUST(channel);
    id = meet_by_cm(s, side, channel, &listener, &h, &cq, &mr);
    set_flag(&s->place[side].state, 2);
    wait_for(&s->place[!side].state, 2);
    transfer(s, side, channel, id, &h, cq, mr);
    rdma_destroy_qp(id);
    MUST(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(h.pd));
    MUST(!rdma_destroy_id(id) && (!listener || !rdma_destroy_id(listener)));
    rdma_destroy_event_channel(channel);
    return 0;
}
