/* Devices, contexts and their attributes. */
#include "abi.h"
#include "../engine/completion/events.h"
#include "../engine/scheduling/quiesce.h"
#include "../engine/record.h"
#include "../engine/scheduling/sq_sched.h"
#include "../engine/scheduling/timer.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct ve_engine va_engine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct va_device *devices;
static unsigned devices_n;
static bool ready;

/* Called in a forked child, which owns no objects of its parent. */
static void forget(void)
{
    va_engine.waiting = NULL;
    va_engine.tagged = NULL;
    va_engine.timer_runs = false;
    ve_record_forget();
    pthread_mutex_init(&va_engine.lock, NULL);
    ve_quiesce_begin(&va_engine);
    vm_renumber(&va_engine.w, sv_fabric_process());
}

/* The shared memory of verbs is unusable: print one line with the reason, as for every missing device
 * (SOFTIB_QUIET=1: none). */
static void refuse(int error)
{
    static bool reported;
    const char *quiet = getenv("SOFTIB_QUIET"), *folder = sv_fabric_folder();
    uint32_t version = vm_version(folder);
    struct rlimit space;

    if (reported || (quiet && *quiet && strcmp(quiet, "0")))
        return;
    reported = true;
    if (error == -EPROTO && version != SOFTIB_VERBS_VERSION)
        fprintf(stderr, "softib: no InfiniBand devices: %s/verbs has version %u, this library reads version %u\n", folder,
                version, SOFTIB_VERBS_VERSION);
    else if (error == -ENOMEM && !getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY)
        fprintf(stderr, "softib: no InfiniBand devices: %s/verbs takes %llu GB of address space, the limit is %llu; use ulimit -v unlimited\n",
                folder, (unsigned long long)(SOFTIB_VERBS_SIZE >> 30), (unsigned long long)space.rlim_cur >> 30);
    else
        fprintf(stderr, "softib: no InfiniBand devices: %s/verbs: %s\n", folder, strerror(-error));
}

/* Join the fabric, at the first call. */
static int join(void)
{
    const struct sv_device *of;
    unsigned n;
    int error;

    error = sv_fabric_join();
    if (error || ready)
        return error;
    error = vm_open(&va_engine.w, sv_fabric_folder(), sv_fabric_memory(), sv_fabric_process());
    if (error) {
        refuse(error);
        return error;
    }
    pthread_mutex_init(&va_engine.lock, NULL);
    ve_quiesce_begin(&va_engine);
    ve_modes_read();
    ve_record_begin();
    sv_fabric_at_fork(forget);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* peers of the same user copy from and to this memory */
    n = sv_devices(&of);
    devices = calloc(n ? n : 1, sizeof *devices);
    if (!devices)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        struct ibv_device *d = &devices[i].device;

        devices[i].of = &of[i];
        d->node_type = of[i].node_type == SV_NODE_SWITCH ? IBV_NODE_SWITCH : IBV_NODE_CA;
        d->transport_type = IBV_TRANSPORT_IB;
        snprintf(d->name, sizeof d->name, "%s", of[i].name);
        snprintf(d->dev_name, sizeof d->dev_name, "uverbs%u", i);
        snprintf(d->dev_path, sizeof d->dev_path, "/sys/class/infiniband_verbs/uverbs%u", i);
        snprintf(d->ibdev_path, sizeof d->ibdev_path, "/sys/class/infiniband/%.200s", of[i].name);
    }
    devices_n = n;
    ready = true;
    return 0;
}

VA_EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
    struct ibv_device **list;
    unsigned count;

    pthread_mutex_lock(&lock);
    count = join() ? 0 : devices_n;
    pthread_mutex_unlock(&lock);
    list = calloc(count + 1, sizeof *list);
    if (!list)
        count = 0;
    for (unsigned i = 0; i < count; i++)
        list[i] = &devices[i].device;
    if (n)
        *n = (int)count;
    return list;
}

VA_EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

VA_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

VA_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return htobe64(((struct va_device *)device)->of->node_guid);
}

VA_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return (int)((struct va_device *)device - devices);
}

/* -- contexts -- */

/*
 * The command descriptor is a file that contains the device's name, so that a process to which it is passed (dup,
 * SCM_RIGHTS) can import the context.
 */
static int name_tag(const char *name)
{
    int fd = memfd_create("softib-device", MFD_CLOEXEC);

    if (fd >= 0 && write(fd, name, strlen(name) + 1) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

VA_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    char name[IBV_SYSFS_NAME_MAX] = "";
    struct ibv_context *context;

    pthread_mutex_lock(&lock);
    errno = join() ? ENODEV : EINVAL;
    pthread_mutex_unlock(&lock);
    if (pread(cmd_fd, name, sizeof name - 1, 0) < 0)
        return NULL;
    for (unsigned i = 0; i < devices_n; i++) {
        if (strcmp(devices[i].device.name, name))
            continue;
        context = ibv_open_device(&devices[i].device);
        if (context) {
            close(context->cmd_fd);
            context->cmd_fd = cmd_fd; /* now owned by the context (ibv_import_device(3)) */
        }
        return context;
    }
    return NULL;
}

VA_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    const struct sv_device *of = ((struct va_device *)device)->of;
    struct va_context *c;
    int error;

    pthread_mutex_lock(&lock);
    error = join();
    pthread_mutex_unlock(&lock);
    c = error ? NULL : calloc(1, sizeof *c);
    if (!c) {
        errno = error ? -error : ENOMEM;
        return NULL;
    }
    c->device = of;
    c->v.sz = sizeof c->v;
    c->v.context.abi_compat = (void *)UINTPTR_MAX; /* the mark of an extended context */
    c->v.context.device = device;
    c->v.context.num_comp_vectors = 1;
    c->v.context.cmd_fd = name_tag(device->name);
    c->v.context.async_fd = va_wake_socket(&c->async);
    if (c->v.context.async_fd < 0) {
        errno = -c->v.context.async_fd;
        close(c->v.context.cmd_fd);
        free(c);
        return NULL;
    }
    ve_events_open(&va_engine);
    c->event_writer = va_wake_writer(c->async);
    if (c->event_writer >= 0)
        sv_device_events(of, c->event_writer);
    pthread_mutex_init(&c->v.context.mutex, NULL);
    va_fill_ops(&c->v);
    return &c->v.context;
}

VA_EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct va_context *c = va_context(context);

    if (c->event_writer >= 0)
        close(c->event_writer);
    va_wake_close(context->async_fd, c->async);
    ve_events_closed(&va_engine, c->async);
    close(context->cmd_fd);
    free(c);
    return 0;
}

/* Does nothing: shared memory stays shared, and forget() handles the rest in the child. */
VA_EXPORT int ibv_fork_init(void)
{
    return 0;
}

VA_EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}
