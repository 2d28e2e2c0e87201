/*
 * Paths of the fabric: below /sys/class/infiniband, /sys/class/infiniband_mad and /dev/infiniband,
 * below the PCI buses of /sys/devices with the view's adapters (the targets of the links in these
 * classes), /sys/bus/pci/devices and /sys/class/pci_bus, where the view also has links to the machine's
 * devices and buses, and the NUMA nodes of a modelled machine.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ours[] = {
    "/sys/class/infiniband", "/sys/class/infiniband_mad", "/sys/class/infiniband_verbs", "/dev/infiniband",
    "/sys/bus/pci/devices", "/sys/class/pci_bus",
};

/* Return the part of `path` after `prefix`, if `path` is `prefix` or below it. */
static const char *below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(path, prefix, n) || (path[n] && path[n] != '/'))
        return NULL;
    return path + n;
}

#define BUSES "/sys/devices/pci"
#define NUMA "/sys/devices/system/node"

/* Return whether the view has its own version of the first `size` characters of `path` (a PCI root bus, or the NUMA
 * nodes). Otherwise programs see the machine's. */
static bool in_view(const char *path, size_t size)
{
    char room[PATH_ROOM];
    int before = errno;
    bool there = (size_t)snprintf(room, sizeof room, "%s%.*s", view_folder(), (int)size, path) < sizeof room &&
                !real()->access(room, F_OK);

    errno = before;
    return there;
}

static bool is_ours(const char *path)
{
    if (!strncmp(path, BUSES, sizeof BUSES - 1))
        return in_view(path, sizeof BUSES - 1 + strcspn(path + sizeof BUSES - 1, "/"));
    if (below(path, NUMA))
        return in_view(path, sizeof NUMA - 1);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (below(path, ours[i]))
            return true;
    return false;
}

static int is_verbs(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    *(bool *)found |= strstr(info->dlpi_name, "/libibverbs.so") != NULL;
    return 0;
}

/* libibverbs looks for devices, but libsoftib-verbs.so was not built: print the reason from `softib
 * run`, one line, once. */
static void report_missing_verbs(void)
{
    static bool reported;
    const char *why = getenv("SOFTIB_NO_VERBS"), *quiet = getenv("SOFTIB_QUIET");
    bool verbs = false;

    if (!why || !*why || (quiet && *quiet && strcmp(quiet, "0")) || __atomic_exchange_n(&reported, true, __ATOMIC_RELAXED))
        return;
    dl_iterate_phdr(is_verbs, &verbs);
    if (verbs)
        fprintf(stderr, "softib: no InfiniBand devices for this program: %s\n", why);
}

const char *mapped(const char *path, char room[PATH_ROOM])
{
    const char *folder = path && *path == '/' ? view_folder() : NULL;

    if (!folder || !is_ours(path))
        return path;
    if (below(path, "/sys/class/infiniband_verbs"))
        report_missing_verbs();
    if ((size_t)snprintf(room, PATH_ROOM, "%s%s", folder, path) >= PATH_ROOM)
        return path; /* the kernel reports ENAMETOOLONG or ENOENT to the caller */
    return room;
}

char *unmapped(char *path)
{
    const char *rest = path && view_folder() ? below(path, view_folder()) : NULL;

    if (rest && *rest == '/' && is_ours(rest))
        memmove(path, rest, strlen(rest) + 1);
    return path;
}

/* Write to `room` the absolute form of `path`, which is relative to `folder`. */
static bool absolute(int folder, const char *path, char room[PATH_ROOM])
{
    char link[64];
    ssize_t n;

    if (folder == AT_FDCWD)
        n = getcwd(room, PATH_ROOM - 1) ? (ssize_t)strlen(room) : -1;
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        n = real()->readlink(link, room, PATH_ROOM - 1);
    }
    if (n < 0)
        return false;
    return (size_t)snprintf(room + n, PATH_ROOM - (size_t)n, "/%s", path) < PATH_ROOM - (size_t)n;
}

const char *mapped_fresh(int folder, const char *path, char room[PATH_ROOM])
{
    const char *at = mapped(path, room);
    int before = errno;

    if (!path || !*path || !view_folder())
        return at;
    if (*path == '/')
        refresh(at);
    else {
        char whole[PATH_ROOM];
        if (absolute(folder, path, whole))
            refresh(whole);
    }
    errno = before;
    return at;
}

bool is_attribute(const char *path)
{
    return path && view_folder() && !below(path, "/dev/infiniband") && is_ours(path);
}

bool is_description(const char *path)
{
    const char *name = strrchr(path, '/');

    return (below(path, "/sys/class/infiniband") || !strncmp(path, BUSES, sizeof BUSES - 1)) && !strcmp(name, "/node_desc");
}

char device_of(const char *path, unsigned *number)
{
    const char *name, *digits;
    char kind;
    char *end;

    if (!view_folder() || !path || !(name = below(path, "/dev/infiniband")) || *name != '/')
        return 0;
    while (*name == '/')
        name++;
    if (!strncmp(name, "umad", 4))
        kind = 'u';
    else if (!strncmp(name, "issm", 4))
        kind = 's';
    else
        return 0;
    digits = name + 4;
    if (*digits < '0' || *digits > '9')
        return 0;
    *number = (unsigned)strtoul(digits, &end, 10);
    return *end ? 0 : kind;
}
