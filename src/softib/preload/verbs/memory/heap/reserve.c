/*
 * Allocation of pages of the file `verbs` before their first access. The file is sparse and usually on a tmpfs: if the
 * file system is full, the first write or read of a page causes a SIGBUS.
 */
#include "../libc_calls.h"
#include "shared_heap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE of Linux 5.14 */
#define PAGE 4096u

static void say_full(const struct vm_heap *w, int error)
{
    static uint32_t reported;
    const char *quiet = getenv("SOFTIB_QUIET");
    uint32_t before = 0;

    if ((quiet && *quiet && strcmp(quiet, "0")) ||
        !__atomic_compare_exchange_n(&reported, &before, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    fprintf(stderr, "softib: %s/verbs: no room for more RDMA objects (%s): calls fail with ENOMEM, and CQs do not grow; "
            "enlarge this file system (docker run --shm-size, mount -o remount,size=) or set XDG_RUNTIME_DIR to a larger one before 'softib up'\n",
            w->folder, strerror(error));
}

/* Allocate the pages with madvise. Return 0 or an errno. */
static int populate(const struct vm_heap *w, uint64_t from, uint64_t octets)
{
    int error;

    do /* not libsoftib's madvise, which is for the memory of programs */
        error = syscall(SYS_madvise, vm_at(w, from), octets, POPULATE_WRITE) ? errno : 0;
    while (error == EINTR || error == EAGAIN);
    return error == EFAULT ? ENOSPC : error; /* EFAULT: an access would have caused a SIGBUS */
}

static int allocate(const struct vm_heap *w, uint64_t from, uint64_t octets)
{
    int error;

    do
        error = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)octets) ? errno : 0;
    while (error == EINTR);
    return error == EOPNOTSUPP || error == ENOSYS ? 0 : error; /* a file system without support for fallocate */
}

bool vm_reserve(const struct vm_heap *w, uint64_t at, uint64_t octets)
{
    VM_KEEP_ERRNO;
    uint64_t from = at / PAGE * PAGE, to = (at + octets + PAGE - 1) / PAGE * PAGE;
    int error = populate(w, from, to - from);

    if (error == EINVAL || error == ENOSYS) /* a kernel without MADV_POPULATE_WRITE */
        error = allocate(w, from, to - from);
    if (error)
        say_full(w, error);
    return !error;
}
