/* The HCAs that this program sees: the file `devices` of its view, which the daemon writes, and the shared fabric. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sv_device *devices;
static unsigned devices_n;

/* Read a device from a line of the file: name, row of the node, firmware, portnums. */
static bool parse(char *line, struct sv_device *d)
{
    char *rest = NULL, *name = strtok_r(line, " \n", &rest), *node = strtok_r(NULL, " \n", &rest);
    char *fw = strtok_r(NULL, " \n", &rest), *end;

    memset(d, 0, sizeof *d);
    if (!name || !node || !fw || strlen(name) >= sizeof d->name || strlen(fw) >= sizeof d->fw)
        return false;
    strcpy(d->name, name);
    strcpy(d->fw, fw);
    d->node = (uint32_t)strtoul(node, &end, 10);
    if (*end || d->node >= sv_shared_fabric.nodes)
        return false;
    for (char *word; (word = strtok_r(NULL, " \n", &rest));) {
        unsigned long portnum = strtoul(word, &end, 10);

        if (*end || portnum > sv_shared_fabric.node_nports[d->node] || d->portnums_n == sizeof d->portnums)
            return false;
        d->portnums[d->portnums_n++] = (uint8_t)portnum;
    }
    return true;
}

static void describe(struct sv_device *d)
{
    const struct sv_shared_fabric *b = &sv_shared_fabric;
    uint32_t node = d->node;

    d->node_guid = b->node_guid[node];
    d->sys_image_guid = b->sys_guid[node];
    d->vendor_id = b->vendor_id[node];
    d->vendor_part_id = b->device_id[node];
    d->hw_ver = b->revision[node];
    d->node_type = b->node_type[node];
    d->ports = b->node_nports[node];
    memcpy(d->desc, b->node_desc + 64 * (size_t)node, 64);
}

int sv_devices_read(const char *view, char *why, size_t room)
{
    char path[SV_PATH_ROOM], line[2048];
    FILE *file;

    if (devices) /* a forked child keeps its parent's list, so that pointers into it stay valid */
        return 0;
    snprintf(path, sizeof path, "%s/devices", view);
    file = fopen(path, "re");
    if (!file) {
        int error = errno;

        snprintf(why, room, "%s: %s", path, strerror(error));
        return -error;
    }
    unsigned n = 0;
    struct sv_device *list = NULL;
    int error = 0;

    while (!error && fgets(line, sizeof line, file)) {
        struct sv_device *more = realloc(list, (n + 1) * sizeof *list);

        if (!more)
            error = -ENOMEM;
        else if (!parse(line, &(list = more)[n]))
            error = -EPROTO;
        else
            describe(&list[n++]);
    }
    fclose(file);
    if (error) {
        snprintf(why, room, "%s: line %u does not describe a device", path, n + 1);
        free(list);
        return error;
    }
    devices = list;
    devices_n = n;
    return 0;
}

unsigned sv_devices(const struct sv_device **list)
{
    *list = devices;
    return devices_n;
}

uint32_t sv_port_row(const struct sv_device *d, unsigned portnum)
{
    const struct sv_shared_fabric *b = &sv_shared_fabric;

    if (portnum > b->node_nports[d->node] || (!portnum && !sv_is_switch(b, d->node)))
        return SV_NO_PORT;
    return (uint32_t)(b->node_base[d->node] + (int32_t)portnum);
}
