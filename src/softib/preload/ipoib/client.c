/* The socket between softib run and this node's softib-ipoib. The node's network exists as long as a client is
 * connected. */
#include "ipoib.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_CLIENTS 1024

struct softib_ipoib_totals totals = { .magic = IPOIB_MAGIC };
int capturing;

static int listening, namespaces[2];
static struct client {
    int fd, greeted, captures;
} clients[MOST_CLIENTS];
static unsigned count;
static const struct interface *interfaces; /* NULL: the interfaces are not ready */
static const unsigned *interface_count;
static struct {
    struct softib_ipoib_ready head;
    struct softib_ipoib_interface interface[IPOIB_INTERFACES];
} ready;

int clients_listen(int fd, int netns, int userns)
{
    listening = fd;
    namespaces[0] = netns;
    namespaces[1] = userns;
    return fd;
}

unsigned clients_count(void)
{
    return count;
}

unsigned clients_poll(struct pollfd *fds)
{
    fds[0] = (struct pollfd){ listening, count < MOST_CLIENTS ? POLLIN : 0, 0 };
    for (unsigned k = 0; k < count; k++)
        fds[k + 1] = (struct pollfd){ clients[k].fd, POLLIN, 0 };
    return count + 1;
}

/* Fill in `ready` with the current interfaces. Return their number. */
static unsigned describe(void)
{
    unsigned n = interfaces ? *interface_count : 0;

    memset(&ready, 0, sizeof ready);
    ready.head = (struct softib_ipoib_ready){ .magic = IPOIB_MAGIC, .interfaces = n, .connected = (uint32_t)connected_mode };
    for (unsigned k = 0; k < n; k++) {
        struct softib_ipoib_interface *r = &ready.interface[k];
        const struct interface *i = &interfaces[k];

        memcpy(r->name, i->name, sizeof r->name);
        memcpy(r->problem, i->problem, sizeof r->problem);
        r->pkey = i->pkey;
        r->lid = i->lid;
        if (i->running) {
            r->qpn = i->qp->qp_num;
            r->qkey = i->broadcast->to.qkey;
            r->mtu = i->connected ? CONNECTED_MTU : i->mtu;
        }
    }
    return n;
}

static void greet(struct client *c)
{
    unsigned n = namespaces[1] < 0 ? 1 : 2;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof namespaces)];
    } control = { .room = { 0 } };
    struct iovec iov = { &ready, sizeof ready.head + describe() * sizeof ready.interface[0] };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = CMSG_SPACE(n * sizeof(int)) };

    if (!interfaces || c->greeted)
        return;
    c->greeted = 1;
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(&control.head), namespaces, n * sizeof(int));
    sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Called when every interface has joined its group, or has a reason for not joining. */
void clients_ready(const struct interface *all, const unsigned *n)
{
    interfaces = all;
    interface_count = n;
    for (unsigned k = 0; k < count; k++)
        greet(&clients[k]);
}

static void hang_up(unsigned k)
{
    close(clients[k].fd);
    capturing -= clients[k].captures;
    clients[k] = clients[--count];
}

/* Handle a message from a client. False: the client closed its connection, or sent an invalid message. */
static int serve(struct client *c)
{
    struct softib_ipoib_ask ask;
    ssize_t n = recv(c->fd, &ask, sizeof ask, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n != sizeof ask || ask.magic != IPOIB_MAGIC)
        return 0;
    if (ask.op == IPOIB_ASK_TOTALS)
        return send(c->fd, &totals, sizeof totals, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    if (ask.op != IPOIB_ASK_CAPTURE)
        return 0;
    capturing += !c->captures;
    c->captures = 1;
    return 1;
}

void clients_serve(const struct pollfd *fds, unsigned n)
{
    for (unsigned k = n; k-- > 1;)
        if (fds[k].revents && !serve(&clients[k - 1]))
            hang_up(k - 1);
    if (fds[0].revents) {
        int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            clients[count] = (struct client){ .fd = fd };
            greet(&clients[count++]);
        }
    }
}

/* Send one datagram to every capturing client. */
void client_capture(const struct interface *i, int outbound, struct softib_ipoib_datagram *head, const struct segment *s)
{
    struct iovec iov[3] = { { head, sizeof *head }, { s->header, s->header_length }, { (void *)s->payload, s->payload_length } };
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = s->payload_length ? 3 : 2 };
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    head->ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    head->length = (uint16_t)(s->header_length + s->payload_length);
    head->interface = (uint8_t)i->number;
    head->outbound = (uint8_t)outbound;
    for (unsigned k = 0; k < count; k++)
        if (clients[k].captures && sendmsg(clients[k].fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            totals.lost++;
}

/* Return whether another process is in the node's network namespace: a server that outlived its
 * softib run. */
int netns_is_used(void)
{
    struct stat here, there;
    char path[64];
    DIR *proc;
    struct dirent *entry;
    int used = 0;

    if (fstat(namespaces[0], &here) < 0 || !(proc = opendir("/proc")))
        return 0;
    while (!used && (entry = readdir(proc))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || strlen(entry->d_name) > 10)
            continue;
        snprintf(path, sizeof path, "/proc/%.10s/ns/net", entry->d_name);
        used = stat(path, &there) == 0 && there.st_ino == here.st_ino && there.st_dev == here.st_dev;
    }
    closedir(proc);
    return used;
}
