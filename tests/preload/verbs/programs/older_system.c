/* Preloaded: the system does not tell mappings by address (PROCMAP_QUERY, before Linux 6.11). */
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int ioctl(int fd, unsigned long request, ...)
{
    va_list more;
    void *argument;

    va_start(more, request);
    argument = va_arg(more, void *);
    va_end(more);
    if (_IOC_TYPE(request) == 'f' && _IOC_NR(request) == 17) {
        errno = ENOTTY;
        return -1;
    }
    return (int)syscall(SYS_ioctl, fd, request, argument);
}
