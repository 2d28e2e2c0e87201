/* Interposed calls on sockets: those of RDMA netlink. */
#include "internal.h"
#include "netlink.h"

#include <sys/socket.h>

PUBLIC int socket(int family, int type, int protocol)
{
    if (family == AF_NETLINK && protocol == NETLINK_RDMA && view_folder())
        return netlink_open(type);
    return real()->socket(family, type, protocol);
}

PUBLIC ssize_t send(int fd, const void *data, size_t length, int flags)
{
    if (!netlink_is(fd))
        return real()->send(fd, data, length, flags);
    return netlink_send(fd, &(struct iovec){ (void *)data, length }, 1, NULL);
}

PUBLIC ssize_t sendto(int fd, const void *data, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
    if (!netlink_is(fd))
        return real()->sendto(fd, data, length, flags, to, size);
    return netlink_send(fd, &(struct iovec){ (void *)data, length }, 1, &(struct msghdr){ .msg_name = (void *)to, .msg_namelen = size });
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!netlink_is(fd))
        return real()->sendmsg(fd, message, flags);
    return netlink_send(fd, message->msg_iov, message->msg_iovlen, message);
}
