/*
 * mmap, mremap, mprotect and munmap as system calls. Communication libraries hook the C library's functions (UCX's ucm,
 * OpenMPI's patcher). Such a hook would treat the move of registered pages as an munmap by the program, may write to
 * write-protected pages, and may wait in a forked child for a lock of a thread that does not exist there; UCX's mremap
 * hook (1.13) loses the address of MREMAP_FIXED.
 */
#ifndef SOFTIB_VERBS_MMAP_CALLS_H
#define SOFTIB_VERBS_MMAP_CALLS_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void *vm_mmap(void *at, size_t length, int rights, int flags, int fd, off_t from)
{
    return (void *)syscall(SYS_mmap, at, length, rights, flags, fd, from);
}

/* To `at` if `flags` have MREMAP_FIXED. */
static inline void *vm_mremap(void *old, size_t old_length, size_t length, int flags, void *at)
{
    return (void *)syscall(SYS_mremap, old, old_length, length, flags, at);
}

static inline int vm_mprotect(void *at, size_t length, int rights)
{
    return (int)syscall(SYS_mprotect, at, length, rights);
}

static inline int vm_munmap(void *at, size_t length)
{
    return (int)syscall(SYS_munmap, at, length);
}

#endif
