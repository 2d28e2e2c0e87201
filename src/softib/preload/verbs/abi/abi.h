/* The library's object behind each handle of an application. It begins with libibverbs' structure. */
#ifndef SOFTIB_VERBS_ABI_H
#define SOFTIB_VERBS_ABI_H

#include "../engine/queue_pair/qp.h"
#include "../memory/pages/remap.h"

/* The header's macros check arguments; this library defines the functions that they call. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port
#undef ibv_get_device_list

#define VA_EXPORT __attribute__((visibility("default")))

#define VA_MAX_SEND 32768
#define VA_MAX_SGES 30
#define VA_MAX_CQE 4194303
#define VA_MAX_RD_ATOM 16
#define VA_MAX_DM 131072
#define VA_MAX_TAGS 4096
#define VA_MAX_TAG_OPS 4096
#define VA_MAX_TAG_SGES 4
#define VA_MAX_RNDV_HEADER 64

enum va_kind { VA_AH, VA_CQ, VA_MR, VA_MW, VA_PD, VA_QP, VA_SRQ, VA_KINDS };

struct va_device {
    struct ibv_device device;
    char behind[256];           /* mlx5dv and others read beyond the structure */
    const struct sv_device *of;
    uint32_t objects[VA_KINDS]; /* number of this process's objects of each kind */
};

struct va_context {
    struct verbs_context v;     /* v.context is the application's pointer */
    const struct sv_device *device;
    uint32_t async;             /* number of the wake socket for asynchronous events */
    int event_writer;
    uint64_t dm_used;
};

struct va_pd {
    struct ibv_pd pd;
    uint32_t domain;
    struct va_pd *parent;       /* if this is a parent domain: its protection domain */
    uint32_t users;
    bool imported;
};

struct va_td {
    struct ibv_td td;
    uint32_t users;
};

struct va_mr {
    struct ibv_mr mr;
    bool imported;
    void *mapped;               /* memory of a buffer, unmapped with the region */
    size_t mapped_n;
    struct vm_region region;
};

struct va_dm {
    struct ibv_dm dm;
    struct softib_dm *s;
    char *memory;
    size_t length;
    bool imported;
};

struct va_channel {
    struct ibv_comp_channel channel;
    uint32_t number;
    pthread_mutex_t lock;
    struct va_cq *cqs;
};

struct va_cq {
    struct ibv_cq_ex ex;
    struct softib_cq *s;
    uint64_t at;
    struct softib_cqe now;      /* the current completion of start_poll and next_poll */
    struct va_channel *channel;
    struct va_cq *next;         /* of the channel */
    uint32_t events, async_events, users;
    uint64_t wc_flags;
    struct va_pd *pd;
};

struct va_srq {
    struct ibv_srq srq;
    struct softib_srq *s;
    uint64_t at;
    struct ve_spin lock;        /* held by the thread that posts */
    uint32_t events, users;
    uint32_t freed;             /* number of receives so far whose completion was polled */
    uint32_t there;             /* bytes of the ring that have pages */
    uint32_t max_sge;
    enum ibv_srq_type type;
    struct va_xrcd *xrcd;
    struct va_cq *cq;
};

struct va_xrcd {
    struct ibv_xrcd xrcd;
    uint32_t domain;
    uint32_t users;
};

/* -- limits.c -- */

int va_most(enum va_kind kind);
/* Increment a count. False, with errno ENOMEM: the device's limit is reached. */
bool va_count(struct ibv_context *context, enum va_kind kind);
/* Allocate a zeroed object and count it. NULL, with errno ENOMEM: the device's limit is reached, or
 * out of memory. */
void *va_counted(struct ibv_context *context, enum va_kind kind, size_t octets);
/* Decrement a count. Returns NULL for callers without a result. */
void *va_uncount(struct ibv_context *context, enum va_kind kind);

struct va_qp {
    struct ve_qp q;                 /* first */
    struct ve_spin receive_lock;    /* held by the thread that posts receives */
    uint32_t there;                 /* bytes of the receives' ring that have pages */
    struct va_xrcd *xrcd;
    struct va_qp *root;             /* of a handle from ibv_open_qp */
    uint32_t handles;               /* number of such handles of this QP */
};

extern struct ve_engine va_engine;

static inline struct va_context *va_context(struct ibv_context *context)
{
    return (struct va_context *)((char *)context - offsetof(struct va_context, v.context));
}

