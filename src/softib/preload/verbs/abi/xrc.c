/* XRC: domains, shared by all processes that open the same file (IBA 10.2.3, ibv_open_xrcd(3)), and handles of XRC
 * targets (ibv_open_qp(3)). */
#include "abi.h"
#include "../engine/scheduling/quiesce.h"
#include "../memory/hazards.h"
#include "../memory/heap/number_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Two processes derive the same number from the same inode without communication. */
static uint32_t domain_of(const struct stat *file)
{
    uint64_t x = (uint64_t)file->st_ino * 0x9E3779B97F4A7C15u ^ (uint64_t)file->st_dev * 0xC2B2AE3D27D4EB4Fu;

    return (uint32_t)(x >> 32) | 0x80000000u; /* distinct from counted numbers */
}

struct ibv_xrcd *va_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    struct va_xrcd *x;
    struct stat file;
    bool named = attr->comp_mask & IBV_XRCD_INIT_ATTR_FD && attr->fd != -1;

    if ((attr->comp_mask & (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)) !=
        (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS) || (!named && !(attr->oflags & O_CREAT)) ||
        (named && fstat(attr->fd, &file))) {
        errno = EINVAL;
        return NULL;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->xrcd.context = context;
    x->domain = named ? domain_of(&file)
                      : __atomic_add_fetch(&vm_head(&va_engine.w)->domain_next, 1, __ATOMIC_RELAXED);
    return &x->xrcd;
}

int va_close_xrcd(struct ibv_xrcd *xrcd)
{
    struct va_xrcd *x = (struct va_xrcd *)xrcd;

    if (__atomic_load_n(&x->users, __ATOMIC_ACQUIRE))
        return errno = EBUSY;
    free(x);
    return 0;
}

/* Handles of XRC targets (ibv_open_qp(3)). */
/* Return a new handle of the QP `root`: only the data that each handle has separately. */
static struct va_qp *handle_of(struct ibv_context *context, const struct ibv_qp_open_attr *attr, struct va_qp *root,
                               struct softib_qp *s)
{
    struct va_qp *v = calloc(1, sizeof *v);

    if (!v)
        return NULL;
    v->root = root;
    v->xrcd = (struct va_xrcd *)attr->xrcd;
    v->q.e = &va_engine;
    v->q.s = s;
    v->q.at = (uint64_t)((char *)s - va_engine.w.base);
    v->q.device = va_context(context)->device;
    v->q.init = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_XRC_RECV };
    v->q.state = s->state;
    v->q.ex.qp_base = (struct ibv_qp){
        .context = context, .qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
        .handle = attr->qp_num, .qp_num = attr->qp_num, .state = s->state, .qp_type = IBV_QPT_XRC_RECV,
    };
    ve_spin_init(&v->q.lock);
    pthread_mutex_init(&v->q.ex.qp_base.mutex, NULL);
    pthread_cond_init(&v->q.ex.qp_base.cond, NULL);
    return v;
}

/* Count another process that has the QP open. False: the last such process has just closed it. */
static bool join(struct softib_qp *s)
{
    uint16_t n = __atomic_load_n(&s->handles, __ATOMIC_ACQUIRE);

    while (n && !__atomic_compare_exchange_n(&s->handles, &n, (uint16_t)(n + 1), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return n;
}

/* Open an XRC target that this or another process created. Each handle keeps the target alive (ibv_open_qp(3)). */
struct ibv_qp *va_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
    const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    struct va_qp *v = NULL, *root;
    struct softib_qp *s;
    uint64_t *hazard;

    errno = EINVAL;
    if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
        return NULL;
    s = vm_number_hold(&va_engine.w, attr->qp_num, &hazard);
    if (!s)
        return NULL;
    if (s->is == SOFTIB_IS_QP && s->type == IBV_QPT_XRC_RECV && s->xrcd == ((struct va_xrcd *)attr->xrcd)->domain) {
        root = s->process == va_engine.w.process ? (struct va_qp *)(uintptr_t)s->user : NULL;
        if (root || join(s))
            v = handle_of(context, attr, root, s);
        if (v)
            __atomic_fetch_add(root ? &root->handles : &v->xrcd->users, 1, __ATOMIC_ACQ_REL);
    }
    vm_hazard_end(hazard);
    return v ? &v->q.ex.qp_base : NULL;
}
