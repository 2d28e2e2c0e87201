/*
 * What programs may notice of the C library's calls that the library makes. Posting and polling leave errno alone: those of a
 * driver make no system call, and librdmacm's rsockets look behind them at an errno of their own (rs_get_comp).
 */
#ifndef SOFTIB_VERBS_LIBC_CALLS_H
#define SOFTIB_VERBS_LIBC_CALLS_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void vm_put_errno_back(const int *kept)
{
    errno = *kept;
}

/* A declaration: at the end of its block errno is again what it was. */
#define VM_KEEP_ERRNO __attribute__((cleanup(vm_put_errno_back), unused)) const int kept_errno = errno

/* The system's socket(2): librspreload's would try an RDMA socket first, and spend a descriptor. */
static inline int vm_socket(int domain, int type)
{
    return (int)syscall(SYS_socket, domain, type, 0);
}

#endif
