/*
 * Entries of the kernel's neighbour table, marked as externally learned (rtnetlink(7), NTF_EXT_LEARNED). The kernel limits
 * other entries to 1,024 in all network namespaces of the machine together (gc_thresh3, arp(7)); beyond that, sends
 * fail with ENOBUFS. Marked entries do not count towards this limit. The kernel probes them, and declares them failed,
 * like all other entries.
 */
#include "ipoib.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static int netlink = -1;

/* `fd`: NETLINK_ROUTE in the node's network namespace. */
void kernel_neighbours_open(int fd)
{
    netlink = fd;
}

static void append(struct nlmsghdr *head, unsigned type, const void *data, size_t length)
{
    struct rtattr *at = (struct rtattr *)((uint8_t *)head + NLMSG_ALIGN(head->nlmsg_len));

    at->rta_type = (unsigned short)type;
    at->rta_len = (unsigned short)RTA_LENGTH(length);
    memcpy(RTA_DATA(at), data, length);
    head->nlmsg_len = NLMSG_ALIGN(head->nlmsg_len) + RTA_ALIGN(at->rta_len);
}

/* Mark the entry of an IP address, if the kernel has one. `mac`: the hardware address that the neighbour has just
 * confirmed; NULL: the entry keeps its hardware address. */
void kernel_neighbour_mark(const struct interface *i, int family, const uint8_t *address, const uint8_t *mac)
{
    struct { struct nlmsghdr head; struct ndmsg entry; uint8_t attributes[64]; } m = { 0 };
    char reply[256];
    ssize_t done;

    m.head.nlmsg_len = NLMSG_LENGTH(sizeof m.entry);
    m.head.nlmsg_type = RTM_NEWNEIGH;
    m.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_REPLACE;
    m.entry.ndm_family = (uint8_t)family;
    m.entry.ndm_ifindex = i->index;
    m.entry.ndm_state = mac ? NUD_REACHABLE : NUD_STALE;
    m.entry.ndm_flags = NTF_EXT_LEARNED;
    append(&m.head, NDA_DST, address, family == AF_INET ? 4 : 16);
    if (mac)
        append(&m.head, NDA_LLADDR, mac, 6);
    done = send(netlink, &m, m.head.nlmsg_len, MSG_DONTWAIT);
    while (done > 0 && recv(netlink, reply, sizeof reply, MSG_DONTWAIT) > 0)
        ; /* an error means that there is no such entry */
}
