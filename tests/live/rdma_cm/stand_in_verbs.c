/*
 * A device for stock librdmacm without a data path: objects that can be made, changed and destroyed, and what librdmacm
 * asks of them. What a QP is told is printed on stderr, so that tests see which attributes rdma_cm gave it.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

static struct ibv_device device = { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "mlx5_0",
                                    .dev_name = "uverbs0" };
static struct ibv_context context;
static uint32_t last_qpn = 99;

/* The 16 hexadecimal digits at `at` of a file of the device in sysfs, which the umad library shows. */
static uint64_t read_guid(const char *file, int at)
{
    char path[256], text[64] = "", digits[17] = "";
    snprintf(path, sizeof path, "/sys/class/infiniband/mlx5_0/%s", file);
    int fd = open(path, O_RDONLY), n = 0;
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        return 0;
    close(fd);
    for (const char *p = text + at; *p && n < 16; p++)
        if (*p != ':')
            digits[n++] = *p;
    return strtoull(digits, NULL, 16);
}

struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(2, sizeof *list);
    list[0] = &device;
    if (count)
        *count = 1;
    return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
__be64 ibv_get_device_guid(struct ibv_device *d) { (void)d; return htobe64(read_guid("node_guid", 0)); }
int ibv_get_device_index(struct ibv_device *d) { (void)d; return -1; }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *w, struct ibv_recv_wr **b) { (void)q; (void)w; (void)b; return 0; }
static int poll_cq(struct ibv_cq *c, int n, struct ibv_wc *w) { (void)c; (void)n; (void)w; return 0; }
static int req_notify(struct ibv_cq *c, int s) { (void)c; (void)s; return 0; }

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    context.device = d;
    context.ops.post_recv = post_recv;
    context.ops.poll_cq = poll_cq;
    context.ops.req_notify_cq = req_notify;
    return &context;
}

int ibv_close_device(struct ibv_context *c) { (void)c; return 0; }

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
    (void)c;
    memset(a, 0, sizeof *a);
    a->phys_port_cnt = 1;
    a->max_qp_wr = 1000;
    a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
    return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    struct ibv_port_attr *a = (void *)attr;
    (void)c;
    (void)port;
    a->state = IBV_PORT_ACTIVE;
    a->link_layer = IBV_LINK_LAYER_INFINIBAND;
    a->gid_tbl_len = a->pkey_tbl_len = 1;
    return 0;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
    (void)c;
    (void)port;
    (void)index;
    gid->global.subnet_prefix = htobe64(read_guid("ports/1/gids/0", 0));
    gid->global.interface_id = htobe64(read_guid("ports/1/gids/0", 20));
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 key) { (void)c; (void)port; (void)key; return 0; }

#define MADE(type, ...) \
    type *made = calloc(1, sizeof *made); \
    __VA_ARGS__; \
    return made;

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) { MADE(struct ibv_pd, made->context = c) }
int ibv_dealloc_pd(struct ibv_pd *p) { free(p); return 0; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
    MADE(struct ibv_comp_channel, made->context = c; made->fd = eventfd(0, 0))
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c) { close(c->fd); free(c); return 0; }

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *tag, struct ibv_comp_channel *channel, int vector)
{
    (void)n;
    (void)tag;
    (void)channel;
    (void)vector;
    MADE(struct ibv_cq, made->context = c)
}

int ibv_destroy_cq(struct ibv_cq *q) { free(q); return 0; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *a)
{
    MADE(struct ibv_qp, made->context = p->context; made->pd = p; made->qp_num = ++last_qpn; made->qp_type = a->qp_type)
}

int ibv_destroy_qp(struct ibv_qp *q) { free(q); return 0; }

int ibv_modify_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int mask)
{
    if (!(mask & IBV_QP_STATE))
        return 0;
    q->state = a->qp_state;
    fprintf(stderr, "qp %u state %d mask %#x", q->qp_num, a->qp_state, mask);
    if (mask & IBV_QP_AV)
        fprintf(stderr, " peer %u dlid %u mtu %d rd %d", a->dest_qp_num, a->ah_attr.dlid, a->path_mtu,
                a->max_dest_rd_atomic);
    if (mask & IBV_QP_RETRY_CNT)
        fprintf(stderr, " timeout %d retry %d rnr %d", a->timeout, a->retry_cnt, a->rnr_retry);
    if (mask & IBV_QP_QKEY)
        fprintf(stderr, " qkey %#x", a->qkey);
    fprintf(stderr, "\n");
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *address, size_t length, int access)
{
    (void)access;
    MADE(struct ibv_mr, made->context = p->context; made->pd = p; made->addr = address; made->length = length)
}

int ibv_dereg_mr(struct ibv_mr *m) { free(m); return 0; }

int ibv_attach_mcast(struct ibv_qp *q, const union ibv_gid *gid, uint16_t lid)
{
    (void)q;
    fprintf(stderr, "attach %#x %016llx\n", lid, (unsigned long long)be64toh(gid->global.subnet_prefix));
    return 0;
}

int ibv_detach_mcast(struct ibv_qp *q, const union ibv_gid *gid, uint16_t lid) { (void)q; (void)gid; (void)lid; return 0; }

struct ibv_ah *ibv_create_ah(struct ibv_pd *p, struct ibv_ah_attr *a)
{
    fprintf(stderr, "ah dlid %#x global %d\n", a->dlid, a->is_global);
    MADE(struct ibv_ah, made->context = p->context)
}

int ibv_destroy_ah(struct ibv_ah *a) { free(a); return 0; }
int ibv_query_ece(struct ibv_qp *q, struct ibv_ece *e) { (void)q; (void)e; return EOPNOTSUPP; }
int ibv_set_ece(struct ibv_qp *q, struct ibv_ece *e) { (void)q; (void)e; return EOPNOTSUPP; }
