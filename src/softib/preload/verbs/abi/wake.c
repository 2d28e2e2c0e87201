/* Sockets that wake this process: one per completion channel and context; every process of the
 * fabric may write to them. */
#include "abi.h"
#include "../memory/libc_calls.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int address_of(uint32_t number, struct sockaddr_un *at)
{
    at->sun_family = AF_UNIX;
    return (size_t)snprintf(at->sun_path, sizeof at->sun_path, "%s/wake-%u-%u", va_engine.w.folder, va_engine.w.process,
                            number) < sizeof at->sun_path ? 0 : -ENAMETOOLONG;
}

int va_wake_socket(uint32_t *number)
{
    static uint32_t last;
    struct sockaddr_un at;
    int fd = vm_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC), error;

    if (fd < 0)
        return -errno;
    *number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    error = address_of(*number, &at);
    if (error) {
        close(fd);
        return error;
    }
    unlink(at.sun_path); /* left by an earlier process with this number */
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) {
        error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

void va_wake_close(int fd, uint32_t number)
{
    struct sockaddr_un at;

    if (!address_of(number, &at))
        unlink(at.sun_path);
    close(fd);
}

int va_wake_writer(uint32_t number)
{
    struct sockaddr_un to;
    int fd = vm_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0 && address_of(number, &to) == 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}
