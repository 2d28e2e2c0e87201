/*
 * The file `verbs` of a running fabric: queue pairs, completion queues and memory keys of every program on it, mapped
 * completely by each. This header is the only declaration of its layout; softib.live.verbs.shared_heap reads it into
 * NumPy dtypes.
 *
 * The file is sparse. A softib_verbs fills its first octets; the tables have fixed offsets; behind SOFTIB_VERBS_HEAP
 * lie chunks of SOFTIB_VERBS_CHUNK octets, each of one process (`owner`), with the objects of this process. Objects
 * name each other by offset from the start of the file. QPNs and keys are unique in the fabric.
 *
 * A lock holds its owner, 0 = free: number of the process | its generation << 16 (numbers are reused). A long waiter
 * checks whether the owner lives. Guarded data changes with one store at the end, so the lock of a dead owner is simply
 * taken over.
 *
 * Every object can be found by its owner, so that the daemon can free the objects of a killed process: QPNs and SRQ
 * numbers in the table of numbers, memberships in theirs, chunks in OWNERS, keys in blocks of
 * SOFTIB_VERBS_BLOCK_KEYS with an owner each. The daemon first removes names (numbers, keys), waits until no live
 * process has a hazard on the dead one, and then frees its objects.
 */
#ifndef SOFTIB_VERBS_SHARED_H
#define SOFTIB_VERBS_SHARED_H

#include <stdint.h>

#define SOFTIB_VERBS_VERSION 10
#define SOFTIB_VERBS_SIZE 0x1000000000
#define SOFTIB_VERBS_PROCESSES 0x100000
#define SOFTIB_VERBS_PROCESSES_N 65536
#define SOFTIB_VERBS_NUMBERS 0x2000000
#define SOFTIB_VERBS_NUMBERS_N 0x1000000
#define SOFTIB_VERBS_MEMBERS 0xA000000
#define SOFTIB_VERBS_MEMBERS_N 65536
#define SOFTIB_VERBS_BLOCKS 0x10000000
#define SOFTIB_VERBS_BLOCKS_N 0x40000
#define SOFTIB_VERBS_BLOCK_KEYS 64
#define SOFTIB_VERBS_KEYS 0x40000000
#define SOFTIB_VERBS_KEYS_N 0x1000000
#define SOFTIB_VERBS_OWNERS 0x80000000
#define SOFTIB_VERBS_HEAP 0x100000000
#define SOFTIB_VERBS_CHUNK 65536
#define SOFTIB_VERBS_HAZARDS 24
#define SOFTIB_VERBS_ATOMIC_LOCKS 256
#define SOFTIB_VERBS_EVENTS 2048
#define SOFTIB_VERBS_PROCESSORS 256

struct softib_verbs {
    char magic[8];          /* "SOFTIBq" and a NUL, written last */
    uint32_t version;
    uint32_t process_high;  /* no process has a number above */
    uint64_t size;
    uint64_t chunk_high;    /* chunks behind it were never taken */
    uint64_t chunk_hint;    /* where to look for a free one */
    uint32_t number_next;   /* where to look for a free QPN */
    uint32_t number_high;   /* numbers behind it were never taken */
    uint32_t block_high;    /* blocks of keys behind it were never taken */
    uint32_t block_hint;
    uint32_t domain_next;   /* protection and XRC domains so far */
    uint32_t member_lock;
    uint32_t member_high;   /* multicast memberships behind it are free */
    uint32_t drops;         /* keys with a file that are gone: a process that maps one checks which */
    uint32_t atomic_lock[256]; /* SOFTIB_VERBS_ATOMIC_LOCKS: by node, so that atomics are atomic on one HCA */
    uint64_t pid_ns;        /* of the first process of all; */
    uint64_t namespaces;    /* 1: another has another */
    uint64_t block_sequence;    /* blocks of keys taken so far: their tags and versions go on from there, for their page goes with them */
    uint32_t poller[256];   /* SOFTIB_VERBS_PROCESSORS: the last thread there whose polls found nothing: number of its process << 16 | its own */
};

/*
 * A pid identifies a process only inside the PID namespace that it was given in: elsewhere it is unassigned, or another's. So a pid is
 * used by processes whose `pid_ns` is the same, and only while its pidfd is `pidfd`'s: memory/identity.h.
 */
