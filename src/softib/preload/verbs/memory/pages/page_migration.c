/* Move pages of private memory to a file without losing a write to them. */
#include "mmap_calls.h"
#include "remap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PIECE (32ul << 20) /* bytes that are moved at a time; they exist twice meanwhile */
#define ENTRIES 512        /* pagemap entries read at a time */
#define THERE (3ull << 62) /* a page is in memory, or swapped out (Documentation/admin-guide/mm/pagemap.rst) */

/*
 * Return whether this is the pagemap entry of a page that was never accessed. Since Linux 6.4 write
 * protection leaves a marker in it, which the pagemap shows as a page of the nonexistent swap
 * device 31 (PTE_MARKER_UFFD_WP and SWP_PTE_MARKER of include/linux/swapops.h). Bits 55 to 58 do
 * not show whether there is a page.
 */
static bool is_untouched(uint64_t entry)
{
    const uint64_t marker = 1ull << 62 | 1ull << 5 | 31;

    return !(entry & THERE) || (entry & ~(15ull << 55)) == marker;
}

/* Write bytes [from, to), all of whose pages exist, to the file. */
static bool put(int fd, uint64_t from, uint64_t to, uint64_t at)
{
    while (from < to) {
        ssize_t n = pwrite(fd, (void *)(uintptr_t)from, to - from, (off_t)at);

        if (n <= 0)
            return false;
        from += (uint64_t)n;
        at += (uint64_t)n;
    }
    return true;
}

bool vm_may_swap(void)
{
    struct sysinfo info;

    return sysinfo(&info) || info.totalswap;
}

/*
 * Copy the pages that were ever accessed; the others are zero in the file, too, and take no memory. The pagemap shows
 * private pages; mincore shows those of a file, except swapped-out ones.
 */
static bool copy_pages(int pagemap, int fd, uint64_t from, uint64_t to, uint64_t at, bool all)
{
    uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE), entry[ENTRIES], begin = from, page = from;
    unsigned char in_memory[ENTRIES];

    while (page < to && !all) {
        uint64_t n = (to - page) / size < ENTRIES ? (to - page) / size : ENTRIES;
        ssize_t got = pread(pagemap, entry, n * 8, (off_t)(page / size * 8));

        if (got <= 0 || got % 8 || mincore((void *)(uintptr_t)page, (size_t)got / 8 * size, in_memory))
            return false;
        for (ssize_t i = 0; i < got / 8; i++, page += size) {
            if (!is_untouched(entry[i]) || in_memory[i] & 1)
                continue;
            if (begin < page && !put(fd, begin, page, at + (begin - from)))
                return false;
            begin = page + size;
        }
    }
    return begin >= to || put(fd, begin, to, at + (begin - from));
}

static bool replace(int pagemap, int fd, uint64_t from, uint64_t to, uint64_t at, bool all)
{
    return copy_pages(pagemap, fd, from, to, at, all) &&
           vm_mmap((void *)(uintptr_t)from, to - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
                   (off_t)at) != MAP_FAILED;
}

/* -- with other threads: each waits at its next write until the page has moved -- */

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13) /* Linux 6.4; older headers */
#endif

/* Return a userfaultfd that also stops writes which the kernel makes for the program; -1 if the user has no
 * permission. */
static int guard(void)
{
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_UNPOPULATED };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool protect(int guard_fd, uint64_t from, uint64_t length)
{
    struct uffdio_register area = { .range = { from, length }, .mode = UFFDIO_REGISTER_MODE_WP };
    struct uffdio_writeprotect stop = { .range = { from, length }, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

    return !ioctl(guard_fd, UFFDIO_REGISTER, &area) && !ioctl(guard_fd, UFFDIO_WRITEPROTECT, &stop);
}

/* Let waiting threads retry their writes: on the new page, or on the old one if nothing was moved. */
static void release(int guard_fd, uint64_t from, uint64_t length, bool moved)
{
    struct uffdio_range area = { from, length };

    if (!moved)
        ioctl(guard_fd, UFFDIO_UNREGISTER, &area);
    ioctl(guard_fd, UFFDIO_WAKE, &area);
}

static unsigned threads(void)
{
    struct stat info;

    return stat("/proc/self/task", &info) || info.st_nlink < 3 ? 2 : (unsigned)info.st_nlink - 2;
}

static bool is_held(int fd, bool threads, bool despite_io, enum vm_holder *holder)
{
    struct stat info;
    enum vm_holder found = fstat(fd, &info) ? VM_HELD_BY_DEVICE : vm_page_holder(info.st_dev, threads);

    if (found == VM_HELD_BY_DEVICE || (found == VM_HELD_BY_IO && !despite_io))
        *holder = found;
    return *holder != VM_NO_HOLDER;
}

uint64_t vm_move(uint64_t from, uint64_t to, int fd, uint64_t at, bool moved_before, unsigned helpers, bool despite_io, enum vm_holder *holder)
{
    bool alone = threads() <= 1 + helpers, right = true;
    int guard_fd = alone ? -1 : guard(), pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t done = from;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* a signal handler could write to the pages */
    while (pagemap >= 0 && (alone || guard_fd >= 0) && done < to && right) {
        uint64_t n = to - done < PIECE ? to - done : PIECE;

        right = alone || protect(guard_fd, done, n);
        right = right && !is_held(fd, !alone, despite_io, holder) && replace(pagemap, fd, done, done + n, at + (done - from), moved_before && vm_may_swap());
        if (!alone)
            release(guard_fd, done, n, right);
        if (right)
            done += n;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (guard_fd >= 0)
        close(guard_fd);
    if (pagemap >= 0)
        close(pagemap);
    return done;
}
