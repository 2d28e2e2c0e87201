/* Which paths are the fabric's: below /sys/class/infiniband, /sys/class/infiniband_mad and /dev/infiniband. */
#include "inner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ours[] = {
    "/sys/class/infiniband", "/sys/class/infiniband_mad", "/sys/class/infiniband_verbs", "/dev/infiniband",
};

/* The part of `path` after `prefix`, when `path` is it or below it. */
static const char *below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(path, prefix, n) || (path[n] && path[n] != '/'))
        return NULL;
    return path + n;
}

static bool is_ours(const char *path)
{
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (below(path, ours[i]))
            return true;
    return false;
}

const char *mapped(const char *path, char room[PATH_ROOM])
{
    const char *folder = path && *path == '/' ? view_folder() : NULL;

    if (!folder || !is_ours(path))
        return path;
    if ((size_t)snprintf(room, PATH_ROOM, "%s%s", folder, path) >= PATH_ROOM)
        return path; /* the caller gets its ENAMETOOLONG or ENOENT from the kernel */
    return room;
}

/* Writes the absolute form of `path`, relative to `folder`, to `room`. */
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

static void refresh(const char *path)
{
    const char *part = below(path, view_folder());
    struct softib_umad_ask question = { .op = SOFTIB_UMAD_REFRESH };
    struct softib_umad_told told;

    if (!part || *part != '/' || strlen(part) >= sizeof question.path)
        return;
    strcpy(question.path, part + 1);
    ask(&question, &told, false); /* without a daemon the file says what was true when it died */
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

    return below(path, "/sys/class/infiniband") && !strcmp(name, "/node_desc");
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