static inline struct va_pd *va_pd(struct ibv_pd *pd)
{
    return (struct va_pd *)pd;
}

static inline void va_pd_hold(struct va_pd *p)
{
    __atomic_fetch_add(&p->users, 1, __ATOMIC_RELAXED);
}

/* Drop one reference; an imported object is freed with the last. */
void va_pd_leave(struct va_pd *p);

/* Domain number of a protection domain, or of a parent domain's protection domain. */
static inline uint32_t va_domain(struct ibv_pd *pd)
{
    return va_pd(pd)->parent ? va_pd(pd)->parent->domain : va_pd(pd)->domain;
}

/* Create a bound datagram socket to which every process of the fabric can write. Return the descriptor or -errno. */
int va_wake_socket(uint32_t *number);
void va_wake_close(int fd, uint32_t number);
/* Return a descriptor for writing to the socket, which the daemon gets; -1: none. */
int va_wake_writer(uint32_t number);

/* Deliver a CQ's events to `ch`; NULL: to no channel. */
void va_channel_join(struct va_cq *c, struct va_channel *ch);
void va_channel_leave(struct va_cq *c);

/* The list of objects that can get events; an event of an object that is not in it is stale. */
void va_enroll(void *object);
void va_dismiss(void *object);

/* Each of these functions fills a part of the function tables. */
void va_fill_ops(struct verbs_context *v);

int va_query_port(struct ibv_context *context, uint8_t portnum, struct ibv_port_attr *attr, size_t size);
int va_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t size);

struct ibv_mw *va_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int va_dealloc_mw(struct ibv_mw *mw);
int va_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int va_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sge, uint32_t n);
struct ibv_dm *va_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int va_free_dm(struct ibv_dm *dm);
struct ibv_mr *va_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
/* Register a region; its memory need not belong to the application. */
struct ibv_mr *va_make_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access);
/* Free the handle of a region, without the region. */
void va_forget_mr(struct ibv_mr *mr);
/* Wait until no copy uses the key's memory, and free the key's entry. */
void va_free_key(struct softib_key *k);
struct ibv_mr *va_alloc_null_mr(struct ibv_pd *pd);
struct ibv_pd *va_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
struct ibv_td *va_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int va_dealloc_td(struct ibv_td *td);

int va_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int va_req_notify_cq(struct ibv_cq *cq, int solicited);
struct ibv_cq_ex *va_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int va_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
void va_fill_cq_ex(struct ibv_cq_ex *ex, uint64_t wc_flags);

/* False: `variable` requires huge pages and the system has none. */
bool va_pages_there(const char *variable);

/* On-demand paging. */
bool va_odp_implicit(unsigned access, const void *address, size_t length);
void va_odp_caps(struct ibv_device_attr_ex *all);

/* Rings: their sizes are powers of two, as their counters wrap at 2^32. */
uint32_t va_power_of_two(uint32_t n);
/* False: out of memory. */
bool va_write_receive(uint64_t ring, uint32_t size, uint32_t sges, uint32_t *there, uint32_t place, const struct ibv_recv_wr *wr);
void va_wake_waiter(uint16_t *waiter);

int va_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_srq *va_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int va_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_xrcd *va_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int va_close_xrcd(struct ibv_xrcd *xrcd);

/* The tag list of an SRQ with tag matching. va_make_tags returns 0 or ENOMEM. */
int va_make_tags(struct softib_srq *s, uint32_t max);
void va_free_tags(struct softib_srq *s);
int va_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);

int va_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int va_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *va_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *va_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);
/* ibv_wr_*: set the functions of `ex` for the operations in `flags`. 0 or EOPNOTSUPP. */
int va_fill_builder(struct ve_qp *q, uint64_t flags);
void va_free_builder(struct ve_qp *q);
/* Checks a request against its QP: 0, or the errno of mlx5's provider (docs/verbs.md, "Errors of posting"). */
int va_check(const struct ve_qp *q, const struct ve_wr *wr);

int va_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
int va_next_poll(struct ibv_cq_ex *ex);

/* The function tables for a recorded program (engine/record.h). */
void va_record_ops(struct ibv_context_ops *ops);
int va_record_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
int va_record_next_poll(struct ibv_cq_ex *ex);
/* Record an accepted request, or a new QP. */
void va_record_request(const struct ve_qp *q, const struct ve_wr *wr);
void va_record_qp(const struct ve_qp *q);

#endif
