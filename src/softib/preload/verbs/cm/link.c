/* The connection of this process to the daemon, opened at first use, and again in a forked child. */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "calls.h"
#include "../memory/identity.h"

static int link_fd = -1;
static uint64_t owner;
static uint32_t process, generation;

/* The daemon's socket is in the folder of the umad devices' socket. */
static int open_socket(void)
{
    const char *umad = getenv("SOFTIB_UMAD"), *slash = umad ? strrchr(umad, '/') : NULL;
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    if (!slash || (size_t)snprintf(to.sun_path, sizeof to.sun_path, "%.*s/rdma_cm", (int)(slash - umad), umad)
                      >= sizeof to.sun_path)
        return -ENOENT;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        int error = errno;
        cm_real()->close(fd);
        return -error;
    }
    return fd;
}

static int receive_reply(int fd, struct softib_cm_reply *reply)
{
    ssize_t n;

    do
        n = recv(fd, reply, sizeof *reply, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof *reply ? 0 : n < 0 ? -errno : -EIO;
}

static int say_hello(int fd, struct softib_cm_hello *hello, uint32_t *number)
{
    struct softib_cm_reply reply;
    const char *view = getenv("SOFTIB_VIEW");
    int error;

    hello->magic = SOFTIB_CM_MAGIC;
    hello->version = SOFTIB_CM_VERSION;
    if (view && strrchr(view, '/'))
        snprintf(hello->view, sizeof hello->view, "%s", strrchr(view, '/') + 1);
    if (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) < 0)
        return -errno;
    if ((error = receive_reply(fd, &reply)))
        return error;
    *number = reply.number;
    return -(int)reply.error;
}

static int linked(void)
{
    struct softib_cm_hello hello = { .kind = SOFTIB_CM_PROCESS };

    if (link_fd >= 0 && owner == vm_self())
        return 0;
    if (link_fd >= 0)
        cm_real()->close(link_fd);
    link_fd = -1;
    int fd = open_socket();
    if (fd < 0)
        return fd;
    int error = say_hello(fd, &hello, &process);
    if (error) {
        cm_real()->close(fd);
        return error;
    }
    link_fd = fd;
    owner = vm_self();
    generation++;
    return 0;
}

uint32_t cm_generation(void)
{
    return link_fd >= 0 && owner == vm_self() ? generation : generation + 1;
}

int cm_connect_channel(struct cm_channel *channel)
{
    struct softib_cm_hello hello = { .kind = SOFTIB_CM_CHANNEL };
    int error = linked();

    if (error)
        return error;
    int fd = open_socket();
    if (fd < 0)
        return fd;
    hello.process = process;
    if ((error = say_hello(fd, &hello, &channel->number))) {
        cm_real()->close(fd);
        return error;
    }
    channel->generation = generation;
    return fd;
}

static int say(const void *message, size_t octets)
{
    ssize_t n;
    int error = linked();

    if (error)
        return error;
    do
        n = send(link_fd, message, octets, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EPIPE || errno == ECONNRESET ? -EIO : -errno;
    return 0;
}

int cm_ask(struct softib_cm_ask *question, struct softib_cm_reply *answer)
{
    return cm_ask_more(question, sizeof *question, answer);
}

int cm_ask_more(struct softib_cm_ask *question, size_t octets, struct softib_cm_reply *answer)
{
    int error;

    question->answer = answer != NULL;
    if ((error = say(question, octets)) || !answer)
        return error;
    if ((error = receive_reply(link_fd, answer)))
        return error;
    return -(int)answer->error;
}
