/*
 * softib-ipoib: IP over InfiniBand for one node of a running fabric (RFC 4391, 4392, 4755). Each interface is a TAP
 * device in the node's network namespace, and a UD queue pair on one of the node's ports. Packets from the kernel are
 * sent as UD datagrams. The 20-byte hardware addresses do not fit into the kernel's Ethernet frames, and appear only in
 * ARP and NDP messages on the fabric.
 */
#ifndef SOFTIB_IPOIB_H
#define SOFTIB_IPOIB_H

#include "control.h"

#include <infiniband/verbs.h>
#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdint.h>

#define HARDWARE_ADDRESS 20
#define ENCAPSULATION 4          /* EtherType, two bytes of zeros */
#define GRH_OCTETS 40
#define VNET (sizeof(struct virtio_net_hdr))
#define ETHERNET 14
#define HEAD (VNET + ETHERNET)   /* header that the TAP puts in front of a packet */
#define PACKET (65536 + 64)      /* the longest packet of a TAP */
#define MOST_MTU 4096
#define BUFFERS 64               /* packets of the kernel in the send queue */
#define SENDS 2048               /* datagrams in the send queue */
#define HEADERS 128              /* bytes for the headers of a segment */
#define RECEIVES 2048
#define SLOT (GRH_OCTETS + MOST_MTU + 24)
#define BATCH 64
#define QUEUED 8                 /* maximum number of packets that wait for the path of a neighbour or group */
#define MOST_NEIGHBOURS 65536
#define MOST_GROUPS 1024
#define HAS_RC 0x80              /* flag of a hardware address: the interface accepts RC connections (RFC 4755, 3.1) */
#define CONNECTED_MTU 65520      /* as in Linux */
#define CONNECTED_SENDS 64       /* packets in the send queues of all connections of an interface */
#define CONNECTED_RECEIVES 128
#define CONNECTED_SLOT (GRH_OCTETS + ENCAPSULATION + CONNECTED_MTU + 4)
#define MOST_SEGMENTS 256
#define CONNECTIONS 1024         /* chains of the table of connections, by queue pair */

enum { ETHERTYPE_IP4 = 0x0800, ETHERTYPE_ARP_ = 0x0806, ETHERTYPE_IP6 = 0x86dd };

struct queued {
    struct queued *next;
    uint32_t length; /* with the encapsulation */
    uint8_t packet[];
};

/* Packets waiting for an address handle. */
struct waiting {
    struct queued *first, **end;
    unsigned count;
};

/* Destination of datagrams. */
struct destination {
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
    uint16_t lid;
    uint8_t sl;
    _Alignas(union ibv_gid) uint8_t gid[16]; /* only for groups, since a neighbour needs no GRH */
};

struct neighbour {
    struct neighbour *by_mac, *by_qpn; /* chains of the tables */
    uint8_t mac[6], hardware[HARDWARE_ADDRESS];
    struct destination to;
    uint64_t query_ms;               /* time of the last path query; 0: the path is known */
    unsigned failures;               /* consecutive queries without an answer */
    struct waiting waiting;
    struct connection *connection;
};

enum connection_state { CONNECTION_IDLE, CONNECTION_SETUP, CONNECTION_UP };

/* An RC connection: to the neighbour `to` for sending, or from `peer_qpn` for receiving (`to` NULL). */
struct connection {
    struct connection *next;         /* chain by queue pair */
    struct interface *interface;
    struct neighbour *to;
    enum connection_state state;
    uint32_t id, peer_qpn;           /* rdma_cm's number; the peer's UD queue pair */
    struct ibv_qp *qp;
    uint32_t mtu, psn, path_mtu;     /* mtu: longest IP packet that the peer receives */
    uint32_t peer_rc_qpn;
    uint16_t peer_lid;
    uint8_t sl;
    unsigned queued;                 /* send requests in progress */
    uint64_t retry_ms;
    struct waiting waiting;          /* packets too long for a datagram, during setup */
};

enum group_state { GROUP_IDLE, GROUP_JOINING, GROUP_JOINED, GROUP_FAILED };

struct group {
    struct group *next;
    struct destination to;
    enum group_state state;
    int full;                        /* full member: receives; otherwise send only */
    int attached;
    uint8_t mtu, rate;               /* as encoded in the MCMemberRecord */
    uint64_t retry_ms;
    struct waiting waiting;
};

/* Whether the port has the P_Key of an interface. MOVED: the index or the membership has changed. */
enum partition { PARTITION_NONE, PARTITION_SAME, PARTITION_MOVED };

