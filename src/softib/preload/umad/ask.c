/* Requests to the daemon: each uses a separate connection, so forked or threaded programs need no lock. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define ERRNO_MAX 4095 /* the kernel's MAX_ERRNO */
#define PATIENCE_S 30 /* while the daemon computes routes, it does not answer */

static char folder[PATH_ROOM], view[64];
static struct sockaddr_un daemon_address;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look(void)
{
    const char *socket_path = getenv("SOFTIB_UMAD"), *view_path = getenv("SOFTIB_VIEW");

    if (!socket_path || !view_path || !*view_path || strlen(view_path) >= sizeof folder - 256)
        return;
    const char *name = strrchr(view_path, '/');
    if (!name || !name[1] || strlen(name + 1) >= sizeof view || strlen(socket_path) >= sizeof daemon_address.sun_path)
        return;
    strcpy(view, name + 1);
    daemon_address.sun_family = AF_UNIX;
    strcpy(daemon_address.sun_path, socket_path);
    strcpy(folder, view_path);
}

const char *view_folder(void)
{
    pthread_once(&once, look);
    return *folder ? folder : NULL;
}

static int connected(void)
{
    struct timeval patience = { .tv_sec = PATIENCE_S };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (connect(fd, (struct sockaddr *)&daemon_address, sizeof daemon_address)) {
        int error = errno;
        if (error == EINTR)
            continue;
        real()->close(fd);
        return -error;
    }
    return fd;
}

int ask(struct softib_umad_ask *question, struct softib_umad_reply *reply, bool keep)
{
    struct timeval forever = { 0 };
    ssize_t n;

    if (!view_folder())
        return -ENXIO;
    question->magic = SOFTIB_UMAD_MAGIC;
    question->version = SOFTIB_UMAD_VERSION;
    memcpy(question->view, view, sizeof question->view);
    int fd = connected();
    if (fd < 0)
        return fd;
    do
        n = send(fd, question, sizeof *question, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof *question)
        do
            n = recv(fd, reply, sizeof *reply, 0);
        while (n < 0 && errno == EINTR);
    int error = 0;
    if (n != (ssize_t)sizeof *reply || reply->magic != SOFTIB_UMAD_MAGIC || reply->version != SOFTIB_UMAD_VERSION)
        error = EIO;
    else if (reply->error)
        error = reply->error <= ERRNO_MAX ? (int)reply->error : EIO; /* a negative number would look like a
                                                                      * descriptor */
    if (error || !keep) {
        real()->close(fd);
        return -error;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever);
    return fd;
}
