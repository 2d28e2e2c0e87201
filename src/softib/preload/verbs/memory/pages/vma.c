/* Reader of /proc/self/maps. It reads the whole file first, because other threads may map and unmap meanwhile, and does
 * not use malloc, which may be unusable in a forked child. */
#include "vma.h"
#include "mmap_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FIRST 65536

/* Return the content of the file, terminated by a 0; set `room` to the size of the buffer. NULL: it cannot be read. */
static char *slurp(size_t *room)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;
    char *text;

    *room = FIRST;
    text = fd < 0 ? MAP_FAILED : vm_mmap(NULL, *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (text != MAP_FAILED && (n = read(fd, text + used, *room - used - 1)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        used += n < 0 ? 0 : (size_t)n;
        if (n < 0 || used + 1 == *room) {
            char *more = n < 0 ? MAP_FAILED : vm_mremap(text, *room, 2 * *room, MREMAP_MAYMOVE, NULL);

            if (more == MAP_FAILED)
                vm_munmap(text, *room);
            text = more;
            *room *= 2;
        }
    }
    if (fd >= 0)
        close(fd);
    if (text == MAP_FAILED)
        return NULL;
    text[used] = 0;
    return text;
}

/* "start-end rights offset major:minor inode   path" */
static void parse(char *line, struct vm_vma *g)
{
    unsigned long major_, minor_;
    char *at;

    g->start = strtoul(line, &at, 16);
    g->end = strtoul(at + 1, &at, 16);
    for (size_t i = 0; i < 4; i++)
        g->rights[i] = at[1 + i];
    g->rights[4] = 0;
    g->offset = strtoul(at + 5, &at, 16);
    major_ = strtoul(at, &at, 16);
    minor_ = strtoul(at + 1, &at, 16);
    g->device = makedev(major_, minor_);
    g->inode = strtoul(at, &at, 10);
    g->path = at + strspn(at, " ");
}

bool vm_vmas(bool (*each)(const struct vm_vma *vma, void *of), void *of)
{
    size_t room;
    char *text = slurp(&room), *end;
    struct vm_vma g;

    if (!text)
        return false;
    for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        parse(line, &g);
        if (!each(&g, of))
            break;
    }
    vm_munmap(text, room);
    return true;
}
