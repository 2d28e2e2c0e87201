/*
 * "protocols FOLDER SCENARIO": what several processes do with a lock, a ring, a receive or a key at the same time, in every order of
 * steps that explore.c can make of the library's own code, deaths in. Prints how many orders there were.
 */
#include "abi/abi.h"
#include "complete.h"
#include "hazards.h"
#include "key_table.h"
#include "keys.h"
#include "locks.h"
#include "number_table.h"
#include "quiesce.h"
#include "request.h"
#include "timer.h"
#include "wake.h"
#include "rig.h"
#include "explore.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#undef MUST /* the rig's aborts */
#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what))                                                                                                         \
            explore_failed(#what, __LINE__);                                                                                 \
    } while (0)

/* The rig's processes: two peers, and the one whose abi/ this program has. */
static struct rig peers[2], owner;
struct ve_engine va_engine;

static struct vm_heap *heap_of(unsigned program)
{
    return program < 2 ? &peers[program].e.w : &va_engine.w;
}

uint64_t explore_name_of(const void *at)
{
    for (unsigned i = 0; i < 3; i++) {
        uint64_t offset = (uint64_t)((const char *)at - heap_of(i)->base);

        if (offset < SOFTIB_VERBS_SIZE)
            return offset;
    }
    return (uintptr_t)at;
}

static void died(unsigned program)
{
    vm_process(heap_of(program), heap_of(program)->process)->alive = 0; /* the daemon sees that its socket closes */
}

static void all_alive(void)
{
    for (unsigned i = 0; i < 3; i++) {
        struct softib_process *p = vm_process(heap_of(i), heap_of(i)->process);

        p->alive = 1;
        memset(p->hazard, 0, sizeof p->hazard);
        p->sleeping = 0;
    }
}

/* -- a lock whose owner may die: one is inside at a time, and everybody comes in -- */

static uint32_t the_lock, visits;
static int inside;

static void locks_begin(void)
{
    all_alive();
    the_lock = visits = 0;
    inside = -1;
}

static void visit(unsigned program)
{
    vm_lock(heap_of(program), &the_lock);
    MUST(inside < 0 || explore_is_dead((unsigned)inside));
    inside = (int)program;
    explore_step();
    visits++;
    inside = -1;
    vm_unlock(&the_lock);
}

static void visit_0(void) { visit(0); }
static void visit_1(void) { visit(1); }
static void visit_2(void) { visit(2); }

static void locks_end(void)
{
    MUST(!the_lock || explore_is_dead(0));
    MUST(visits + explore_is_dead(0) >= 3);
}

/* -- a completion queue: what is added is polled once, whole, also when one who adds dies -- */

#define CQES 4

static struct va_cq cq;
static uint32_t polled[2];

static uint32_t payload(uint64_t id)
{
    return (uint32_t)id * 1000003u;
}

static void queue_begin(void)
{
    struct softib_cq *s = cq.s;
    uint64_t ring = s->ring;
    char octet;

    all_alive();
    memset(vm_at(&va_engine.w, ring), 0, CQES * sizeof(struct softib_cqe));
    *s = (struct softib_cq){ .size = CQES, .ring = ring, .process = (uint16_t)va_engine.w.process, .channel = cq.channel ? 1 : 0 };
    memset(polled, 0, sizeof polled);
    while (cq.channel && recv(cq.channel->channel.fd, &octet, 1, MSG_DONTWAIT) > 0)
        ;
}

static void add(unsigned program)
{
    struct softib_cqe cqe = { .wr_id = program + 1, .byte_len = payload(program + 1), .opcode = IBV_WC_RECV };

    ve_complete(program < 2 ? &peers[program].e : &va_engine, cq.at, &cqe, false);
}

static void add_0(void) { add(0); }
static void add_1(void) { add(1); }

