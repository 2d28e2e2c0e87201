/* Two processes with a line between them, which pass the descriptor of a context. */
#ifndef SHARING_H
#define SHARING_H

#include "rig.h"

#include <sys/socket.h>
#include <sys/wait.h>

static int line; /* to the other process */

static inline void say(const void *what, size_t octets)
{
    MUST(write(line, what, octets) == (ssize_t)octets);
}

static inline void receive_from_peer(void *what, size_t octets)
{
    MUST(recv(line, what, octets, MSG_WAITALL) == (ssize_t)octets);
}

static inline void pass_on(void)
{
    say("", 1);
}

static inline void wait_for_peer(void)
{
    char octet;

    receive_from_peer(&octet, 1);
}

static inline void give(int fd)
{
    char room[CMSG_SPACE(sizeof fd)] = "";
    struct iovec octet = { "", 1 };
    struct msghdr m = { .msg_iov = &octet, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    MUST(sendmsg(line, &m, 0) == 1);
}

static inline int take(void)
{
    char room[CMSG_SPACE(sizeof(int))], octet;
    struct iovec to = { &octet, 1 };
    struct msghdr m = { .msg_iov = &to, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
    int fd;

    MUST(recvmsg(line, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

/* Forks, before either process sees the fabric. True in the parent. */
static inline bool sharing_fork(pid_t *child)
{
    int pair[2];

    MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    *child = fork();
    line = pair[!*child];
    close(pair[!!*child]);
    return *child != 0;
}

/* The parent's end: the child's must be right, too. */
static inline int sharing_end(pid_t child)
{
    int status;

    MUST(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
    return 0;
}

#endif
