/*
 * getifaddrs with an interface ib0, ib1 .. for each address of the host's HCA ports
 * (SOFTIB_ADDRESSES), like the interfaces of IPoIB on hardware: libfabric reads its addresses from this list.
 * The addresses actually belong to the loopback interface.
 */
#include "cm.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define NETMASK 0xFFC00000u /* 127.64.0.0/10 */

struct interface {
    struct ifaddrs entry;           /* first: the pointer that applications get */
    struct sockaddr_in address, mask, broadcast;
    char name[IFNAMSIZ];
};

/* The C library frees the entries that it returned. softib's entries follow in one block, linked
 * from the C library's last entry. */
static struct interface *of_port(struct interface *i, unsigned number, struct in_addr address)
{
    snprintf(i->name, sizeof i->name, "ib%u", number);
    i->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = address };
    i->mask = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(NETMASK) } };
    i->broadcast = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { address.s_addr | htonl(~NETMASK) } };
    i->entry = (struct ifaddrs){
        .ifa_name = i->name, .ifa_flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST,
        .ifa_addr = (struct sockaddr *)&i->address, .ifa_netmask = (struct sockaddr *)&i->mask,
        .ifa_broadaddr = (struct sockaddr *)&i->broadcast,
    };
    return i;
}

static struct interface *interfaces(unsigned *n)
{
    const char *text = getenv("SOFTIB_ADDRESSES");
    char *copy = text ? strdup(text) : NULL, *rest = NULL;
    struct interface *all = copy ? calloc(strlen(copy) / 8 + 1, sizeof *all) : NULL;

    *n = 0;
    for (char *word = all ? strtok_r(copy, " ,", &rest) : NULL; word; word = strtok_r(NULL, " ,", &rest)) {
        struct in_addr address;

        if (inet_pton(AF_INET, word, &address) != 1 || ntohl(address.s_addr) >> 24 != IN_LOOPBACKNET)
            continue; /* address of an interface that softib run --net created: already in the list */
        of_port(&all[*n], *n, address);
        if (*n)
            all[*n - 1].entry.ifa_next = &all[*n].entry;
        ++*n;
    }
    free(copy);
    return all;
}

PUBLIC int getifaddrs(struct ifaddrs **list)
{
    int (*next)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");
    int error = next(list);
    struct ifaddrs **end = list;
    struct interface *more;
    unsigned n;

    if (error)
        return error;
    more = interfaces(&n);
    while (*end)
        end = &(*end)->ifa_next;
    if (n)
        *end = &more->entry;
    else
        free(more);
    return 0;
}

static int is_ours(const struct ifaddrs *entry)
{
    return entry->ifa_name == ((const struct interface *)entry)->name;
}

PUBLIC void freeifaddrs(struct ifaddrs *list)
{
    void (*next)(struct ifaddrs *) = (void (*)(struct ifaddrs *))dlsym(RTLD_NEXT, "freeifaddrs");

    for (struct ifaddrs **end = &list; *end; end = &(*end)->ifa_next) {
        if (!is_ours(*end))
            continue;
        free(*end); /* the block of softib's entries */
        *end = NULL;
        break;
    }
    if (list)
        next(list);
}
