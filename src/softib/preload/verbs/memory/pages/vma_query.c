/*
 * The mappings of a part of this process, queried by address (PROCMAP_QUERY, Linux 6.11;
 * fs/proc/task_mmu.c), which is not slower with many mappings. On an older system all mappings are
 * read.
 */
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct query { /* struct procmap_query of <linux/fs.h>, which older headers do not have */
    uint64_t size, flags, address;
    uint64_t start, end, rights, page_size, offset, inode;
    uint32_t major, minor, name_octets, id_octets;
    uint64_t name, id;
};

#define NAME 4096

_Static_assert(sizeof(struct query) == 104, "size of the kernel's structure");

#define QUERY _IOWR('f', 17, struct query)
/* Access rights of a mapping. In a query they are a filter. */
enum { READS = 1, WRITES = 2, EXECUTES = 4, IS_SHARED = 8, OR_THE_NEXT = 16, OF_FILES = 32 };

static struct vm_vma vma_of(const struct query *q, const char *name)
{
    return (struct vm_vma){
        .start = q->start, .end = q->end, .offset = q->offset, .device = makedev(q->major, q->minor), .inode = q->inode,
        .rights = { q->rights & READS ? 'r' : '-', q->rights & WRITES ? 'w' : '-', q->rights & EXECUTES ? 'x' : '-',
                    q->rights & IS_SHARED ? 's' : 'p' },
        .path = q->name_octets ? name : "",
    };
}

/* Query the mapping at `from`, or the next one, that has `flags`. `name`: a buffer for its path; NULL: do not query the
 * path, which takes long. Return 0 or an errno. */
static int ask(int fd, uint64_t from, uint64_t flags, char *name, struct vm_vma *g)
{
    struct query q = { .size = sizeof q, .flags = OR_THE_NEXT | flags, .address = from, .name = (uintptr_t)name,
                       .name_octets = name ? NAME : 0 };

    if (ioctl(fd, QUERY, &q))
        return errno;
    *g = vma_of(&q, name);
    return 0;
}

bool vm_vmas_between(uint64_t from, uint64_t to, bool (*each)(const struct vm_vma *vma, void *of), void *of)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error = 0;
    bool more = true;

    while (fd >= 0 && more && from < to) {
        struct vm_vma g;
        char name[NAME];

        error = ask(fd, from, 0, name, &g);
        if (error || g.start >= to)
            break;
        more = each(&g, of);
        from = g.end;
    }
    if (fd >= 0)
        close(fd);
    if (fd < 0 || (error && error != ENOENT)) /* ENOENT: no further mapping */
        return vm_vmas(each, of);
    return true;
}

bool vm_shared_files(uint64_t but, bool (*each)(const struct vm_vma *vma, void *of), void *of)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error = fd < 0 ? EBADF : 0;
    struct vm_vma g = { .end = 0 };
    char name[NAME];
    bool more = true;

    while (!error && more) {
        error = ask(fd, g.end, IS_SHARED | OF_FILES, NULL, &g);
        if (error || g.device == but)
            continue;
        error = ask(fd, g.start, 0, name, &g);
        more = error || each(&g, of);
    }
    if (fd >= 0)
        close(fd);
    return error && error != ENOENT ? vm_vmas(each, of) : true;
}
