/* Declarations that the files of the rdma_cm device share. One lock, cm_lock(), guards everything
 * except the daemon's socket. */
#ifndef SOFTIB_CM_H
#define SOFTIB_CM_H

#include <sys/socket.h>

#include <rdma/rdma_user_cm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

/* enum rdma_cm_event_type of librdmacm's ABI (rdma_cma.h); the kernel's header has no name for them. */
enum cm_event {
    CM_ADDR_RESOLVED, CM_ADDR_ERROR, CM_ROUTE_RESOLVED, CM_ROUTE_ERROR, CM_CONNECT_REQUEST, CM_CONNECT_RESPONSE,
    CM_CONNECT_ERROR, CM_UNREACHABLE, CM_REJECTED, CM_ESTABLISHED, CM_DISCONNECTED, CM_DEVICE_REMOVAL,
    CM_MULTICAST_JOIN, CM_MULTICAST_ERROR, CM_ADDR_CHANGE, CM_TIMEWAIT_EXIT, CM_ADDRINFO_RESOLVED, CM_ADDRINFO_ERROR,
    CM_USER, CM_INTERNAL
};

enum { CM_QPT_RC = 2, CM_QPT_UC = 3, CM_QPT_UD = 4, CM_QPT_XRC_SEND = 9, CM_QPT_XRC_RECV = 10 };

/* An open /dev/infiniband/rdma_cm. */
struct cm_channel {
    struct cm_channel *next; /* next in the list of closed channels */
    int fd;                  /* one of its descriptors */
    int users;               /* open descriptors in this process */
    uint32_t number;         /* the daemon's number of the channel */
    uint32_t generation;     /* number of its connection to the daemon */
};

/* An id, or a multicast membership of one. */
struct cm_id {
    struct cm_channel *channel; /* NULL: free */
    struct cm_id *next;         /* next with the same hash */
    struct cm_id *parent;       /* of a membership: the id that joined */
    uint32_t memberships;
    uint32_t handle, number;
    uint64_t uid;
    uint16_t ps;
    uint8_t qp_type, flags, tos;
    bool known;                  /* created in the daemon */
    bool bound, listening, connecting, accepted, removed;
    uint8_t ack_timeout, min_rnr_timer;
    bool has_ack_timeout;
    uint32_t events_reported;   /* by GET_EVENT */
    uint32_t received;          /* number of events read from the channel's socket */
    uint32_t qkey;
    uint32_t psn;               /* initial PSN of this side */
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    bool has_peer;              /* remote: the peer's QPN and PSN are known */
    struct softib_cm_reply at;   /* addresses, device, path and peer from the last reply */
};

void cm_lock(void);
void cm_unlock(void);

/* link.c */
/* Send `question`; if `answer` is not NULL, wait for the answer. Return 0, or -errno of this process or of the
 * daemon. */
int cm_ask(struct softib_cm_ask *question, struct softib_cm_reply *answer);
/* Like cm_ask, with data after the question; question and data have `octets` bytes. */
int cm_ask_more(struct softib_cm_ask *question, size_t octets, struct softib_cm_reply *answer);
/* Open a connection that receives the events of a channel; -errno. */
int cm_connect_channel(struct cm_channel *channel);
/* Incremented when this process gets a new connection (after a fork): earlier objects are invalid. */
uint32_t cm_generation(void);

/* ids.c */
struct cm_id *cm_create(struct cm_channel *channel, uint32_t number); /* number 0: a new one; NULL: out of memory */
struct cm_id *cm_find(struct cm_channel *channel, uint32_t handle);   /* NULL: the channel has no such id */
struct cm_id *cm_find_membership(struct cm_channel *channel, uint32_t handle);
struct cm_id *cm_by_number(uint32_t number);
struct cm_id *cm_next_of(struct cm_channel *channel, struct cm_id *after);
void cm_free(struct cm_id *id);

/* channel.c */
struct cm_channel *cm_channel_of(int fd);
int cm_open(int flags);
void cm_close(int fd);
void cm_dup(int from, int to);
/* Read the next event. Return 0, -EAGAIN, or -EIO if the daemon has ended. */
int cm_take(struct cm_channel *channel, int fd, struct softib_cm_reply *event);
/* Drop all pending events of `id`, or move them to channel `to`. */
void cm_sweep(struct cm_id *id, uint32_t sent, struct cm_channel *to);

/* memory.c: access the program's memory, which may be unmapped. 0 or -EFAULT. */
int cm_get(void *to, uint64_t from, size_t octets);
int cm_put(uint64_t to, const void *from, size_t octets);

/* commands.c */
ssize_t cm_write(struct cm_channel *channel, int fd, const void *buffer, size_t count);
void cm_fill(struct cm_id *id, struct softib_cm_ask *question, uint32_t op);
/* Like cm_ask; first create the id in the daemon, if it does not exist there. */
int cm_ask_about(struct cm_id *id, struct softib_cm_ask *question, struct softib_cm_reply *answer);

/* Linux' rdma_ucm_write_cm_event, which older headers lack. */
enum { CM_WRITE_EVENT = RDMA_USER_CM_CMD_JOIN_MCAST + 2 };
struct cm_written_event {
    uint32_t id, reserved, event, status;
    uint8_t argument[8]; /* argument of the two events that a program may write */
};

/* Arguments of a command handler: its channel, the command (zero-padded), and the room for the
 * answer. */
struct cm_call {
    struct cm_channel *channel;
    int fd;
    const void *command;
    size_t in, out;
};

/* addresses.c, connections.c, events.c, query.c, qp_attr.c, options.c, channel.c: handlers; each returns 0 or -errno. */
int cm_bind_ip(struct cm_call *call);
int cm_bind(struct cm_call *call);
int cm_resolve_ip(struct cm_call *call);
int cm_resolve_addr(struct cm_call *call);
int cm_resolve_route(struct cm_call *call);
int cm_listen(struct cm_call *call);
int cm_connect(struct cm_call *call);
int cm_accept(struct cm_call *call);
int cm_reject(struct cm_call *call);
int cm_disconnect(struct cm_call *call);
int cm_notify(struct cm_call *call);
int cm_get_event(struct cm_call *call);
int cm_query(struct cm_call *call);
int cm_query_route(struct cm_call *call);
int cm_init_qp_attr(struct cm_call *call);
int cm_join_ip(struct cm_call *call);
int cm_join(struct cm_call *call);
int cm_leave(struct cm_call *call);
int cm_set_option(struct cm_call *call);
int cm_migrate(struct cm_call *call);
int cm_write_event(struct cm_call *call);

/* path.c: PathRecord (IBA 15.2.5.16) as the SA sends it. */
struct cm_path {
    uint8_t dgid[16], sgid[16];
    uint16_t dlid, slid, pkey;
    uint32_t flow_label;
    uint8_t hop_limit, traffic_class, reversible, numb_path, sl, mtu, rate, life_time, preference;
    uint8_t mtu_selector, rate_selector, life_time_selector;
};
void cm_read_path(const uint8_t record[64], struct cm_path *path);
void cm_fill_ah(const struct softib_cm_reply *at, struct ib_uverbs_ah_attr *ah);

#endif
