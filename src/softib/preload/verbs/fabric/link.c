/* Connects to the daemon's verbs socket. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Clock ticks from the boot to the start of this process: with the pid it names a process for ever. */
static uint64_t started(void)
{
    char text[1024], *at;
    unsigned long long ticks = 0;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        sscanf(at, "%llu", &ticks);
    return ticks;
}

static int receive_reply(int socket, struct softib_server_reply *reply)
{
    ssize_t n;

    do
        n = recv(socket, reply, sizeof *reply, 0);
    while (n < 0 && errno == EINTR);
    if (n != sizeof *reply)
        return n < 0 ? -errno : -ENODEV;
    return reply->magic == SOFTIB_SERVER_MAGIC ? 0 : -EPROTO;
}

static int say_hello(int fd, const char *view, uint32_t *process, char *why, size_t room)
{
    struct softib_server_hello hello = {
        .magic = SOFTIB_SERVER_MAGIC, .version = SOFTIB_SERVER_VERSION, .shared_fabric = SOFTIB_SHARED_FABRIC_VERSION,
        .pid = (uint32_t)getpid(), .started = started(),
    };
    struct softib_server_reply reply;
    int error;

    snprintf(hello.view, sizeof hello.view, "%s", view);
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) < 0)
        error = -errno;
    else
        error = receive_reply(fd, &reply);
    if (!error && reply.version != SOFTIB_SERVER_VERSION) {
        snprintf(why, room, "the fabric's daemon speaks version %u, this library version %u; use the library of the "
                 "softib that runs the fabric", reply.version, SOFTIB_SERVER_VERSION);
        return -EPROTO;
    }
    if (!error)
        error = -(int)reply.error;
    if (error)
        snprintf(why, room, "the fabric's daemon refuses: %s", strerror(-error));
    else
        *process = reply.number;
    return error;
}

int sv_link_open(const char *path, const char *view, uint32_t *process, char *why, size_t room)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int error, fd;

    if ((size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s", path) >= sizeof to.sun_path) {
        snprintf(why, room, "%s: a path of a socket has at most %zu octets", path, sizeof to.sun_path - 1);
        return -ENAMETOOLONG;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        error = -errno;
        snprintf(why, room, "no fabric runs at %s: %s", path, strerror(-error));
    } else {
        error = say_hello(fd, view, process, why, room);
    }
    if (!error)
        return fd;
    if (fd >= 0)
        close(fd);
    return error;
}

int sv_link_ask(int socket, const struct softib_server_ask *ask, int with)
{
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
    struct iovec part = { (void *)(uintptr_t)ask, sizeof *ask };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct softib_server_reply reply;

    if (with >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);

        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof with);
        memcpy(CMSG_DATA(head), &with, sizeof with);
    }
    if (sendmsg(socket, &message, MSG_NOSIGNAL) < 0)
        return errno == EPIPE || errno == ECONNRESET ? -ENODEV : -errno;
    int error = receive_reply(socket, &reply);

    return error ? error : -(int)reply.error;
}
