/* Connects to the daemon's verbs socket. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Receive the descriptors of a message; the kernel closes those for which there is no room. */
static int take_files(struct msghdr *message, int files[SOFTIB_SERVER_FILES])
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    size_t octets = SOFTIB_SERVER_FILES * sizeof(int);

    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(octets))
        return -EPROTO;
    memcpy(files, CMSG_DATA(head), octets);
    return 0;
}

/* Receive a reply. `files`: set to the descriptors in the first reply, if it reports no error. */
static int receive_reply(int socket, struct softib_server_reply *reply, int *files)
{
    union { char room[CMSG_SPACE(SOFTIB_SERVER_FILES * sizeof(int))]; struct cmsghdr align; } control;
    struct iovec part = { reply, sizeof *reply };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t n;

    if (files) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
    }
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != sizeof *reply)
        return n < 0 ? -errno : -ENODEV;
    if (reply->magic != SOFTIB_SERVER_MAGIC)
        return -EPROTO;
    return files && !reply->error && reply->version == SOFTIB_SERVER_VERSION ? take_files(&message, files) : 0;
}

static int say_hello(int fd, const char *view, uint32_t *process, int files[SOFTIB_SERVER_FILES], char *why, size_t room)
{
    struct softib_server_hello hello = {
        .magic = SOFTIB_SERVER_MAGIC, .version = SOFTIB_SERVER_VERSION, .shared_fabric = SOFTIB_SHARED_FABRIC_VERSION,
    };
    struct softib_server_reply reply;
    int error;

    snprintf(hello.view, sizeof hello.view, "%s", view);
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) < 0)
        error = -errno;
    else
        error = receive_reply(fd, &reply, files);
    if (!error && reply.version != SOFTIB_SERVER_VERSION) {
        snprintf(why, room, "the fabric's daemon uses version %u, this library version %u; use the library of the "
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

int sv_link_open(const char *path, const char *view, uint32_t *process, int files[SOFTIB_SERVER_FILES], char *why, size_t room)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int error, fd;

    if ((size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s", path) >= sizeof to.sun_path) {
        snprintf(why, room, "%s: the path of a socket is limited to %zu bytes", path, sizeof to.sun_path - 1);
        return -ENAMETOOLONG;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) {
        error = -errno;
        snprintf(why, room,
                 error == -EACCES ? "no access to the fabric at %s: %s; run the program as the fabric's user or root"
                                  : "no fabric runs at %s: %s",
                 path, strerror(-error));
    } else {
        error = say_hello(fd, view, process, files, why, room);
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
    int error = receive_reply(socket, &reply, NULL);

    return error ? error : -(int)reply.error;
}
