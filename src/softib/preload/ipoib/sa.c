/*
 * Queries to the subnet administrator, as MADs through the port's umad device: MCMemberRecord (join, leave) and
 * PathRecord (IBA 15.2.5). The device repeats unanswered queries. An answer is matched by its transaction ID. Its
 * records identify the group or neighbour; if it has no records, the list of queries does.
 */
#include "ipoib.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_mad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAD 256
#define SA_CLASS 3
#define SA_VERSION 2
#define GET 1
#define SET 2
#define DELETE 0x15
#define PATH_RECORD 0x35
#define MEMBER_RECORD 0x38
#define DATA_AT 56
#define GSI_QKEY 0x80010000u
#define TIMEOUT_MS 1000
#define RETRIES 3
#define QUESTIONS 4096       /* maximum number of outstanding queries; older ones are dropped */
#define FULL_MEMBER 1
#define SEND_ONLY 4

/* Components of the two records (IBA 15.2.5.16, 15.2.5.17). */
enum { PATH_DGID = 1 << 2, PATH_SGID = 1 << 3, PATH_REVERSIBLE = 1 << 11, PATH_NUMBER = 1 << 12, PATH_PKEY = 1 << 13 };
enum {
    MEMBER_MGID = 1 << 0, MEMBER_PORT_GID = 1 << 1, MEMBER_QKEY = 1 << 2, MEMBER_MTU_SELECTOR = 1 << 4, MEMBER_MTU = 1 << 5,
    MEMBER_TCLASS = 1 << 6, MEMBER_PKEY = 1 << 7, MEMBER_RATE_SELECTOR = 1 << 8, MEMBER_RATE = 1 << 9, MEMBER_SL = 1 << 12,
    MEMBER_FLOW = 1 << 13, MEMBER_HOPS = 1 << 14, MEMBER_JOIN = 1 << 16,
};

struct message {
    struct ib_user_mad_hdr head;
    uint8_t mad[MAD];
};

struct question {
    uint32_t serial;
    uint8_t is_path, gid[16]; /* gid: of the neighbour or the group */
};

static struct question *questions_of(const struct interface *i)
{
    static struct question *all[IPOIB_INTERFACES];

    if (!all[i->number])
        all[i->number] = calloc(QUESTIONS, sizeof **all);
    return all[i->number];
}

static int is_device_of(const struct interface *i, unsigned number)
{
    char path[96], device[64] = "", port[16] = "";
    FILE *file;

    snprintf(path, sizeof path, "/sys/class/infiniband_mad/umad%u/ibdev", number);
    if ((file = fopen(path, "r"))) {
        if (fscanf(file, "%63s", device) != 1)
            device[0] = 0;
        fclose(file);
    }
    snprintf(path, sizeof path, "/sys/class/infiniband_mad/umad%u/port", number);
    if ((file = fopen(path, "r"))) {
        if (fscanf(file, "%15s", port) != 1)
            port[0] = 0;
        fclose(file);
    }
    return !strcmp(device, i->device) && (unsigned)atoi(port) == i->portnum;
}

/* Open the port's umad device. Return 0, or -1 with errno. */
int sa_open(struct interface *i)
{
    struct ib_user_mad_reg_req request = { .qpn = 1, .mgmt_class = SA_CLASS, .mgmt_class_version = SA_VERSION };
    char path[48];
    unsigned number = 0;

    while (number < 64 && !is_device_of(i, number))
        number++;
    snprintf(path, sizeof path, "/dev/infiniband/umad%u", number);
    i->umad = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (i->umad < 0)
        return -1;
    ioctl(i->umad, IB_USER_MAD_ENABLE_PKEY, NULL);
    if (ioctl(i->umad, IB_USER_MAD_REGISTER_AGENT, &request) < 0)
        return -1;
    i->agent = request.id;
    return 0;
}