struct interface {
    char name[16], device[32];
    const struct interface *parent;  /* NULL: this interface is a parent */
    int tap, umad, index;            /* index: interface index of the TAP device */
    unsigned number, portnum, pkey_index, pkeys; /* pkeys: size of the port's table */
    uint32_t row;                    /* number of the port, from which its IP addresses are made (tap.c) */
    uint16_t pkey, lid, sm_lid;
    uint8_t sm_sl, mac[6], hardware[HARDWARE_ADDRESS];
    _Alignas(union ibv_gid) uint8_t gid[16];
    uint32_t agent, serial;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffers, *receives, *headers;
    uint32_t used, freed;            /* buffers: counters that only increase */
    uint32_t posted, done;           /* send requests: likewise */
    uint32_t mtu, psn, group_mtu;    /* mtu: current IP MTU */
    int running;                     /* the broadcast group is joined, and the queue pair can send */
    int coalesce, readable, connected;
    uint64_t looked_ms;
    char problem[96];
    struct neighbour **by_mac, **by_qpn;
    unsigned neighbours;
    struct group *groups, *broadcast;
    /* Connected mode. Position n of the send queue uses buffer place[n % BUFFERS]. A message over a connection keeps
     * its buffer, and a spare buffer takes its place in the send queue. */
    uint32_t listener;               /* number of rdma_cm + 1; 0: none */
    struct ibv_srq *srq;
    uint8_t *connected_receives, *connected_headers;
    uint8_t place[BUFFERS], spare[CONNECTED_SENDS];
    unsigned spares;
    struct connection *owner[BUFFERS + CONNECTED_SENDS], *connections[CONNECTIONS];
};

extern struct softib_ipoib_totals totals;
extern int capturing;                /* clients that capture every datagram */
extern int connected_mode;           /* all interfaces are in connected mode */

