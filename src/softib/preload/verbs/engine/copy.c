/* Moving octets between processes, in ascending order. */
#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

uint64_t ve_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ve_place(char *to, const char *from, uint64_t n)
{
    uint64_t last;

    if (n < 8) {
        for (; n > 1; n--)
            *to++ = *from++;
        if (n)
            __atomic_store_n(to, *from, __ATOMIC_RELEASE);
        return;
    }
    n -= 8;
#if defined(__x86_64__)
    if (n >= 128) { /* memcpy may copy the end first */
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    }
#endif
    for (; n >= 8; n -= 8, to += 8, from += 8) {
        memcpy(&last, from, 8);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        memcpy(to, &last, 8);
    }
    for (; n; n--)
        *to++ = *from++;
    memcpy(&last, from, 8);
    if ((uintptr_t)to % 8 == 0) {
        __atomic_store_n((uint64_t *)(void *)to, last, __ATOMIC_RELEASE);
    } else { /* ascending all the same, octet by octet at the end */
        __atomic_thread_fence(__ATOMIC_RELEASE);
        memcpy(to, &last, 7);
        __atomic_store_n(to + 7, ((char *)&last)[7], __ATOMIC_RELEASE);
    }
}

/* Both sides are mapped here. */
static void copy_here(const struct ve_part *parts, unsigned parts_n, const struct iovec *iov, unsigned iov_n, bool put)
{
    uint64_t in_part = 0, in_iov = 0;

    for (unsigned p = 0, i = 0; p < parts_n && i < iov_n;) {
        uint64_t n = parts[p].length - in_part;

        if (n > iov[i].iov_len - in_iov)
            n = iov[i].iov_len - in_iov;
        if (n && put)
            ve_place(parts[p].here + in_part, (char *)iov[i].iov_base + in_iov, n);
        else if (n)
            ve_place((char *)iov[i].iov_base + in_iov, parts[p].here + in_part, n);
        in_part += n;
        in_iov += n;
        if (in_part == parts[p].length)
            p++, in_part = 0;
        if (in_iov == iov[i].iov_len)
            i++, in_iov = 0;
    }
}

static unsigned skip(struct iovec *iov, unsigned n, unsigned from, size_t done)
{
    while (from < n && done >= iov[from].iov_len)
        done -= iov[from++].iov_len;
    if (from < n) {
        iov[from].iov_base = (char *)iov[from].iov_base + done;
        iov[from].iov_len -= done;
    }
    return from;
}

/* The kernel copies; at most about 2 GiB at a time. */
static int copy_there(pid_t pid, const struct ve_part *parts, unsigned parts_n, const struct iovec *iov, unsigned iov_n,
                      bool put)
{
    struct iovec there[VE_SGES + 2], here[VE_SGES + 2];
    unsigned t = 0, h = 0;
    uint64_t left = 0, room = 0;

    for (unsigned i = 0; i < parts_n; i++) {
        there[i] = (struct iovec){ (void *)(uintptr_t)parts[i].address, parts[i].length };
        room += parts[i].length;
    }
    for (unsigned i = 0; i < iov_n; i++) {
        here[i] = iov[i];
        left += iov[i].iov_len;
    }
    if (left > room)
        left = room;
    while (left) {
        ssize_t n = put ? process_vm_writev(pid, here + h, iov_n - h, there + t, parts_n - t, 0)
                        : process_vm_readv(pid, here + h, iov_n - h, there + t, parts_n - t, 0);

        if (n <= 0)
            return n < 0 ? -errno : -EFAULT;
        left -= (uint64_t)n < left ? (uint64_t)n : left;
        h = skip(here, iov_n, h, (size_t)n);
        t = skip(there, parts_n, t, (size_t)n);
    }
    return 0;
}

static int copy(struct ve_engine *e, uint32_t process, const struct ve_part *parts, unsigned parts_n,
                const struct iovec *iov, unsigned iov_n, bool put)
{
    bool here = true;

    for (unsigned i = 0; i < parts_n; i++) {
        here = here && (parts[i].here || !parts[i].length);
        process = parts[i].length ? parts[i].process : process; /* of an imported key */
    }
    if (!here)
        return copy_there((pid_t)vm_process(&e->w, process)->pid, parts, parts_n, iov, iov_n, put);
    copy_here(parts, parts_n, iov, iov_n, put);
    return 0;
}

int ve_put(struct ve_engine *e, uint32_t process, const struct ve_part *to, unsigned to_n, const struct iovec *from,
           unsigned from_n)
{
    return copy(e, process, to, to_n, from, from_n, true);
}

int ve_get(struct ve_engine *e, uint32_t process, const struct ve_part *from, unsigned from_n, const struct iovec *to,
           unsigned to_n)
{
    return copy(e, process, from, from_n, to, to_n, false);
}
