/*
 * "again FOLDER SEED STEPS short|long": small writes to where the last went while everything that they depend on changes between
 * them. "long" never takes the short way (engine/write_fastpath.c). Says what became of all: both ways must say the same.
 */
#include "complete.h"
#include "hazards.h"
#include "key_table.h"
#include "keys.h"
#include "modify.h"
#include "peer_mappings.h"
#include "quiesce.h"
#include "write_fastpath.h"
#include "rig.h"
#include "rng.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define AREA (3 * PAGE) /* the page in the middle is a file's, which peers map; the others are private */
#define PIECE 256

static struct rig one, two;
static struct cq c1, c2;
static struct ve_qp *a, *b;
static char *area, path[200];
static uint32_t key, path_changes;
static uint64_t seen = 14695981039346656037ull; /* FNV-1a of all that was seen */
static struct softib_cell cells[2] __attribute__((aligned(256)));
static const struct options quick = { .timeout = 1, .retry_cnt = 0, .rnr_retry = 7, .min_rnr = 1, .psn = 0xFFFFF0 };

static void see(const void *what, size_t octets)
{
    for (size_t i = 0; i < octets; i++)
        seen = (seen ^ ((const unsigned char *)what)[i]) * 1099511628211ull;
}

static void name_file(struct softib_key *k)
{
    struct softib_file *file;
    struct stat info;
    uint64_t start = (uintptr_t)area + PAGE, end = start + PAGE;

    MUST(!stat(path, &info));
    if (!k->file)
        k->file = vm_alloc(&two.e.w, sizeof *file);
    file = vm_at(&two.e.w, k->file);
    file->device = info.st_dev;
    file->inode = info.st_ino;
    file->fd = -1;
    snprintf(file->path, sizeof file->path, "%s", path);
    file->from = k->address > start ? k->address : start;
    file->to = k->address + k->length < end ? k->address + k->length : end;
    file->at = file->from - start;
}

/* Inside the file, or over one of its ends. */
static void lay(bool anew)
{
    struct softib_key *k;

    if (anew)
        key = rig_mr(&two, area, 1, ALL_ACCESS, DOMAIN);
    k = vm_key(&two.e.w, key);
    vm_key_give(k);
    ve_quiesce(&two.e);
    k->address = (uintptr_t)area + PAGE - PIECE / 2 + some(3) * PAGE / 2 + some(3) * 8;
    k->iova = some(2) ? k->address : some(2) ? 0 : UINT64_MAX - 4 * PIECE;
    k->length = PIECE - some(9);
    k->domain = some(12) ? DOMAIN : DOMAIN + 1;
    k->access = some(12) ? ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    k->kind = some(3) ? SOFTIB_KEY_REGION : SOFTIB_KEY_WINDOW_2;
    k->qpn = b->s->qpn + !some(12);
    k->users = 0;
    name_file(k);
    vm_key_publish(k, key);
}

static void drop(void)
{
    struct softib_key *k = vm_key(&two.e.w, key);

    vm_free(&two.e.w, k->file, sizeof(struct softib_file));
    k->file = 0;
    __atomic_fetch_add(&vm_head(&two.e.w)->drops, 1, __ATOMIC_RELEASE);
    rig_dereg(&two, key);
}

static void reset(struct ve_qp *q)
{
    struct ibv_qp_attr to = { .qp_state = IBV_QPS_RESET };

    MUST(!ve_modify(q, &to, IBV_QP_STATE));
    ve_purge(q->e, q->send_cq, q->s->qpn);
}

static void connect_both(void)
{
    struct softib_cqe cqe;

    reset(a);
    reset(b);
    while (rig_poll(&c1, &cqe, 0))
        ;
    rig_connect(a, b, &quick);
    a->flow.cell = &cells[1];
}

