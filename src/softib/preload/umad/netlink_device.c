/*
 * The NLDEV client of RDMA netlink: devices and ports, as the kernel's drivers/infiniband/core/nldev.c fills them, from the
 * sysfs files of the view. A device's index is the number of its uverbs file, which ibv_get_device_index() returns.
 */
#include "netlink.h"

#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_netlink.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUE = 128, NODE_TYPE_CA = 1 };

/* Read a file of the view without its newline. */
__attribute__((format(printf, 2, 3))) static bool attribute(char value[VALUE], const char *format, ...)
{
    char path[PATH_ROOM], room[PATH_ROOM];
    va_list arguments;
    ssize_t n = -1;
    int fd;

    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    fd = real()->open(mapped_fresh(AT_FDCWD, path, room), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = real()->read(fd, value, VALUE - 1);
        real()->close(fd);
    }
    value[n > 0 ? n : 0] = 0;
    value[strcspn(value, "\n")] = 0;
    return n > 0;
}

/* Parse a number written in 16-bit groups of hexadecimal digits: a GUID, or half of a GID. */
static uint64_t number_of_groups(const char *text)
{
    uint64_t number = 0;

    for (int groups = 0; groups < 4; groups++) {
        char *end;

        number = number << 16 | (strtoul(text, &end, 16) & 0xffff);
        text = end + (*end == ':');
    }
    return number;
}

static void put8(struct netlink_answer *a, unsigned type, unsigned long value)
{
    netlink_put(a, type, &(uint8_t){ (uint8_t)value }, 1);
}

static void put32(struct netlink_answer *a, unsigned type, unsigned long value)
{
    netlink_put(a, type, &(uint32_t){ (uint32_t)value }, 4);
}

static void put64(struct netlink_answer *a, unsigned type, uint64_t value)
{
    netlink_put(a, type, &value, 8);
}

static void put_text(struct netlink_answer *a, unsigned type, const char *value)
{
    netlink_put(a, type, value, strlen(value) + 1);
}

static bool device_name(uint32_t index, char name[VALUE])
{
    return attribute(name, "/sys/class/infiniband_verbs/uverbs%u/ibdev", index);
}

static bool is_ethernet(const char *name)
{
    char value[VALUE];

    return attribute(value, "/sys/class/infiniband/%s/ports/1/link_layer", name) && !strcmp(value, "Ethernet");
}

static unsigned ports_of(const char *name)
{
    unsigned ports = 0;
    char value[VALUE];

    while (attribute(value, "/sys/class/infiniband/%s/ports/%u/state", name, ports + 1))
        ports++;
    return ports;
}

static void begin(struct netlink_answer *a, unsigned command, bool dump, uint32_t index, const char *name)
{
    netlink_begin(a, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), dump ? NLM_F_MULTI : 0);
    put32(a, RDMA_NLDEV_ATTR_DEV_INDEX, index);
    put_text(a, RDMA_NLDEV_ATTR_DEV_NAME, name);
}

static void device(struct netlink_answer *a, bool dump, uint32_t index, const char *name)
{
    char value[VALUE];

    begin(a, RDMA_NLDEV_CMD_GET, dump, index, name);
    put32(a, RDMA_NLDEV_ATTR_PORT_INDEX, ports_of(name));
    if (attribute(value, "/sys/class/infiniband/%s/fw_ver", name))
        put_text(a, RDMA_NLDEV_ATTR_FW_VERSION, value);
    attribute(value, "/sys/class/infiniband/%s/node_guid", name);
    put64(a, RDMA_NLDEV_ATTR_NODE_GUID, number_of_groups(value));
    attribute(value, "/sys/class/infiniband/%s/sys_image_guid", name);
    put64(a, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, number_of_groups(value));
    put8(a, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, attribute(value, "/sys/class/infiniband/%s/node_type", name) ? strtoul(value, NULL, 10) : NODE_TYPE_CA);
    put_text(a, RDMA_NLDEV_ATTR_DEV_PROTOCOL, is_ethernet(name) ? "roce" : "ib");
    netlink_end(a);
}

static unsigned long port_number(const char *name, unsigned port, const char *file, int base)
{
    char value[VALUE];

    attribute(value, "/sys/class/infiniband/%s/ports/%u/%s", name, port, file);
    return strtoul(value, NULL, base);
}

static void port(struct netlink_answer *a, bool dump, uint32_t index, const char *name, unsigned number)
{
    char value[VALUE];

    begin(a, RDMA_NLDEV_CMD_PORT_GET, dump, index, name);
    put32(a, RDMA_NLDEV_ATTR_PORT_INDEX, number);
    if (!is_ethernet(name)) {
        put64(a, RDMA_NLDEV_ATTR_CAP_FLAGS, port_number(name, number, "cap_mask", 16));
        attribute(value, "/sys/class/infiniband/%s/ports/%u/gids/0", name, number);
        put64(a, RDMA_NLDEV_ATTR_SUBNET_PREFIX, number_of_groups(value));
        put32(a, RDMA_NLDEV_ATTR_LID, port_number(name, number, "lid", 16));
        put32(a, RDMA_NLDEV_ATTR_SM_LID, port_number(name, number, "sm_lid", 16));
        put8(a, RDMA_NLDEV_ATTR_LMC, port_number(name, number, "lid_mask_count", 10));
    }
    put8(a, RDMA_NLDEV_ATTR_PORT_STATE, port_number(name, number, "state", 10));
    put8(a, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, port_number(name, number, "phys_state", 10));
    netlink_end(a);
}

/* All devices are in one network namespace; registrations survive a fork. */
static void system_modes(struct netlink_answer *a)
{
    netlink_begin(a, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET), 0);
    put8(a, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1);
    put8(a, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    netlink_end(a);
}

static bool number_in(const struct nlattr *at, size_t length, unsigned type, uint32_t *value)
{
    while (length >= NLA_HDRLEN && at->nla_len >= NLA_HDRLEN && at->nla_len <= length) {
        size_t size = NLA_ALIGN(at->nla_len);

        if ((at->nla_type & NLA_TYPE_MASK) == type && at->nla_len == NLA_HDRLEN + sizeof *value) {
            memcpy(value, (const uint8_t *)at + NLA_HDRLEN, sizeof *value);
            return true;
        }
        if (size > length)
            break;
        length -= size;
        at = (const struct nlattr *)((const uint8_t *)at + size);
    }
    return false;
}

int nldev_answer(struct netlink_answer *a, unsigned command, bool dump, const struct nlattr *attributes, size_t length)
{
    uint32_t index = 0, number = 0;
    char name[VALUE];

    if (command == RDMA_NLDEV_CMD_SYS_GET && !dump) {
        system_modes(a);
        return 0;
    }
    if (command == RDMA_NLDEV_CMD_GET && dump) {
        for (; device_name(index, name); index++)
            device(a, true, index, name);
        return 0;
    }
    if (command != RDMA_NLDEV_CMD_GET && command != RDMA_NLDEV_CMD_PORT_GET)
        return -EOPNOTSUPP;
    if (!number_in(attributes, length, RDMA_NLDEV_ATTR_DEV_INDEX, &index) || !device_name(index, name))
        return -EINVAL;
    if (command == RDMA_NLDEV_CMD_GET) {
        device(a, false, index, name);
        return 0;
    }
    if (dump) {
        for (number = 1; number <= ports_of(name); number++)
            port(a, true, index, name, number);
        return 0;
    }
    if (!number_in(attributes, length, RDMA_NLDEV_ATTR_PORT_INDEX, &number) || !number || number > ports_of(name))
        return -EINVAL;
    port(a, false, index, name, number);
    return 0;
}
