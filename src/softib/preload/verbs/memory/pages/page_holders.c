/*
 * The kernel and drivers write to pages that they hold (Documentation/core-api/pin_user_pages.rst): O_DIRECT reads,
 * libaio and io_uring while the I/O is in flight, GPUs and VFIO for longer. If the mapping is replaced meanwhile, the
 * data arrives in a page that is no longer mapped. No system call reports held pages, so the process is searched for
 * descriptors and mappings that could hold some. The caller has write-protected the pages first, so that I/O that
 * starts later does not hold the old ones.
 *
 * A process may have many descriptors. They are read again when the C library's open(2) or fcntl(2) has created one
 * with O_DIRECT. Otherwise they are read so rarely that this takes at most a tenth of the time.
 *
 * Not detected: I/O whose descriptor was closed while the I/O is in flight; a descriptor created by a direct system
 * call within ten times the duration of the last scan; and pages that another process holds for an instant
 * (process_vm_writev).
 */
#include "page_holders.h"
#include "vma.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define IO_URING "anon_inode:[io_uring]"

/* Note whether a mapping belongs to a device that may hold pages. */
static bool look_at_mapping(const struct vm_vma *vma, void *of)
{
    static const struct { const char *path; enum vm_holder holder; } known[] = {
        { "/[aio]", VM_HELD_BY_IO }, { IO_URING, VM_HELD_BY_IO }, { "/dev/nvidia", VM_HELD_BY_DEVICE },
        { "/dev/kfd", VM_HELD_BY_DEVICE }, { "/dev/dri/", VM_HELD_BY_DEVICE }, { "/dev/vfio/", VM_HELD_BY_DEVICE },
    };
    enum vm_holder *found = of;

    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(vma->path, known[i].path, strlen(known[i].path)) && known[i].holder > *found)
            *found = known[i].holder;
    return *found != VM_HELD_BY_DEVICE;
}

enum { A_RING = 1, A_DIRECT_FILE = 2 };

/*
 * Pipes use O_DIRECT for packets (pipe(2)). The descriptor of an io_uring, whose rings need not be
 * mapped (IORING_SETUP_NO_MMAP), has no file type; only /proc shows its name.
 */
static unsigned kind_of(int fd)
{
    char link[32], name[sizeof IO_URING] = "";
    struct stat info;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || (!(flags & O_DIRECT) && (flags & O_ACCMODE) != O_RDWR) || fstat(fd, &info))
        return 0;
    if (info.st_mode & S_IFMT)
        return flags & O_DIRECT && !S_ISFIFO(info.st_mode) ? A_DIRECT_FILE : 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, name, sizeof name - 1) > 0 && !strcmp(name, IO_URING) ? A_RING : 0;
}

struct entry { /* struct linux_dirent64 (getdents64(2)) */
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Return the kinds of holders among the descriptors; all kinds if the descriptors cannot be listed. */
static unsigned kinds_of_descriptors(void)
{
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(struct entry) char buffer[4096];
    unsigned found = 0;
    long n = -1;

    while (folder >= 0 && (n = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(buffer + at);

            found |= *e->name != '.' ? kind_of(atoi(e->name)) : 0;
            at += e->length;
        }
    }
    if (folder >= 0)
        close(folder);
    return n < 0 ? A_RING | A_DIRECT_FILE : found;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool noted; /* a descriptor with O_DIRECT was created since the last scan */

void vm_note_direct_file(void)
{
    __atomic_store_n(&noted, true, __ATOMIC_RELEASE);
}

static bool a_descriptor_may_hold(bool threads)
{
    static uint64_t next_look_ns;
    static unsigned found;
    uint64_t began = now_ns();

    if (__atomic_exchange_n(&noted, false, __ATOMIC_ACQUIRE) || began >= next_look_ns) {
        found = kinds_of_descriptors();
        next_look_ns = now_ns() + 10 * (now_ns() - began);
    }
    return found & A_RING || (threads && found & A_DIRECT_FILE);
}

enum vm_holder vm_page_holder(uint64_t memory_device, bool threads)
{
    enum vm_holder found = VM_NO_HOLDER;

    if (!vm_shared_files(memory_device, look_at_mapping, &found))
        return VM_HELD_BY_DEVICE; /* unknown, so assume the worst */
    return found == VM_NO_HOLDER && a_descriptor_may_hold(threads) ? VM_HELD_BY_IO : found;
}
