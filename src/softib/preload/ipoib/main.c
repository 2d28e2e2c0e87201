/*
 * softib-ipoib LISTEN NETNS USERNS SOCKET4 SOCKET6 NETLINK TAP,… CONNECTED DEVICE,PORT,ROW …: descriptors created by
 * softib.ulp.ipoib, the mode (1: connected), and one argument per port. It exits when no program uses the node's
 * network, or when the fabric is down.
 */
#include "ipoib.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EACH 4         /* number of descriptors per interface: TAP, completions, MADs, events */
#define MOST_FDS (1026 + IPOIB_INTERFACES * EACH)
#define READY_MS 15000 /* an interface to which the SA has not replied by this time has no group */
#define TICK_MS 1000
#define IDLE_TICKS 2
#define FIRST 9        /* index of the first DEVICE,PORT,ROW argument */

static struct interface interfaces[IPOIB_INTERFACES];
static unsigned count;
static volatile sig_atomic_t terminated;

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Write a line to the log, which softib run shows if this program ends before it is ready. */
void say(const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", line);
}

static int parse(struct interface *i, const char *word)
{
    if (sscanf(word, "%31[^,],%u,%u", i->device, &i->portnum, &i->row) != 3)
        return -1;
    snprintf(i->name, sizeof i->name, "ib%u", i->number);
    return 0;
}

static struct interface *blank(void)
{
    struct interface *i = &interfaces[count];

    memset(i, 0, sizeof *i);
    i->number = count;
    i->connected = connected_mode;
    i->tap = i->umad = -1;
    return i;
}

/* Create an interface for each P_Key that has none. */
static void add_children(void)
{
    unsigned parents = 0;
    uint16_t pkey;

    while (parents < count && !interfaces[parents].parent)
        parents++;
    for (unsigned k = 0; k < parents; k++)
        while ((pkey = partition_without_interface(&interfaces[k], interfaces, count))) {
            struct interface *i;

            if (count == IPOIB_INTERFACES) {
                say("P_Key 0x%04x has no interface: %u is the limit", pkey, count);
                return;
            }
            i = blank();
            i->parent = &interfaces[k];
            memcpy(i->device, i->parent->device, sizeof i->device);
            i->portnum = i->parent->portnum;
            i->row = i->parent->row;
            i->pkey = pkey;
            snprintf(i->name, sizeof i->name, "%.8s.%04x", i->parent->name, pkey | 0x8000);
            count++;
            if (interface_open(i) < 0)
                say("%s: %s", i->name, i->problem);
        }
}

static void on_term(int number)
{
    (void)number;
    terminated = 1;
}

/* Return whether the SA has answered the group query of each interface. */
static int all_known(uint64_t began)
{
    int known = 1;

    for (unsigned k = 0; k < count; k++) {
        struct interface *i = &interfaces[k];

        if (i->running || i->problem[0])
            continue;
        if (i->broadcast && i->broadcast->state != GROUP_FAILED && now_ms() - began < READY_MS) {
            known = 0;
            continue;
        }
        snprintf(i->problem, sizeof i->problem, "the subnet manager has no group for IP in partition 0x%04x", i->pkey & 0x7fff);
    }
    return known;
}

static void drain_channel(struct interface *i)
{
    struct ibv_cq *cq;
    void *unused;

    while (!ibv_get_cq_event(i->channel, &cq, &unused))
        ibv_ack_cq_events(cq, 1);
}

/* Arm the completion queues. True: completions are already pending. */
static int arm(struct interface *i)
{
    if (!i->running)
        return 0;
    ibv_req_notify_cq(i->recv_cq, 0);
    ibv_req_notify_cq(i->send_cq, 0);
    reclaim(i);
    return receive(i);
}

static unsigned watch(struct pollfd *fds)
{
    unsigned n = clients_poll(fds);

    fds[n++] = (struct pollfd){ cm_fd, POLLIN, 0 };
    for (unsigned k = 0; k < count; k++) {
        struct interface *i = &interfaces[k];

        fds[n++] = (struct pollfd){ i->tap, can_send(i) ? POLLIN : 0, 0 };
        fds[n++] = (struct pollfd){ i->channel ? i->channel->fd : -1, POLLIN, 0 };
        fds[n++] = (struct pollfd){ i->umad, POLLIN, 0 };
        fds[n++] = (struct pollfd){ i->context ? i->context->async_fd : -1, POLLIN, 0 };
    }
    return n;
}

/* Handle the descriptors that are ready. Return whether a P_Key table changed. */
static int attend(const struct pollfd *fds)
{
    int pkeys = 0;

    for (unsigned k = 0; k < count; k++, fds += EACH) {
        struct interface *i = &interfaces[k];

        if (fds[0].revents)
            i->readable = 1;
        if (fds[1].revents)
            drain_channel(i);
        if (fds[2].revents)
            sa_read(i);
        if (fds[3].revents)
            pkeys |= interface_events(i);
    }
    return pkeys;
}

static int move(void)
{
    int moved = 0;

    for (unsigned k = 0; k < count; k++) {
        moved |= receive(&interfaces[k]);
        if (interfaces[k].readable)
            moved |= transmit(&interfaces[k]);
    }
    return moved;
}

/* Do the periodic work. False: softib-ipoib must exit. */
static int tick(void)
{
    static unsigned idle;

    for (unsigned k = 0; k < count; k++)
        groups_tick(&interfaces[k], now_ms());
    if (clients_count()) {
        idle = 0;
        return 1;
    }
    idle = netns_is_used() ? 0 : idle + 1;
    return idle < IDLE_TICKS;
}

static void serve(void)
{
    static struct pollfd fds[MOST_FDS];
    uint64_t began = now_ms(), ticked = began;
    int ready = 0, moved = 0;

    while (!terminated) {
        unsigned n;
        int wait = TICK_MS;

        if (moved)
            wait = 0;
        for (unsigned k = 0; !moved && k < count; k++)
            if (arm(&interfaces[k]))
                wait = 0;
        n = watch(fds);
        if (poll(fds, n, wait) > 0) {
            int pkeys;

            n -= count * EACH;
            pkeys = attend(fds + n);
            if (fds[--n].revents)
                cm_events();
            clients_serve(fds, n);
            if (pkeys)
                add_children();
        }
        if (!ready && (ready = all_known(began)))
            clients_ready(interfaces, &count);
        moved = move();
        if (now_ms() - ticked >= TICK_MS) {
            ticked = now_ms();
            if (!tick())
                break;
        }
    }
}

static void leave(void)
{
    for (unsigned k = 0; k < count; k++)
        for (struct group *g = interfaces[k].groups; g; g = g->next)
            if (g->state == GROUP_JOINED)
                sa_leave(&interfaces[k], g);
}

int main(int argc, char **argv)
{
    if (argc <= FIRST || argc - FIRST > IPOIB_INTERFACES)
        return 2;
    signal(SIGTERM, on_term);
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    clients_listen(atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    kernel_neighbours_open(atoi(argv[6]));
    taps_given(argv[7], atoi(argv[4]), atoi(argv[5]));
    connected_mode = atoi(argv[8]);
    if (connected_mode && cm_open_device() < 0) {
        say("connected mode needs rdma_cm: %s", strerror(errno));
        return 1;
    }
    for (int k = FIRST; k < argc; k++, count++) {
        struct interface *i = blank();

        if (parse(i, argv[k]) < 0)
            return 2;
        if (interface_open(i) < 0 && i->tap < 0) {
            say("%s: %s", i->name, i->problem);
            return 1;
        }
    }
    add_children();
    serve();
    leave();
    return 0;
}
