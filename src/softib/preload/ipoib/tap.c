/*
 * TAP devices of the node's network namespace, and their addresses. Each descriptor was opened in that namespace, and
 * becomes a device when its interface starts. (netdevice(7), route(7), Linux' Documentation/networking/tuntap.rst)
 */
#include "ipoib.h"

#include <errno.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OFFLOADS (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)
#define LOCAL 0x02
#define NETWORK 0x0a400000u /* 10.64.0.0/10: parents, in the order of the fabric's ports */
#define NETWORK_BITS 10
#define CHILDREN 0x0a800000u /* 10.128.0.0, with the low seven bits of the P_Key, /16: children */
#define CHILD_BITS 16
#define MOST_CHILDREN 0xfffe

static int unused[IPOIB_INTERFACES];
static unsigned unused_count;
static int socket4, socket6;

/* Store the descriptors in `numbers` (separated by commas), `ip4` and `ip6` for later use. */
void taps_given(const char *numbers, int ip4, int ip6)
{
    for (const char *at = numbers; at && unused_count < IPOIB_INTERFACES; at = strchr(at, ','))
        unused[unused_count++] = atoi(at += *at == ',');
    socket4 = ip4;
    socket6 = ip6;
}

static struct ifreq named(const struct interface *i)
{
    struct ifreq request = { 0 };

    memcpy(request.ifr_name, i->name, sizeof i->name);
    return request;
}

int tap_set_mtu(const struct interface *i, uint32_t mtu)
{
    struct ifreq request = named(i);

    request.ifr_mtu = (int)mtu;
    return ioctl(socket4, SIOCSIFMTU, &request);
}

void tap_carrier(const struct interface *i, int on)
{
    ioctl(i->tap, TUNSETCARRIER, &on);
}

/* Call an ioctl with the interface's name, and `data`. */
int tap_ioctl(const struct interface *i, unsigned long number, void *data)
{
    struct ifreq request = named(i);

    request.ifr_data = data;
    return ioctl(socket4, number, &request);
}

static int set_ip4(const struct interface *i)
{
    struct ifreq request = named(i);
    struct sockaddr_in *a = (struct sockaddr_in *)&request.ifr_addr;
    uint32_t ip = NETWORK + i->row, bits = NETWORK_BITS;

    if (i->parent && i->row > MOST_CHILDREN)
        return 0;
    if (i->parent) {
        ip = CHILDREN | (i->pkey & 0x7fu) << 16 | i->row;
        bits = CHILD_BITS;
    }
    a->sin_family = AF_INET;
    a->sin_addr.s_addr = htonl(ip);
    if (ioctl(socket4, SIOCSIFADDR, &request) < 0)
        return -1;
    a->sin_addr.s_addr = htonl(~0u << (32 - bits));
    return ioctl(socket4, SIOCSIFNETMASK, &request);
}

/* Set the link-local address, made from the port's GUID (RFC 4391, section 8). A kernel without IPv6 has no such
 * address. */
static void set_ip6(const struct interface *i)
{
    struct { struct in6_addr address; uint32_t prefix; int index; } r = { .prefix = 64 };

    if (socket6 < 0)
        return;
    r.index = i->index;
    put16(r.address.s6_addr, 0xfe80);
    memcpy(r.address.s6_addr + 8, i->gid + 8, 8);
    r.address.s6_addr[8] |= LOCAL;
    ioctl(socket6, SIOCSIFADDR, &r);
}

/* Multicast packets leave by the first interface unless a program selects another. */
static void set_multicast_route(const struct interface *i)
{
    struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = (char *)i->name };

    route.rt_dst.sa_family = route.rt_genmask.sa_family = route.rt_gateway.sa_family = AF_INET;
    ((struct sockaddr_in *)&route.rt_dst)->sin_addr.s_addr = ((struct sockaddr_in *)&route.rt_genmask)->sin_addr.s_addr = htonl(0xe0000000);
    ioctl(socket4, SIOCADDRT, &route);
}

/* Set addresses and offloads, and bring the device up. */
static int configure(struct interface *i)
{
    struct ifreq request = named(i);

    i->mac[0] = LOCAL;
    memcpy(i->mac + 1, i->gid + 11, 5);
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(request.ifr_hwaddr.sa_data, i->mac, 6);
    if (ioctl(i->tap, TUNSETOFFLOAD, OFFLOADS) < 0 || ioctl(socket4, SIOCSIFHWADDR, &request) < 0 || set_ip4(i) < 0)
        return -1;
    request = named(i);
    if (ioctl(socket4, SIOCGIFINDEX, &request) < 0)
        return -1;
    i->index = request.ifr_ifindex;
    if (ioctl(socket4, SIOCGIFFLAGS, &request) < 0)
        return -1;
    request.ifr_flags |= IFF_UP;
    if (ioctl(socket4, SIOCSIFFLAGS, &request) < 0)
        return -1;
    set_ip6(i);
    if (!i->number)
        set_multicast_route(i);
    return 0;
}

/* Create the interface's device, without carrier, and bring it up. 0, or -1 with errno. */
int tap_make(struct interface *i)
{
    struct ifreq request = named(i);
    int tap;

    if (!unused_count) {
        errno = EMFILE;
        return -1;
    }
    tap = unused[unused_count - 1];
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tap, TUNSETIFF, &request) < 0)
        return -1;
    unused_count--;
    i->tap = tap;
    tap_carrier(i, 0);
    if (configure(i) == 0)
        return 0;
    close(tap);
    i->tap = -1;
    return -1;
}
