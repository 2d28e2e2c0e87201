/*
 * Files of the view are current when a program opens them: the daemon writes them again on request.
 *
 * libibumad reads the whole P_Key table of a port, one file per entry, each time it looks up a port: saquery opened 435
 * files, and waited for the daemon each time. So opening the first file of pkeys/ or gids/ updates all files of the
 * directory, and within TABLE_MS each of the other files can be opened once without a request. Opening the same file
 * twice sends a further request.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLE_MS = 10, ENTRIES = 512 };

static struct {
    char folder[PATH_ROOM];
    int64_t queried_ns;
    uint64_t opened[ENTRIES / 64];
} table; /* directory whose files were written last */
static bool table_used;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Return the entry number if `path` is a file of a table, otherwise -1. `length` is set to the length of its
 * directory's name, including the slash. */
static int entry_of(const char *path, size_t *length)
{
    const char *name = strrchr(path, '/');
    char *end;

    if (!name || name[1] < '0' || name[1] > '9')
        return -1;
    *length = (size_t)(name + 1 - path);
    size_t n = *length;
    bool is_table = (n > 7 && !memcmp(name - 6, "/pkeys", 6)) || (n > 6 && !memcmp(name - 5, "/gids", 5));
    unsigned long entry = strtoul(name + 1, &end, 10);
    return is_table && !*end && entry < ENTRIES ? (int)entry : -1;
}

/* Return whether the file was written with its directory within TABLE_MS and not opened since. */
static bool written_with_others(const char *path, size_t length, int entry)
{
    bool is = false;
    uint64_t bit = UINT64_C(1) << entry % 64;

    if (__atomic_exchange_n(&table_used, true, __ATOMIC_ACQUIRE))
        return false; /* another thread holds the lock, or held it at the fork; a further request does no harm */
    if (table.queried_ns && now_ns() - table.queried_ns < TABLE_MS * INT64_C(1000000) && !strncmp(table.folder, path, length) && !table.folder[length]) {
        is = !(table.opened[entry / 64] & bit);
        table.opened[entry / 64] |= bit;
    }
    __atomic_store_n(&table_used, false, __ATOMIC_RELEASE);
    return is;
}

static void remember(const char *path, size_t length, int entry, int64_t queried_ns)
{
    if (length >= sizeof table.folder || __atomic_exchange_n(&table_used, true, __ATOMIC_ACQUIRE))
        return;
    memset(&table, 0, sizeof table);
    memcpy(table.folder, path, length);
    table.opened[entry / 64] = UINT64_C(1) << entry % 64;
    table.queried_ns = queried_ns;
    __atomic_store_n(&table_used, false, __ATOMIC_RELEASE);
}

void refresh(const char *path)
{
    size_t folder = strlen(view_folder()), length = 0;
    struct softib_umad_ask question = { .op = SOFTIB_UMAD_REFRESH };
    struct softib_umad_reply reply;

    if (strncmp(path, view_folder(), folder) || path[folder] != '/' || strlen(path + folder) >= sizeof question.path)
        return;
    int entry = entry_of(path, &length);
    if (entry >= 0 && written_with_others(path, length, entry))
        return;
    int64_t queried_ns = now_ns();
    strcpy(question.path, path + folder + 1);
    /* without the daemon the file keeps its last content */
    if (!ask(&question, &reply, false) && entry >= 0)
        remember(path, length, entry, queried_ns);
}