struct softib_process {
    uint32_t pid;           /* in its PID namespace */
    uint32_t alive;         /* 1: connected to the daemon, which clears it: what tells the death of one in another namespace */
    uint32_t wake;          /* futex: work that waits in this process may go on */
    uint32_t sleeping;      /* its timer thread waits */
    uint32_t generation;    /* of its number: 1 .. 65535 */
    uint32_t wanted;        /* a peer cannot reach its memory, and found no `service` */
    uint64_t events;        /* softib_events of its contexts, 0: it has none */
    uint64_t pid_ns;        /* inode of its PID namespace, 0: not known */
    uint64_t user_ns;       /* of its user namespace */
    uint64_t pidfd;         /* inode of its pidfd, which no other process ever has (pidfs, Linux 6.9), 0: none */
    uint64_t service;       /* softib_service, 0: none. Peers read `alive` with every message: the slots have lines of their own */
    uint64_t hazard[24];    /* SOFTIB_VERBS_HAZARDS: sequence << 16 | process whose objects are in use; 0 = none */
};

struct softib_events {      /* asynchronous events that found a context's socket full; softib_late_event[SOFTIB_VERBS_EVENTS] follow */
    uint32_t lock;
    uint32_t first;         /* count up for ever */
    uint32_t end;
    uint32_t lost;          /* found this full, too */
};

struct softib_pending_event {
    uint32_t socket;        /* number of the context's, 0: it was sent */
    uint32_t type;          /* enum ibv_event_type */
    uint64_t element;
};

struct softib_member {      /* of a multicast group */
    uint32_t qpn;           /* 0 = free */
    uint32_t port;
    uint16_t mlid;
    uint16_t process;
    uint8_t gid[16];
    uint32_t version;       /* another one each time the slot is used */
};

struct softib_key {
    uint32_t key;           /* index << 8 | tag; 0 = free */
    uint32_t access;        /* enum ibv_access_flags */
    uint64_t address;       /* in the owner's memory */
    uint64_t iova;          /* the address that peers use for it */
    uint64_t length;
    uint32_t domain;
    uint16_t process;
    uint8_t kind;           /* SOFTIB_KEY_* */
    uint8_t tag;            /* of the next key here */
    uint32_t qpn;           /* window of type 2: of the only QP; region: of which device memory, 0 = none */
    uint32_t users;         /* windows bound to this region */
    uint64_t file;          /* a softib_file, 0 = private memory */
    uint64_t version;       /* counts how often it was published */
};

#define SOFTIB_ACCESS_IMPORTED 0x80000000 /* of `access`: other processes have it, too (ibv_import_mr) */
#define SOFTIB_ACCESS_NULL 0x40000000     /* of a null region: any address, zeros to read, nothing that is kept */

#define SOFTIB_KEY_REGION 1
#define SOFTIB_KEY_WINDOW 2
#define SOFTIB_KEY_WINDOW_2 3

struct softib_file {        /* memory of a region that others can map too */
    uint64_t from;          /* in the owner's memory; a region's edges may be private */
    uint64_t to;
    uint64_t at;            /* where `from` is in the file */
    uint64_t device;
    uint64_t inode;
    int32_t fd;             /* the owner's descriptor; -1: the file has a name */
    char path[236];
};

/*
 * Memory of a process that its peer neither maps nor may copy: the owner executes the copy (peers/orders.h). A softib_service, its
 * softib_order[SOFTIB_VERBS_ORDERS], and SOFTIB_VERBS_PIECE octets of data for each.
 */
#define SOFTIB_VERBS_ORDERS 4
#define SOFTIB_VERBS_PIECE 131072

struct softib_service {
    uint32_t bell;          /* futex: orders given so far */
    uint32_t sleeps;        /* the thread that serves waits for it */
    uint32_t polled;        /* the last order was served by a thread that polled */
    uint32_t there;         /* orders whose data has pages: a bit each */
    uint32_t still[12];
};

#define SOFTIB_ORDER_NONE 0
#define SOFTIB_ORDER_GIVEN 1
#define SOFTIB_ORDER_TAKEN 2
#define SOFTIB_ORDER_DONE 3

#define SOFTIB_ORDER_PUT 1  /* data to its memory */
#define SOFTIB_ORDER_GET 2
#define SOFTIB_ORDER_FILE 3 /* the file behind `key`, to the socket of who orders */

