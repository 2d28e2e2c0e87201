/* Join this process to the fabric: once, and again in each forked child. */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sv_shared_fabric sv_shared_fabric;
struct sv_cells *sv_fabric_cells;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int link_fd = -1, verbs_fd = -1;
static uint32_t process;
static char folder[SV_PATH_ROOM];
static bool reported;
static void (*forget)(void);

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The connection belongs to the parent: if the child kept it open, a dead parent would seem to be alive. */
static void in_child(void)
{
    if (link_fd >= 0)
        close(link_fd);
    link_fd = -1;
    process = 0;
    pthread_mutex_unlock(&lock);
}

/* Register the fork handlers before those of the program, so that this library takes its lock last; see
 * memory/pages/remap.c. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Read the folder of the fabric and the name of the view from the environment. */
static int find_fabric(const char **view, char *why, size_t room)
{
    const char *umad = getenv("SOFTIB_UMAD"), *slash = umad ? strrchr(umad, '/') : NULL;

    *view = getenv("SOFTIB_VIEW");
    if (!slash || !*view || !strrchr(*view, '/')) {
        snprintf(why, room, "SOFTIB_UMAD and SOFTIB_VIEW do not name a running fabric; start the program with 'softib run'");
        return -ENODEV;
    }
    if ((size_t)snprintf(folder, sizeof folder, "%.*s", (int)(slash - umad), umad) >= sizeof folder - 16) {
        snprintf(why, room, "SOFTIB_UMAD is too long for a path");
        return -ENAMETOOLONG;
    }
    return 0;
}

/* Map those of `files` that are not mapped yet, and close the other descriptors: a forked child receives its parent's
 * files again. */
static int map_files(int files[SOFTIB_SERVER_FILES], const char *view, char *why, size_t room)
{
    char path[SV_PATH_ROOM + 16];
    int error = 0;

    snprintf(path, sizeof path, "%s/shared_fabric", folder);
    if (!sv_shared_fabric.head) {
        error = sv_shared_fabric_map(&sv_shared_fabric, files[SOFTIB_SERVER_FABRIC], files[SOFTIB_SERVER_LAZY], path, why, room);
        files[SOFTIB_SERVER_LAZY] = error ? files[SOFTIB_SERVER_LAZY] : -1;
    }
    if (!error)
        error = sv_devices_read(view, why, room);
    if (!error && sv_fabric_cells) {
        sv_cells_renumber(sv_fabric_cells, process);
        if (forget)
            forget();
    } else if (!error) {
        snprintf(path, sizeof path, "%s/traffic", folder);
        error = sv_cells_open(&sv_fabric_cells, files[SOFTIB_SERVER_TRAFFIC], path, process, why, room);
        if (!error) {
            verbs_fd = files[SOFTIB_SERVER_VERBS];
            files[SOFTIB_SERVER_VERBS] = files[SOFTIB_SERVER_TRAFFIC] = -1;
        }
    }
    return error;
}

static int join(char *why, size_t room)
{
    char path[SV_PATH_ROOM + 16];
    const char *view;
    int files[SOFTIB_SERVER_FILES] = { -1, -1, -1, -1 };
    int fd, error = find_fabric(&view, why, room);

    if (error)
        return error;
    snprintf(path, sizeof path, "%s/verbs.sock", folder);
    fd = sv_link_open(path, strrchr(view, '/') + 1, &process, files, why, room);
    if (fd < 0)
        return fd;
    error = map_files(files, view, why, room);
    for (unsigned i = 0; i < SOFTIB_SERVER_FILES; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (error) {
        close(fd);
        process = 0;
        return error;
    }
    link_fd = fd;
    return 0;
}

static void explain(const char *why)
{
    const char *quiet = getenv("SOFTIB_QUIET");

    if (!reported && !(quiet && *quiet && strcmp(quiet, "0")))
        fprintf(stderr, "softib: no InfiniBand devices: %s\n", why);
    reported = true;
}

int sv_fabric_join(void)
{
    char why[SV_PATH_ROOM + 256] = "";
    int error = 0;

    if (__atomic_load_n(&link_fd, __ATOMIC_ACQUIRE) >= 0)
        return 0;
    pthread_mutex_lock(&lock);
    if (link_fd < 0) {
        error = join(why, sizeof why);
        if (error)
            explain(why);
    }
    pthread_mutex_unlock(&lock);
    return error ? -ENODEV : 0;
}

uint32_t sv_fabric_process(void)
{
    return process;
}

int sv_fabric_memory(void)
{
    int fd = verbs_fd;

    verbs_fd = -1;
    return fd;
}

const char *sv_fabric_folder(void)
{
    return folder;
}

void sv_fabric_at_fork(void (*call)(void))
{
    forget = call;
}

bool sv_fabric_lives(void)
{
    char byte;

    return link_fd >= 0 && recv(link_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static int ask(const struct softib_server_ask *question, int with)
{
    int error = sv_fabric_join();

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    error = link_fd < 0 ? -ENODEV : sv_link_ask(link_fd, question, with);
    pthread_mutex_unlock(&lock);
    return error;
}

int sv_fabric_fold(void)
{
    return ask(&(struct softib_server_ask){ .op = SOFTIB_SERVER_FOLD }, -1);
}

int sv_device_events(const struct sv_device *device, int fd)
{
    return ask(&(struct softib_server_ask){ .op = SOFTIB_SERVER_SUBSCRIBE, .node = device->node }, fd);
}
