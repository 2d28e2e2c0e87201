/*
 * Hides side effects of the library's own C library calls. Posting and polling preserve errno: a driver makes no system
 * call there, and librdmacm's rsockets rely on it: after a poll they read an errno that was set before it
 * (rs_get_comp).
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

/* A declaration that restores errno at the end of its block. */
#define VM_KEEP_ERRNO __attribute__((cleanup(vm_put_errno_back), unused)) const int kept_errno = errno

/* The system's socket(2): librspreload's version would try an RDMA socket first, which takes a descriptor. */
static inline int vm_socket(int domain, int type)
{
    return (int)syscall(SYS_socket, domain, type, 0);
}

#endif