struct softib_order {
    uint32_t lock;          /* of who orders */
    uint32_t state;         /* futex: SOFTIB_ORDER_NONE .. DONE */
    uint32_t waits;         /* who orders sleeps */
    uint32_t kind;
    int32_t error;          /* 0 or -errno */
    uint32_t key;
    uint32_t parts;
    uint32_t process;       /* who orders */
    uint64_t address[36];   /* of parts of its memory */
    uint64_t octets[36];
};

struct softib_sge {
    uint64_t address;
    uint32_t length;
    uint32_t lkey;
};

struct softib_receive {     /* a posted receive; its softib_sge follow */
    uint64_t wr_id;
    uint32_t sges;
    uint32_t reserved;
};

struct softib_cqe {
    uint64_t wr_id;
    uint64_t stamp;         /* CLOCK_MONOTONIC, ns */
    uint16_t status;        /* enum ibv_wc_status */
    uint16_t opcode;
    uint32_t byte_len;
    uint32_t imm;           /* big endian, or the invalidated key; of a send: how many its QP has completed */
    uint32_t qpn;
    uint32_t src_qp;
    uint32_t flags;         /* enum ibv_wc_flags */
    uint32_t vendor_err;
    uint32_t owner;         /* QPN whose reset purges it */
    uint16_t slid;
    uint16_t pkey_index;
    uint8_t sl;             /* tag matching: these 8 octets are the tag, vendor_err the sender's own 4; of a send: its ve_qp */
    uint8_t path_bits;
    uint8_t freed[6];       /* of a receive: softib_qp.freed, or softib_srq.freed | 1 */
    uint32_t seq;           /* written last: its number in the queue, counted from 1, | SOFTIB_CQE_THERE */
};

#define SOFTIB_CQE_THERE 0x80000000 /* never 0: a completion that is half written has no sequence */

/*
 * The poller looks at the next completion alone: `seq` says that it is there. So the line of `producer`, which initiators write
 * each time, stays with them. A process that is killed between both leaves a completion before `producer` was moved: the process
 * that takes its lock over moves it.
 *
 * Queues are split by their writers: what stands still, what initiators write, what the owner writes. Each part fills whole cache
 * lines, so that two processors do not take a line from each other for nothing.
 */
struct softib_cq {
    uint32_t size;
    uint32_t armed;         /* 1: solicited or wrong; 2: any */
    uint32_t channel;       /* number of the wake socket, 0 = none */
    uint32_t async;         /* wake socket of the context */
    uint64_t ring;          /* softib_cqe[size] */
    uint64_t user;          /* struct ibv_cq in its process */
    uint16_t process;
    uint16_t stamps;        /* completions carry the time */
    uint32_t ignores_overrun; /* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: what finds no place is lost, and nothing breaks */
    uint8_t still[24];
    uint32_t lock;          /* of who adds */
    uint32_t producer;      /* counts up for ever */
    uint32_t overrun;
    uint32_t seen;          /* `consumer`, when it was last looked at */
    uint32_t there;         /* octets of the ring that have pages: the next completion's too, where the owner looks */
    uint32_t room;          /* completions that the ring was made for: `size`, but for one that could not grow */
    uint8_t adders[40];
    uint32_t consumer;
    uint32_t pending;       /* events of the channel that were not fetched */
    uint32_t polling;       /* lock of who takes; held from start_poll to end_poll */
    uint32_t unsent;        /* those of `pending` whose datagram found the channel's socket full */
    uint8_t owners[48];
};

#define SOFTIB_IS_QP 0x71704951
#define SOFTIB_IS_SRQ 0x71727351

struct softib_srq {
    uint32_t is;            /* SOFTIB_IS_SRQ */
    uint32_t number;
    uint32_t size;
    uint32_t sges;
    uint32_t domain;
    uint32_t xrcd;
    uint64_t ring;
    uint64_t cq;            /* XRC, tag matching */
    uint64_t user;
    uint32_t async;
    uint16_t process;
    uint16_t spare;
    uint64_t tags;          /* softib_tags; 0: no tag matching */
    uint32_t lock;
    uint32_t head;
    uint32_t limit;
    uint32_t shuffled;      /* strict programs: the receive at `head` was drawn: head + 1 */
    uint32_t shuffles;      /* seed of the order in which receives are taken, 0: as they came */
    uint32_t seen;          /* `tail`, when it was last looked at */
    uint64_t freed;         /* as of a QP */
    uint8_t takers[32];
    uint32_t tail;
    uint16_t waiter;        /* process with work that waits for a receive */
    uint8_t owners[58];
};

