/* Copies of bytes between processes, in ascending order. */
#include "copy.h"
#include "keys.h"
#include "scheduling/timer.h"
#include "../memory/hazards.h"
#include "../memory/identity.h"
#include "../memory/libc_calls.h"
#include "../peers/orders.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

uint64_t ve_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Write so that other processors see the stores in order: bytes up to a word, words up to a block, blocks, and back to
 * words and bytes. The stores of "rep movsb" may be seen out of order (fast strings; Intel SDM volume 3, "Memory
 * ordering"). An aligned store is atomic.
 */
static const char *place_octets(char **to, const char *from, uint64_t n)
{
    for (; n; n--, from++)
        *(volatile char *)(*to)++ = *from;
    return from;
}

static const char *place_qwords(char **to, const char *from, uint64_t n)
{
    uint64_t word;

    for (; n; n--, from += 8, *to += 8) {
        memcpy(&word, from, 8);
        __atomic_store_n((uint64_t *)(void *)*to, word, __ATOMIC_RELEASE);
    }
    return from;
}

#if defined(__x86_64__)
#define BLOCK 32

__attribute__((target("avx"))) static const char *place_blocks(char **to, const char *from, uint64_t n)
{
    for (; n; n--, from += BLOCK, *to += BLOCK) {
        _mm256_store_si256((__m256i *)(void *)*to, _mm256_loadu_si256((const __m256i *)(const void *)from));
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the processor keeps the order of stores, and so must the
                                                  * compiler */
    }
    return from;
}

static bool has_blocks(void)
{
    return __builtin_cpu_supports("avx");
}
#else
#define BLOCK 8
#define place_blocks place_qwords

static bool has_blocks(void)
{
    return false;
}
#endif

/* Write all but the last bytes of a message. Return the position in `from` after them. */
static const char *place_most(char **to, const char *from, uint64_t n)
{
    uint64_t head = -(uintptr_t)*to % 8;

    if (head > n)
        head = n;
    from = place_octets(to, from, head);
    n -= head;
    if (n >= 4 * BLOCK && has_blocks()) {
        head = -(uintptr_t)*to % BLOCK;
        from = place_qwords(to, from, head / 8);
        n -= head;
        from = place_blocks(to, from, n / BLOCK);
        n %= BLOCK;
    }
    from = place_qwords(to, from, n / 8);
    return place_octets(to, from, n % 8);
}

void ve_place(char *to, const char *from, uint64_t n)
{
    uint64_t last;

    if (n >= 8 && ((uintptr_t)to + n) % 8 == 0) {
        if (n > 8)
            from = place_most(&to, from, n - 8);
        memcpy(&last, from, 8);
        __atomic_store_n((uint64_t *)(void *)to, last, __ATOMIC_RELEASE);
    } else if (n) { /* the end is inside a word: copy bytes up to the last */
        from = place_most(&to, from, n - 1);
        __atomic_store_n(to, *from, __ATOMIC_RELEASE);
    }
}

/* Copy with both sides mapped in this process. */
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

/* Collect parts of another process up to `left` bytes. When writing (`put`), the last 8 bytes are a separate part:
 * the kernel copies parts in order. */
static unsigned parts_there(struct iovec *there, const struct ve_part *parts, unsigned n, uint64_t left, bool put)
{
    unsigned t = 0;

    for (unsigned i = 0; i < n && left; i++) {
        uint64_t length = parts[i].length < left ? parts[i].length : left;

        there[t++] = (struct iovec){ (void *)(uintptr_t)parts[i].address, length };
        left -= length;
    }
    if (put && t && there[t - 1].iov_len > 8) {
        there[t] = (struct iovec){ (char *)there[t - 1].iov_base + there[t - 1].iov_len - 8, 8 };
        there[t - 1].iov_len -= 8;
        t++;
    }
    return t;
}

/* Return whether the pid of `process` (same PID namespace) still belongs to it. The result is cached for a millisecond,
 * since no pid is reused sooner. */
static bool is_still(struct ve_engine *e, uint32_t process)
{
    static uint64_t checked[256]; /* milliseconds << 16 | process */
    uint64_t *last = &checked[process % 256], now = ve_now_ns() / 1000000 << 16 | process;

    if (__atomic_load_n(last, __ATOMIC_RELAXED) == now)
        return true;
    if (!vm_runs(vm_process(&e->w, process)))
        return false;
    __atomic_store_n(last, now, __ATOMIC_RELAXED);
    return true;
}

/*
 * Copy through the kernel, at most about 2 GiB at a time. If that is not permitted (seccomp,
 * ptrace), or the pid is in another namespace, the owner copies.
 */
static int copy_there(struct ve_engine *e, uint32_t process, const struct ve_part *parts, unsigned parts_n, const struct iovec *iov, unsigned iov_n,
                      bool put)
{
    VM_KEEP_ERRNO;
    struct iovec there[VE_SGES + 3], here[VE_SGES + 2];
    pid_t pid = (pid_t)vm_process(&e->w, process)->pid;
    unsigned t = 0, h = 0;
    uint64_t left = 0, room = 0;

    for (unsigned i = 0; i < parts_n; i++)
        room += parts[i].length;
    for (unsigned i = 0; i < iov_n; i++) {
        here[i] = iov[i];
        left += iov[i].iov_len;
    }
    if (left > room)
        left = room;
    parts_n = parts_there(there, parts, parts_n, left, put);
    if (!vm_same_namespace(&e->w, process))
        return vp_order_copy(&e->w, process, put, there, parts_n, here, iov_n);
    if (!is_still(e, process))
        return -ESRCH;
    while (left) {
        ssize_t n = put ? process_vm_writev(pid, here + h, iov_n - h, there + t, parts_n - t, 0)
                        : process_vm_readv(pid, here + h, iov_n - h, there + t, parts_n - t, 0);

        if (n < 0 && (errno == EPERM || errno == ENOSYS))
            return vp_order_copy(&e->w, process, put, there + t, parts_n - t, here + h, iov_n - h);
        if (n <= 0)
            return n < 0 ? -errno : -EFAULT;
        left -= (uint64_t)n < left ? (uint64_t)n : left;
        h = skip(here, iov_n, h, (size_t)n);
        t = skip(there, parts_n, t, (size_t)n);
    }
    return 0;
}

/* Copy one part, whichever process owns it; during the copy the owner of an imported key is held. */
static int copy_one(struct ve_engine *e, const struct ve_part *part, const struct iovec *iov, unsigned iov_n, bool put)
{
    uint64_t *hazard;
    int error = 0;

    if (part->key && !ve_hold_part(e, part, &hazard))
        return -EFAULT;
    if (part->here)
        copy_here(part, 1, iov, iov_n, put);
    else
        error = copy_there(e, part->process, part, 1, iov, iov_n, put);
    if (part->key)
        vm_hazard_end(hazard);
    return error == -ESRCH && part->key ? -EFAULT : error;
}

static int copy_in_parts(struct ve_engine *e, const struct ve_part *parts, unsigned parts_n, const struct iovec *iov,
                        unsigned iov_n, bool put)
{
    struct iovec rest[VE_SGES + 2];
    unsigned at = 0;
    int error = 0;

    memcpy(rest, iov, iov_n * sizeof *iov);
    for (unsigned i = 0; i < parts_n && at < iov_n && !error; i++) {
        if (parts[i].length)
            error = copy_one(e, &parts[i], rest + at, iov_n - at, put);
        at = skip(rest, iov_n, at, parts[i].length);
    }
    return error;
}

static int copy(struct ve_engine *e, uint32_t process, const struct ve_part *parts, unsigned parts_n,
                const struct iovec *iov, unsigned iov_n, bool put)
{
    bool here = true, some_here = false, imported = false;

    for (unsigned i = 0; i < parts_n; i++) {
        here = here && (parts[i].here || !parts[i].length);
        some_here = some_here || (parts[i].here && parts[i].length);
        imported = imported || (parts[i].key && parts[i].length);
    }
    if (imported || (some_here && !here)) /* null memory exists in this process only */
        return copy_in_parts(e, parts, parts_n, iov, iov_n, put);
    if (!here)
        return copy_there(e, process, parts, parts_n, iov, iov_n, put);
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