static void change(void)
{
    struct ibv_qp_attr to = { .qp_access_flags = some(2) ? ALL_ACCESS : IBV_ACCESS_LOCAL_WRITE };

    switch (some(12)) {
    case 0:
        drop();
        lay(true);
        break;
    case 1:
    case 2:
        lay(false); /* the key stays */
        break;
    case 3:
        MUST(!ve_modify(b, &to, IBV_QP_ACCESS_FLAGS));
        break;
    case 4:
        (void)ve_invalidate(&two.e, key, 2, DOMAIN, b->s->qpn);
        vm_quiesce(&two.e.w);
        break;
    case 5:
        stub_cut(true); /* the way is another one, or the same again */
        stub_cut(false);
        path_changes++;
        break;
    case 6:
        b->s->pkey = some(2) ? 0xFFFF : 0x8002;
        break;
    case 7:
        b->s->rq_psn ^= !some(3);
        break;
    case 8:
        b->s->dest_qpn ^= !some(3);
        break;
    case 9:
        b->s->port ^= !some(3);
        break;
    case 10:
        vm_key_give(vm_key(&two.e.w, key));
        ve_quiesce(&two.e);
        break;
    default:
        rig_destroy(b);
        b = rig_qp(&two, IBV_QPT_RC, &c2, &c2, NULL, 8, 0);
        connect_both();
        lay(false);
    }
}

/* Mostly inside; at the edges; beyond them. True: it went the short way, or could have. */
static bool write_some(uint32_t step, bool is_long)
{
    struct softib_key *k = vm_key(&two.e.w, key);
    char data[64];
    struct ibv_sge sge[2] = { { (uintptr_t)data, 1 + some(64), 0 }, { (uintptr_t)data, 0, 0 } };
    uint64_t room = k->length > sge[0].length ? k->length - sge[0].length : 1;
    struct ve_wr wr = { .wr_id = step, .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED, .sges = 1,
                        .sge = sge, .rkey = some(40) ? key : key ^ 1 };
    struct softib_cqe cqe;
    bool repeat, cut = !some(30);

    memset(data, (int)some(256), sizeof data);
    wr.remote = k->iova + (some(3) ? some((uint32_t)room) : some(2) ? room + some(3) - 1 : (uint64_t)0 - some(2));
    wr.sges += is_long; /* a part without octets */
    repeat = ve_is_write_fast(a, &wr);
    MUST(!repeat || !is_long);
    if (cut)
        stub_cut(true);
    MUST(!rig_post(a, &wr));
    cqe = rig_next(&c1);
    if (cut)
        stub_cut(false);
    MUST(!cut || cqe.status == IBV_WC_RETRY_EXC_ERR);
    MUST(cqe.wr_id == step);
    see(&cqe.status, sizeof cqe.status);
    see(area, AREA);
    see(&a->sq_psn, sizeof a->sq_psn);
    see(&b->s->rq_psn, sizeof b->s->rq_psn);
    see(cells[1].packets, sizeof cells[1].packets + sizeof cells[1].dwords);
    if (cqe.status != IBV_WC_SUCCESS)
        connect_both();
    if (k->key != key)
        lay(false);
    return repeat && cqe.status == IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
    uint32_t steps, repeat = 0;
    int fd;

    MUST(argc == 5);
    random_ = strtoull(argv[2], NULL, 0) * 2654435761u + 1;
    steps = (uint32_t)strtoul(argv[3], NULL, 0);
    snprintf(path, sizeof path, "%s/area", argv[1]);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0 && !ftruncate(fd, PAGE));
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(area != MAP_FAILED && mmap(area + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == area + PAGE);
    cells[1].index = 1;
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    c1 = rig_cq(&one, 16);
    c2 = rig_cq(&two, 16);
    a = rig_qp(&one, IBV_QPT_RC, &c1, &c1, NULL, 8, 0);
    b = rig_qp(&two, IBV_QPT_RC, &c2, &c2, NULL, 8, 0);
    connect_both();
    lay(true);
    for (uint32_t step = 0; step < steps; step++) {
        if (!some(4))
            change();
        repeat += write_some(step, !strcmp(argv[4], "long"));
        if (!some(16))
            vp_maps_tidy(&one.e.w);
    }
    MUST(path_changes > steps / 400);
    printf("%016llx %llu %u\n", (unsigned long long)seen, (unsigned long long)cells[1].packets[0], repeat);
    return 0;
}