/* Tag matching: the list of an SRQ in the order of posting, guarded by its lock. Only the owner adds, removes and moves entries. */
struct softib_tags {
    uint32_t size;          /* of the ring */
    uint32_t max;           /* entries that may wait */
    uint32_t sges;
    uint32_t head;          /* before it all are taken */
    uint32_t armed;         /* those before it match; those behind wait for a synchronization */
    uint32_t tail;
    uint32_t handles;       /* given out so far */
    uint32_t handled;       /* unexpected messages that the owner says it has seen, modulo 2^16 */
    uint64_t unexpected;    /* that came: count << 48 | 1 << 32 and the SRQ's head that one more waits for */
    uint64_t ring;          /* softib_tag, with its softib_sge[sges], [size] */
    uint64_t rndv_log;          /* softib_rndv_record[size] */
    uint32_t rndv_log_high;     /* those behind it were never used */
    uint32_t there;         /* octets of `ring` that have pages */
    uint32_t rndv_log_there;    /* of `rndv_log` */
    uint32_t spare;
};

struct softib_rndv_record {        /* a rendezvous that matched; its sender has data and FIN still to deliver */
    uint32_t owner;         /* the sender, as in a lock; 0 = free */
    uint32_t handle;        /* of the tag that it matched */
    uint64_t wr_id;
    uint32_t qpn;
    uint32_t src_qp;
    uint32_t length;
    uint32_t settling;      /* 1: the sender adds the completion now; */
    uint32_t producer;      /* the CQ had so many then */
    uint32_t reserved;
};

struct softib_tag {         /* its softib_sge follow */
    uint64_t tag;
    uint64_t mask;
    uint32_t handle;
    uint32_t taken;
    uint64_t wr_id;         /* from here on a softib_receive */
    uint32_t sges;
    uint32_t reserved;
};

#define SOFTIB_IS_DM 0x71444D51

struct softib_dm {          /* device memory: every process of the fabric has it mapped */
    uint32_t is;            /* SOFTIB_IS_DM */
    uint32_t handle;        /* its number, as of a QP */
    uint64_t memory;
    uint64_t length;
};

struct softib_qp {
    uint32_t is;            /* SOFTIB_IS_QP */
    uint32_t qpn;
    uint8_t type;           /* enum ibv_qp_type */
    uint8_t state;          /* enum ibv_qp_state */
    uint16_t process;
    uint32_t port;          /* row */
    uint32_t domain;
    uint32_t dest_qpn;
    uint32_t access;
    uint32_t qkey;
    uint32_t xrcd;
    uint16_t pkey;
    uint16_t pkey_index;
    uint8_t min_rnr;
    uint8_t dest_reads;     /* max_dest_rd_atomic */
    uint8_t signal_all;
    uint8_t mig;            /* enum ibv_mig_state */
    uint16_t lid;           /* UC, RC: of the peer */
    uint16_t moves;         /* migrations to an alternate path so far */
    uint32_t async;
    uint32_t node;          /* row, for atomics */
    uint32_t rq_size;
    uint32_t rq_sges;
    uint32_t lock;          /* of the receiving half */
    uint32_t rq_psn;        /* expected */
    uint32_t rq_head;
    uint8_t established;    /* COMM_EST was raised */
    uint8_t roce_v2;        /* its address names a GID of RoCE v2 */
    uint8_t spare[2];
    uint32_t alt_port;      /* row, of the alternate path */
    uint16_t alt_lid;       /* of the peer there; 0: no alternate path is loaded */
    uint16_t alt_pkey_index;
    uint32_t rq_seen;       /* `rq_tail`, when it was last looked at */
    uint8_t initiators[36];
    uint64_t rq;            /* stands still again: initiators read it with every message */
    uint64_t recv_cq;
    uint64_t srq;
    uint64_t user;
    uint64_t attr;          /* XRC target: its struct ibv_qp_attr, which they share; 0 = none */
    uint64_t send_cq;       /* for the daemon, which looks whether completions were taken */
    uint16_t handles;       /* XRC target: processes that have it open */
    uint8_t still[6];
    uint64_t freed;         /* where its process counts the receives whose completion was polled */
    uint32_t rq_tail;
    uint16_t waiter;
    uint8_t owners[58];
    uint32_t copies;        /* engine/scheduling/quiesce.c: odd while a request is executed */
    uint8_t executors[60];
};

#endif
