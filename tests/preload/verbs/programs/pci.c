/*
 * Follows sysfs from each device as communication libraries do: its name; the real paths of `device` below libibverbs' two paths and below
 * its umad device; the function's vendor, device and class; and the part that ibv_query_device tells.
 */
#include "rig.h"

#include <limits.h>

static const char *real_path(const char *base)
{
    static char to[3][PATH_MAX];
    static unsigned next;
    char path[PATH_MAX], *here = to[next++ % 3];

    snprintf(path, sizeof path, "%s/device", base);
    MUST(realpath(path, here));
    return here;
}

static const char *text(const char *device, const char *name)
{
    static char lines[3][16];
    static unsigned next;
    char path[PATH_MAX], *line = lines[next++ % 3];
    FILE *file;

    snprintf(path, sizeof path, "%s/device/%s", device, name);
    file = fopen(path, "r");
    MUST(file && fscanf(file, "%15s", line) == 1 && !fclose(file));
    return line;
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    MUST(list);
    for (unsigned i = 0; list[i]; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);
        const char *by_device = real_path(list[i]->ibdev_path), *by_uverbs = real_path(list[i]->dev_path);
        struct ibv_device_attr says;
        char umad[64];

        MUST(context && !ibv_query_device(context, &says));
        snprintf(umad, sizeof umad, "/sys/class/infiniband_mad/umad%u", i);
        printf("%s %s %s %s", ibv_get_device_name(list[i]), by_device, by_uverbs, real_path(umad));
        printf(" %s %s %s %u\n", text(list[i]->ibdev_path, "vendor"), text(list[i]->ibdev_path, "device"), text(list[i]->ibdev_path, "class"),
               says.vendor_part_id);
    }
    return 0;
}
