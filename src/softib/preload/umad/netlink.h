/* RDMA netlink: sockets of the family NETLINK_RDMA. */
#ifndef SOFTIB_NETLINK_H
#define SOFTIB_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <linux/netlink.h>

#define NETLINK_REQUEST 4096 /* maximum length of a request in bytes */

/* The answer to one request, and the sockets that send and receive it. */
struct netlink_answer {
    int from;
    struct sockaddr_nl to;
    const struct nlmsghdr *request;
    struct nlmsghdr *head;       /* of the message under construction, in `room` */
    _Alignas(8) uint8_t room[2048];
};

/* netlink.c: the sockets, and their messages */
int netlink_open(int type);
bool netlink_is(int fd);
void netlink_closed(int fd);
ssize_t netlink_send(int fd, const struct iovec *parts, size_t count, const struct msghdr *to);
void netlink_begin(struct netlink_answer *a, unsigned type, unsigned flags);
void netlink_put(struct netlink_answer *a, unsigned type, const void *data, size_t length);
void netlink_end(struct netlink_answer *a);

/* netlink_device.c: answer one request of the NLDEV client; return 0 or -errno */
int nldev_answer(struct netlink_answer *a, unsigned command, bool dump, const struct nlattr *attributes, size_t length);

#endif