/* main.c */
uint64_t now_ms(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* interface.c: the queue pair */
int interface_open(struct interface *i);
int interface_start(struct interface *i);
int interface_renew(struct interface *i);
int interface_events(struct interface *i);

/* partitions.c */
enum partition partition_find(struct interface *i);
uint16_t partition_without_interface(const struct interface *parent, const struct interface *all, unsigned count);

/* tap.c */
void taps_given(const char *numbers, int ip4, int ip6);
int tap_make(struct interface *i);
int tap_set_mtu(const struct interface *i, uint32_t mtu);
void tap_carrier(const struct interface *i, int on);
int tap_ioctl(const struct interface *i, unsigned long number, void *data);

/* transmit.c: from the TAP to the fabric */
int transmit(struct interface *i);
int can_send(const struct interface *i);
void reclaim(struct interface *i);
uint8_t *buffer_at(const struct interface *i, unsigned number);
void send_copy(struct interface *i, const struct destination *to, const uint8_t *packet, uint32_t length);

/* receive.c: from the fabric to the TAP */
int receive(struct interface *i);
void to_tap(struct interface *i, const uint8_t *destination, const uint8_t *source, unsigned type, const uint8_t *packet, size_t length);

/* connected.c: RC connections (RFC 4755) */
int connected_start(struct interface *i);
void connected_stop(struct interface *i);
int connected_frame(struct interface *i, struct neighbour *n, uint8_t *frame, size_t length);
int connected_sent(struct interface *i, const struct ibv_wc *wc);
void connected_got(struct connection *c, uint8_t *data, size_t length);
void connected_repost(struct interface *i, unsigned slot);
struct connection *connection_of(struct interface *i, uint32_t qpn);
void connection_request(struct interface *i, uint32_t id, const uint8_t *data, unsigned length);
void connection_event(struct connection *c, unsigned event, const uint8_t *data, unsigned length);
void connection_end(struct connection *c, uint64_t retry_ms);

/* rdma_cm.c: the commands of linux/rdma_user_cm.h. Functions return 0, or -1 with errno. Events: enum
 * rdma_cm_event_type of librdmacm. */
enum { CM_ADDR_RESOLVED = 0, CM_ROUTE_RESOLVED = 2, CM_CONNECT_REQUEST = 4, CM_CONNECT_RESPONSE, CM_ESTABLISHED = 9,
       CM_DEVICE_REMOVAL = 11, CM_TIMEWAIT_EXIT = 15 };
extern int cm_fd;                    /* -1: datagram mode */
int cm_open_device(void);
int cm_listen_for(struct interface *i);
int cm_resolve(struct connection *c);
int cm_modify(uint32_t id, struct ibv_qp *qp, enum ibv_qp_state to, struct ibv_qp_attr *attr);
int cm_connect(struct connection *c);
int cm_accept(struct connection *c, int answer);
void cm_destroy(uint32_t id);
void cm_events(void);

/* too_long.c */
void too_long(struct interface *i, const uint8_t *packet, size_t length, uint32_t mtu);

/* neighbour.c */
struct neighbour *neighbour_of_mac(struct interface *i, const uint8_t *mac);
struct neighbour *neighbour_of_qpn(struct interface *i, uint32_t qpn);
struct neighbour *neighbour_learn(struct interface *i, const uint8_t *hardware);
void neighbour_send(struct interface *i, struct neighbour *n, const uint8_t *packet, uint32_t length);
void neighbour_path(struct interface *i, uint64_t guid, const uint8_t *record);
void neighbours_forget_paths(struct interface *i);
void neighbours_disconnect(struct interface *i);
void waiting_add(struct waiting *w, const uint8_t *packet, uint32_t length);
void waiting_drop(struct waiting *w);

/* group.c */
struct group *group_of(struct interface *i, const uint8_t *mgid, int full);
void group_answer(struct interface *i, struct group *g, const uint8_t *record, unsigned status);
void group_send(struct interface *i, struct group *g, const uint8_t *packet, uint32_t length);
void group_leave(struct interface *i, const uint8_t *mgid);
void groups_rejoin(struct interface *i);
void groups_start(struct interface *i);
void groups_stop(struct interface *i);
void groups_tick(struct interface *i, uint64_t now);
void mgid_of_ip4(const struct interface *i, const uint8_t *address, uint8_t *mgid);
void mgid_of_ip6(const struct interface *i, const uint8_t *address, uint8_t *mgid);
void snoop(struct interface *i, unsigned type, const uint8_t *packet, size_t length);

/* sa.c */
int sa_open(struct interface *i);
void sa_join(struct interface *i, struct group *g);
void sa_leave(struct interface *i, const struct group *g);
void sa_path(struct interface *i, const struct neighbour *n);
void sa_read(struct interface *i);

/* translate.c: ARP and NDP. Each function returns the new length; 0: drop the packet. */
size_t arp_to_fabric(struct interface *i, const uint8_t *arp, size_t length, uint8_t *out);
size_t arp_to_tap(struct interface *i, const uint8_t *arp, size_t length, uint8_t *out);
int is_nd(const uint8_t *packet, size_t length);
size_t nd_to_fabric(struct interface *i, const uint8_t *packet, size_t length, uint8_t *out);
size_t nd_to_tap(struct interface *i, const uint8_t *packet, size_t length, uint8_t *out);

/* kernel_neighbour.c */
void kernel_neighbours_open(int fd);
void kernel_neighbour_mark(const struct interface *i, int family, const uint8_t *address, const uint8_t *mac);

/* checksum.c */
uint32_t sum16(const uint8_t *p, size_t length, uint32_t sum);
uint16_t fold(uint32_t sum);

/* offload.c: TCP segmentation and coalescing */
struct segment {
    uint8_t *header;                 /* encapsulation, IP and TCP */
    const uint8_t *payload;
    uint32_t header_length, payload_length;
};
int checksum_complete(uint8_t *frame, size_t length);
size_t longest_packet(const uint8_t *frame, size_t length);
unsigned segment_packet(uint8_t *frame, size_t length, unsigned room, uint32_t mtu, struct segment *out,
                        uint8_t *(*header)(struct interface *, unsigned), struct interface *i);
struct coalescing {
    uint8_t *first;                  /* the IP packet that later segments are appended to; NULL: none */
    unsigned count, head, mss;
    int closed;                      /* no segment follows: this one is short or has PSH */
    uint32_t next_sequence, length;  /* length: total, with headers */
    struct { const uint8_t *payload; size_t length; } part[BATCH];
};
int coalesce_add(struct coalescing *c, uint8_t *packet, size_t length);
void coalesce_flush(struct interface *i, struct coalescing *c, const uint8_t *source);

/* client.c */
struct pollfd;
int clients_listen(int fd, int netns, int userns);
unsigned clients_poll(struct pollfd *fds);
void clients_serve(const struct pollfd *fds, unsigned n);
void clients_ready(const struct interface *all, const unsigned *n);
unsigned clients_count(void);
int netns_is_used(void);
void client_capture(const struct interface *i, int outbound, struct softib_ipoib_datagram *head, const struct segment *data);

static inline uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
    put16(p, v >> 16);
    put16(p + 2, v & 0xffff);
}

/* Return the bytes that PortXmitData counts for a datagram: LRH, GRH, BTH, DETH, payload and padding, ICRC. */
static inline uint64_t wire_octets(size_t payload, int grh)
{
    return 8 + (grh ? GRH_OCTETS : 0) + 12 + 8 + ((payload + 3) & ~(size_t)3) + 4;
}

/* Return the bytes that PortXmitData counts for an RC message in packets of the path MTU: LRH, BTH, payload and
 * padding, ICRC. */
static inline uint64_t message_octets(size_t length, uint32_t path_mtu)
{
    return (8 + 12 + 4) * ((length + path_mtu - 1) / path_mtu) + ((length + 3) & ~(size_t)3);
}

#endif