static bool poll_one(void)
{
    struct ibv_wc wc;

    if (!va_poll_cq((struct ibv_cq *)&cq, 1, &wc))
        return false;
    MUST(wc.wr_id && wc.wr_id <= 2 && wc.byte_len == payload(wc.wr_id)); /* not half of one */
    MUST(!polled[wc.wr_id - 1]++);
    return true;
}

static void poll_all(void)
{
    for (;;) {
        bool over = (explore_has_ended(0) || explore_is_dead(0)) && (explore_has_ended(1) || explore_is_dead(1));

        if (!poll_one() && over)
            return;
        if (!over)
            explore_wait();
    }
}

static void queue_end(void)
{
    for (unsigned i = 0; i < 2; i++)
        MUST(polled[i] == 1 || explore_is_dead(i));
}

/* -- who polls, asks for an event, polls once more and sleeps: no completion is slept over -- */

static bool is_readable(void)
{
    struct pollfd p = { .fd = cq.channel->channel.fd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

static void poll_and_sleep(void)
{
    char octet;

    for (unsigned n = 0; n < 2;) {
        if (poll_one()) {
            n++;
            continue;
        }
        va_req_notify_cq((struct ibv_cq *)&cq, 0);
        if (poll_one()) {
            n++;
            continue;
        }
        explore_until(is_readable);
        MUST(recv(cq.channel->channel.fd, &octet, 1, MSG_DONTWAIT) == 1);
    }
}

static void with_channel(const char *folder)
{
    static struct va_channel channel;
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(at.sun_path, sizeof at.sun_path, "%s/wake-%u-1", folder, va_engine.w.process);
    channel.channel.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    MUST(channel.channel.fd >= 0 && !bind(channel.channel.fd, (struct sockaddr *)&at, sizeof at));
    cq.channel = &channel;
}

/* -- a request that finds no receive, and the responder who posts one: nobody waits in vain -- */

static struct ve_qp *initiator;
static struct va_qp responder;
static char room[8];
static uint32_t room_key;

static void receives_begin(void)
{
    struct softib_qp *s = responder.q.s;
    struct softib_cq *received_at = vm_at(&va_engine.w, s->recv_cq);

    all_alive();
    received_at->consumer = received_at->seen = received_at->producer;
    s->rq_head = s->rq_seen = s->rq_tail = responder.q.receives_freed = 0;
    initiator->completed_first = false; /* of an order that ended in the middle */
    s->waiter = 0;
    s->established = 1; /* else the first order alone raises COMM_EST */
}

/* As the timer thread does: what wakes it is read before the request is tried. */
static void send_until_received(void)
{
    char text[8] = "message";
    struct ibv_sge sge = { (uintptr_t)text, sizeof text, 0 };
    struct ve_wr wr = { .opcode = IBV_WR_SEND, .flags = IBV_SEND_INLINE, .sges = 1, .inline_length = sizeof text, .sge = &sge };
    bool stop = false;

    for (;;) {
        uint32_t seen = vm_wakes(heap_of(0));
        struct ve_outcome outcome = ve_request(initiator, &wr);

        if (!outcome.wait) {
            MUST(outcome.status == IBV_WC_SUCCESS);
            return;
        }
        MUST(outcome.wait == VE_RNR);
        vm_sleep(heap_of(0), seen, 1000000000, &stop);
    }
}

static void post_receive(void)
{
    struct ibv_sge sge = { (uintptr_t)room, sizeof room, room_key };
    struct ibv_recv_wr wr = { .num_sge = 1, .sg_list = &sge }, *bad;

    MUST(!va_post_recv(&responder.q.ex.qp_base, &wr, &bad));
}

static void received(void)
{
    MUST(responder.q.s->rq_head == responder.q.s->rq_tail);
}

/* -- a key is taken away: nobody copies by it when that has returned -- */

static uint32_t key, qpn;
static char area[64];
static bool copying[3];

static void keys_begin(void)
{
    all_alive();
    memset(copying, 0, sizeof copying);
    vm_key_publish(vm_key(&va_engine.w, key), key);
}

static void copy(unsigned program)
{
    copying[program] = true;
    explore_step();
    explore_step();
    copying[program] = false;
}

/* As request.c does: the responder's objects are held before the key is looked at. */
static void copy_as_peer(unsigned program)
{
    struct vm_heap *w = heap_of(program);
    struct ve_part part;
    uint64_t *hazard;

    if (!vm_number_hold(w, qpn, &hazard))
        return;
    if (ve_resolve(&peers[program].e, key, (uintptr_t)area, 8, 0, DOMAIN, va_engine.w.process, qpn, &part))
        copy(program);
    vm_hazard_end(hazard);
}

static void copy_0(void) { copy_as_peer(0); }
static void copy_1(void) { copy_as_peer(1); }

static void take_key_away(void)
{
    vm_key_give(vm_key(&va_engine.w, key));
    vm_quiesce(&va_engine.w);
    for (unsigned i = 0; i < 2; i++)
        MUST(!copying[i] || explore_is_dead(i));
}

/* The same within one process, whose requests raise no hazard: send.c says in the QP that it copies. */
static struct ve_qp *local;

static void copy_locally(void)
{
    struct ve_part part;

    ve_copies_begin(local);
    if (ve_resolve(&va_engine, key, (uintptr_t)area, 8, 0, DOMAIN, va_engine.w.process, 0, &part))
        copy(0);
    ve_copies_end(local);
}

static void deregister(void)
{
    vm_key_give(vm_key(&va_engine.w, key));
    ve_quiesce(&va_engine);
    MUST(!copying[0]);
}

static void local_begin(void)
{
    keys_begin();
    local->s->copies = 0;
}

static void nothing(void)
{
}

static const struct scenario scenarios[] = {
    { "locks", 3, 2, 1, locks_begin, { visit_0, visit_1, visit_2 }, died, locks_end },
    { "ring", 3, 2, 1, queue_begin, { add_0, add_1, poll_all }, died, queue_end },
    { "events", 3, 2, 0, queue_begin, { add_0, add_1, poll_and_sleep }, died, queue_end },
    { "receives", 2, 3, 0, receives_begin, { send_until_received, post_receive }, died, received },
    { "keys", 3, 2, 1, keys_begin, { copy_0, copy_1, take_key_away }, died, nothing },
    { "local", 2, 3, 0, local_begin, { copy_locally, deregister }, died, nothing },
};

int main(int n, char **arguments)
{
    static const struct options plain = { .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr = 12 };
    const struct scenario *s = NULL;
    struct cq c, b_send, b_receive;

    for (unsigned i = 0; n == 3 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(scenarios[i].name, arguments[2]))
            s = &scenarios[i];
    if (!s)
        return 2;
    rig_open(&peers[0], arguments[1], 1, 0);
    rig_open(&peers[1], arguments[1], 2, 0);
    rig_open(&owner, arguments[1], 3, 1);
    b_send = rig_cq(&owner, 16);
    b_receive = rig_cq(&owner, 16);
    c = rig_cq(&peers[0], 16);
    initiator = rig_qp(&peers[0], IBV_QPT_RC, &c, &c, NULL, 4, 0);
    local = rig_qp(&owner, IBV_QPT_RC, &b_send, &b_receive, NULL, 4, 0);
    rig_connect(initiator, local, &plain);
    qpn = local->s->qpn;
    key = rig_mr(&owner, area, sizeof area, ALL_ACCESS, DOMAIN);
    room_key = rig_mr(&owner, room, sizeof room, ALL_ACCESS, DOMAIN);
    c = rig_cq(&owner, CQES);
    cq.at = c.at;
    cq.s = ve_cq(&owner.e, c.at);
    va_engine = owner.e; /* from here on this one alone is used */
    local->e = &va_engine;
    responder.q = *local;
    if (!strcmp(s->name, "events"))
        with_channel(arguments[1]);
    printf("%lu orders\n", explore(s));
    return 0;
}