static void ask(struct interface *i, unsigned method, unsigned attribute, uint64_t components, const uint8_t *record, size_t size,
                const uint8_t *gid)
{
    struct message m = { 0 };
    struct question *q = questions_of(i);
    ssize_t done;

    i->serial++;
    m.head.id = i->agent;
    m.head.timeout_ms = TIMEOUT_MS;
    m.head.retries = RETRIES;
    m.head.length = MAD;
    put32((uint8_t *)&m.head.qpn, 1);
    put32((uint8_t *)&m.head.qkey, GSI_QKEY);
    put16((uint8_t *)&m.head.lid, i->sm_lid);
    m.head.sl = i->sm_sl;
    m.mad[0] = 1;
    m.mad[1] = SA_CLASS;
    m.mad[2] = SA_VERSION;
    m.mad[3] = (uint8_t)method;
    put32(m.mad + 12, i->serial);
    put16(m.mad + 16, attribute);
    put32(m.mad + 48, (uint32_t)(components >> 32));
    put32(m.mad + 52, (uint32_t)components);
    memcpy(m.mad + DATA_AT, record, size);
    if (q) {
        q += i->serial % QUESTIONS;
        q->serial = i->serial;
        q->is_path = attribute == PATH_RECORD;
        memcpy(q->gid, gid, 16);
    }
    done = write(i->umad, &m, sizeof m);
    (void)done; /* a query that could not be sent is repeated like one without an answer */
}

void sa_join(struct interface *i, struct group *g)
{
    uint64_t components = MEMBER_MGID | MEMBER_PORT_GID | MEMBER_PKEY | MEMBER_JOIN;
    const struct group *b = i->broadcast;
    uint8_t r[52] = { 0 };

    memcpy(r, g->to.gid, 16);
    memcpy(r + 16, i->gid, 16);
    put16(r + 40, i->pkey | 0x8000);
    r[48] = g->full ? FULL_MEMBER : SEND_ONLY;
    if (b && g != b && g->full) { /* if it does not exist, create it like the broadcast group */
        components |= MEMBER_QKEY | MEMBER_MTU_SELECTOR | MEMBER_MTU | MEMBER_TCLASS | MEMBER_RATE_SELECTOR | MEMBER_RATE | MEMBER_SL |
                      MEMBER_FLOW | MEMBER_HOPS;
        put32(r + 32, b->to.qkey);
        r[38] = (uint8_t)(2 << 6 | b->mtu); /* selector 2: exactly this MTU */
        r[42] = (uint8_t)(2 << 6 | b->rate);
        r[44] = (uint8_t)(b->to.sl << 4);
    }
    ask(i, SET, MEMBER_RECORD, components, r, sizeof r, g->to.gid);
}

void sa_leave(struct interface *i, const struct group *g)
{
    uint8_t r[52] = { 0 };

    memcpy(r, g->to.gid, 16);
    memcpy(r + 16, i->gid, 16);
    r[48] = g->full ? FULL_MEMBER : SEND_ONLY;
    ask(i, DELETE, MEMBER_RECORD, MEMBER_MGID | MEMBER_PORT_GID | MEMBER_JOIN, r, sizeof r, g->to.gid);
}

void sa_path(struct interface *i, const struct neighbour *n)
{
    uint8_t r[64] = { 0 };

    memcpy(r + 8, n->hardware + 4, 16);
    memcpy(r + 24, i->gid, 16);
    r[49] = 0x80 | 1; /* reversible, one path */
    put16(r + 50, i->pkey | 0x8000);
    ask(i, GET, PATH_RECORD, PATH_DGID | PATH_SGID | PATH_REVERSIBLE | PATH_NUMBER | PATH_PKEY, r, sizeof r, n->hardware + 4);
}

static void answer(struct interface *i, const struct message *m, const struct question *q)
{
    unsigned status = m->head.status ? ETIMEDOUT : get16(m->mad + 4);
    const uint8_t *record = status ? NULL : m->mad + DATA_AT;
    struct group *g = i->groups;

    if (q->is_path) {
        neighbour_path(i, (uint64_t)get32(q->gid + 8) << 32 | get32(q->gid + 12), record);
        return;
    }
    if (m->mad[3] != (DELETE | 0x80) && m->mad[3] != DELETE) {
        while (g && memcmp(g->to.gid, q->gid, 16))
            g = g->next;
        if (g)
            group_answer(i, g, record, status);
    }
}

/* Read all answers that have arrived. */
void sa_read(struct interface *i)
{
    struct message m;

    while (read(i->umad, &m, sizeof m) >= (ssize_t)(sizeof m.head + DATA_AT)) {
        struct question *q = questions_of(i);
        uint32_t serial = get32(m.mad + 12);

        if (q && q[serial % QUESTIONS].serial == serial && serial) {
            struct question query = q[serial % QUESTIONS];

            q[serial % QUESTIONS].serial = 0;
            answer(i, &m, &query);
        }
    }
}
