/*
 * RDMA netlink (NETLINK_RDMA, linux/rdma_netlink.h), for kernels without RDMA. The program gets a socket of the family
 * NETLINK_USERSOCK, so the kernel implements bind, getsockname, poll, options and receiving. A request is answered
 * while it is sent; the answer comes from another socket of that family.
 */
#include "netlink.h"

#include "internal.h"

#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/socket.h>

enum { SOCKETS = 1 << 16 };

static uint8_t sockets[SOCKETS / 8]; /* descriptors of sockets; some may be closed already, if this library did not see it */

static bool is_marked(int fd)
{
    return fd >= 0 && fd < SOCKETS && __atomic_load_n(&sockets[fd / 8], __ATOMIC_RELAXED) & 1 << fd % 8;
}

int netlink_open(int type)
{
    int fd = real()->socket(AF_NETLINK, type, NETLINK_USERSOCK);

    if (fd >= 0 && fd < SOCKETS)
        __atomic_fetch_or(&sockets[fd / 8], 1 << fd % 8, __ATOMIC_RELAXED);
    return fd;
}

void netlink_closed(int fd)
{
    if (is_marked(fd))
        __atomic_fetch_and(&sockets[fd / 8], (uint8_t)~(1 << fd % 8), __ATOMIC_RELAXED);
}

bool netlink_is(int fd)
{
    int family = 0, protocol = 0, before = errno;
    socklen_t size = sizeof family;

    if (!is_marked(fd))
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size))
        errno = before;
    return family == AF_NETLINK && protocol == NETLINK_USERSOCK;
}

/* Begin one message of the answer. */
void netlink_begin(struct netlink_answer *a, unsigned type, unsigned flags)
{
    memset(a->room, 0, sizeof a->room);
    a->head = (struct nlmsghdr *)a->room;
    a->head->nlmsg_len = NLMSG_HDRLEN;
    a->head->nlmsg_type = (uint16_t)type;
    a->head->nlmsg_flags = (uint16_t)flags;
    a->head->nlmsg_seq = a->request->nlmsg_seq;
    a->head->nlmsg_pid = a->to.nl_pid;
}

/* Append an attribute. */
void netlink_put(struct netlink_answer *a, unsigned type, const void *data, size_t length)
{
    struct nlattr *at = (struct nlattr *)(a->room + NLMSG_ALIGN(a->head->nlmsg_len));

    if (NLMSG_ALIGN(a->head->nlmsg_len) + NLA_HDRLEN + NLA_ALIGN(length) > sizeof a->room)
        return;
    at->nla_type = (uint16_t)type;
    at->nla_len = (uint16_t)(NLA_HDRLEN + length);
    memcpy((uint8_t *)at + NLA_HDRLEN, data, length);
    a->head->nlmsg_len = (uint32_t)(NLMSG_ALIGN(a->head->nlmsg_len) + NLA_ALIGN(at->nla_len));
}

/* Send the message. */
void netlink_end(struct netlink_answer *a)
{
    ssize_t done = real()->sendto(a->from, a->room, a->head->nlmsg_len, MSG_DONTWAIT, (struct sockaddr *)&a->to, sizeof a->to);

    (void)done; /* the receive buffer is full, so the message is lost, as in the kernel */
}

/* Send NLMSG_ERROR with the request's head; error 0 is an acknowledgement. */
static void acknowledge(struct netlink_answer *a, int error)
{
    struct nlmsgerr body = { .error = error, .msg = *a->request };

    netlink_begin(a, NLMSG_ERROR, error ? 0 : NLM_F_CAPPED);
    memcpy(a->room + NLMSG_HDRLEN, &body, sizeof body);
    a->head->nlmsg_len += sizeof body;
    netlink_end(a);
}

static void done(struct netlink_answer *a)
{
    netlink_begin(a, NLMSG_DONE, NLM_F_MULTI);
    a->head->nlmsg_len += sizeof(int);
    netlink_end(a);
}

static void answer(struct netlink_answer *a)
{
    const struct nlmsghdr *q = a->request;
    bool dump = (q->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    int error = -EOPNOTSUPP;

    if (!(q->nlmsg_flags & NLM_F_REQUEST))
        return;
    if (RDMA_NL_GET_CLIENT(q->nlmsg_type) == RDMA_NL_NLDEV)
        error = nldev_answer(a, RDMA_NL_GET_OP(q->nlmsg_type), dump, (const struct nlattr *)NLMSG_DATA(q), q->nlmsg_len - NLMSG_HDRLEN);
    if (dump && !error)
        done(a);
    else if (error || q->nlmsg_flags & NLM_F_ACK)
        acknowledge(a, error);
}

/* Answer the requests in `parts`. Returns their length, or -1 with errno. `to`: where the program sends them. */
ssize_t netlink_send(int fd, const struct iovec *parts, size_t count, const struct msghdr *to)
{
    const struct sockaddr_nl *named = to ? to->msg_name : NULL;
    struct netlink_answer a = { .from = -1 };
    _Alignas(8) uint8_t requests[NETLINK_REQUEST];
    socklen_t size = sizeof a.to;
    size_t length = 0;

    if (named && named->nl_pid) {
        errno = ECONNREFUSED;
        return -1;
    }
    for (size_t k = 0; k < count; k++) {
        if (parts[k].iov_len > sizeof requests - length) {
            errno = EMSGSIZE;
            return -1;
        }
        memcpy(requests + length, parts[k].iov_base, parts[k].iov_len);
        length += parts[k].iov_len;
    }
    if (getsockname(fd, (struct sockaddr *)&a.to, &size))
        return -1;
    if (!a.to.nl_pid) { /* sending binds a socket */
        struct sockaddr_nl any = { .nl_family = AF_NETLINK };

        if (bind(fd, (struct sockaddr *)&any, sizeof any) || getsockname(fd, (struct sockaddr *)&a.to, &size))
            return -1;
    }
    a.to.nl_groups = 0;
    a.from = real()->socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
    if (a.from < 0)
        return -1;
    for (size_t at = 0; at + NLMSG_HDRLEN <= length; at += NLMSG_ALIGN(a.request->nlmsg_len)) {
        a.request = (const struct nlmsghdr *)(requests + at);
        if (a.request->nlmsg_len < NLMSG_HDRLEN || a.request->nlmsg_len > length - at)
            break;
        answer(&a);
    }
    real()->close(a.from);
    return (ssize_t)length;
}
