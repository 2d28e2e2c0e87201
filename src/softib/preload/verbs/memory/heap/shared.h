/*
 * The file `verbs` of a running fabric: queue pairs, completion queues and memory keys of all its
 * programs; each program maps the whole file. This header is the only declaration of its layout;
 * softib.live.verbs.shared_heap reads it into NumPy dtypes.
 *
 * The file is sparse. It starts with a softib_verbs; the tables have fixed offsets; from SOFTIB_VERBS_HEAP on there are
 * chunks of SOFTIB_VERBS_CHUNK bytes, each with objects of one process (`owner`). Objects refer to each other by offset
 * from the start of the file. QPNs and keys are unique in the whole fabric.
 *
 * The word of a lock is its owner, 0 = free: number of the process | its generation << 16 (numbers are reused). A
 * process that waits for long checks whether the owner is alive. Each change of guarded data takes effect with one
 * final store, so the lock of a dead owner can be taken over without repair.
 *
 * Every object can be found by its owner, so that the daemon can free the objects of a killed process: QPNs and SRQ
 * numbers in the table of numbers, memberships in the table of members, chunks in OWNERS, keys in blocks of
 * SOFTIB_VERBS_BLOCK_KEYS keys, each with one owner. The daemon first removes names (numbers, keys), waits until no
 * live process has a hazard on the dead process, and then frees its objects.
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
    uint32_t process_high;  /* highest process number in use */
    uint64_t size;
    uint64_t chunk_high;    /* chunks from here on were never claimed */
    uint64_t chunk_hint;    /* start of the search for a free chunk */
    uint32_t number_next;   /* start of the search for a free QPN */
    uint32_t number_high;   /* numbers from here on were never used */
    uint32_t block_high;    /* blocks of keys from here on were never claimed */
    uint32_t block_hint;
    uint32_t domain_next;   /* number of protection and XRC domains so far */
    uint32_t member_lock;
    uint32_t member_high;   /* multicast memberships from here on are free */
    uint32_t drops;         /* count of removed keys with a file: a change makes processes check their mappings */
    uint32_t atomic_lock[256]; /* SOFTIB_VERBS_ATOMIC_LOCKS: by node, so that atomics are atomic on one HCA */
    uint64_t pid_ns;        /* namespace of the first process */
    uint64_t namespaces;    /* 1: some process is in a different namespace */
    uint64_t block_sequence;    /* blocks claimed so far, from which tags and versions are numbered, since a released block
                                 * loses its pages */
    uint32_t poller[256];   /* by processor: the last thread whose polls were empty: process << 16 | thread */
};

/*
 * A pid identifies a process only inside its PID namespace; in another namespace the same pid is unassigned, or belongs
 * to another process. So a pid is used only by processes with the same `pid_ns`, and only while its pidfd has the inode
 * `pidfd` (memory/identity.h).
 */
struct softib_process {
    uint32_t pid;           /* pid in the process's PID namespace */
    uint32_t alive;         /* 1: connected; the daemon clears it, the only sign of death in another namespace */
    uint32_t wake;          /* futex: pending work of this process may continue */
    uint32_t sleeping;      /* its timer thread waits */
    uint32_t generation;    /* generation of its number: 1 .. 65535 */
    uint32_t wanted;        /* a peer cannot access its memory, and there was no `service` */
    uint64_t events;        /* offset of its softib_events; 0: none */
    uint64_t pid_ns;        /* inode of its PID namespace; 0: unknown */
    uint64_t user_ns;       /* inode of its user namespace */
    uint64_t pidfd;         /* inode of its pidfd, never reused (pidfs, Linux 6.9); 0: none */
    uint64_t service;       /* offset of its softib_service; 0: none. Peers read `alive` with every message: no two
                             * slots share a cache line */
    uint64_t hazard[24];    /* SOFTIB_VERBS_HAZARDS: sequence << 16 | process whose objects are in use; 0 = none */
};

/* Events that did not fit into a context's socket. softib_pending_event[SOFTIB_VERBS_EVENTS] follows in memory. */
struct softib_events {
    uint32_t lock;
    uint32_t first;         /* first, end: positions of the start and the end of the list; they only increase */
    uint32_t end;
    uint32_t lost;          /* events dropped because this list was also full */
};

struct softib_pending_event {
    uint32_t socket;        /* number of the context's socket; 0: sent */
    uint32_t type;          /* enum ibv_event_type */
    uint64_t element;
};

struct softib_member {      /* of a multicast group */
    uint32_t qpn;           /* 0 = free */
    uint32_t port;
    uint16_t mlid;
    uint16_t process;
    uint8_t gid[16];
    uint32_t version;       /* changed each time the slot is used */
};

struct softib_key {
    uint32_t key;           /* index << 8 | tag; 0 = free */
    uint32_t access;        /* enum ibv_access_flags */
    uint64_t address;       /* in the owner's memory */
    uint64_t iova;          /* the same address for peers */
    uint64_t length;
    uint32_t domain;
    uint16_t process;
    uint8_t kind;           /* SOFTIB_KEY_* */
    uint8_t tag;            /* tag of the next key of this entry */
    uint32_t qpn;           /* window of type 2: its QP; region: its device memory; 0 = none */
    uint32_t users;         /* number of windows bound to this region */
    uint64_t file;          /* offset of a softib_file; 0 = private memory */
    uint64_t version;       /* incremented when it is published */
};

#define SOFTIB_ACCESS_IMPORTED 0x80000000 /* flag of `access`: other processes imported it (ibv_import_mr) */
#define SOFTIB_ACCESS_NULL 0x40000000     /* flag of a null region: any address, reads return zeros, writes are dropped */

#define SOFTIB_KEY_REGION 1
#define SOFTIB_KEY_WINDOW 2
#define SOFTIB_KEY_WINDOW_2 3

struct softib_file {        /* memory of a region that other processes can map */
    uint64_t from;          /* start in the owner's memory; a region's edges may be private */
    uint64_t to;
    uint64_t at;            /* where `from` is in the file */
    uint64_t device;
    uint64_t inode;
    int32_t fd;             /* the owner's descriptor; -1: the file has a name */
    char path[236];
};

/*
 * Copies that the owner of memory executes for a peer that can neither map nor copy this memory (peers/orders.h). In
 * the heap, a softib_service is followed by softib_order[SOFTIB_VERBS_ORDERS], and by SOFTIB_VERBS_PIECE bytes of data
 * for each order.
 */
#define SOFTIB_VERBS_ORDERS 4
#define SOFTIB_VERBS_PIECE 131072

struct softib_service {
    uint32_t bell;          /* futex: number of orders given so far */
    uint32_t sleeps;        /* 1: the service thread sleeps on `bell` */
    uint32_t polled;        /* the last order was served by a thread that polled */
    uint32_t there;         /* bit mask of orders whose data has pages */
    uint32_t still[12];
};

#define SOFTIB_ORDER_NONE 0
#define SOFTIB_ORDER_GIVEN 1
#define SOFTIB_ORDER_TAKEN 2
#define SOFTIB_ORDER_DONE 3

#define SOFTIB_ORDER_PUT 1  /* copy the data to the owner's memory */
#define SOFTIB_ORDER_GET 2
#define SOFTIB_ORDER_FILE 3 /* send the file of `key` to the requester's socket */

struct softib_order {
    uint32_t lock;          /* lock of the requester */
    uint32_t state;         /* futex: SOFTIB_ORDER_NONE .. DONE */
    uint32_t waits;         /* the requester sleeps */
    uint32_t kind;
    int32_t error;          /* 0 or -errno */
    uint32_t key;
    uint32_t parts;
    uint32_t process;       /* the requester */
    uint64_t address[36];   /* addresses of `parts` parts of the owner's memory */
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
    uint64_t stamp;         /* time of the completion: CLOCK_MONOTONIC, ns */
    uint16_t status;        /* enum ibv_wc_status */
    uint16_t opcode;
    uint32_t byte_len;
    uint32_t imm;           /* imm: big endian, or the invalidated key; in the completion of a send: the number of
                             * requests that its QP has completed */
    uint32_t qpn;
    uint32_t src_qp;
    uint32_t flags;         /* enum ibv_wc_flags */
    uint32_t vendor_err;
    uint32_t owner;         /* QPN; its reset purges the completion */
    uint16_t slid;
    uint16_t pkey_index;
    uint8_t sl;             /* with tag matching, 8 bytes hold the tag and vendor_err is the application context; in
                             * the completion of a send, they hold its ve_qp */
    uint8_t path_bits;
    uint8_t freed[6];       /* of a receive: softib_qp.freed, or softib_srq.freed | 1 */
    uint32_t seq;           /* written last: the number of the completion in its queue, from 1, | SOFTIB_CQE_THERE */
};

#define SOFTIB_CQE_THERE 0x80000000 /* makes `seq` nonzero: a partly written completion has `seq` 0 */

/*
 * The poller reads only the next completion: `seq` shows that it is written. So it never takes the cache line of
 * `producer`, which initiators write for each completion. If a process is killed after it wrote a completion and before
 * it advanced `producer`, the process that takes over its lock advances it.
 *
 * Queues are divided by writer: constant fields, fields written by initiators, fields written by
 * the owner. Each part fills whole cache lines, which avoids false sharing.
 */
struct softib_cq {
    uint32_t size;
    uint32_t armed;         /* 1: solicited or wrong; 2: any */
    uint32_t channel;       /* number of the wake socket, 0 = none */
    uint32_t async;         /* wake socket of the context */
    uint64_t ring;          /* softib_cqe[size] */
    uint64_t user;          /* struct ibv_cq in its process */
    uint16_t process;
    uint16_t stamps;        /* completions have a time stamp */
    uint32_t ignores_overrun; /* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: completions without room are dropped, without an error */
    uint8_t still[24];
    uint32_t lock;          /* lock for adding completions */
    uint32_t producer;      /* only increases */
    uint32_t overrun;
    uint32_t seen;          /* last value read of `consumer` */
    uint32_t there;         /* number of bytes of the ring that have pages, including the next completion, which the
                             * owner reads */
    uint32_t room;          /* capacity of the ring: `size`, unless it could not grow */
    uint8_t adders[40];
    uint32_t consumer;
    uint32_t pending;       /* channel events not fetched */
    uint32_t polling;       /* lock for taking completions; held from start_poll to end_poll */
    uint32_t unsent;        /* the part of `pending` whose datagrams did not fit into the channel's socket */
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
    uint64_t cq;            /* for XRC and tag matching */
    uint64_t user;
    uint32_t async;
    uint16_t process;
    uint16_t spare;
    uint64_t tags;          /* softib_tags; 0: no tag matching */
    uint32_t lock;
    uint32_t head;
    uint32_t limit;
    uint32_t shuffled;      /* strict mode: head + 1 if the receive at `head` was drawn */
    uint32_t shuffles;      /* seed of the order in which receives are taken; 0: as posted */
    uint32_t seen;          /* last value read of `tail` */
    uint64_t freed;         /* as in a QP */
    uint8_t takers[32];
    uint32_t tail;
    uint16_t waiter;        /* process with pending work that needs a receive */
    uint8_t owners[58];
};

/* Tag matching: the list of an SRQ in the order of posting, guarded by its lock. Only the owner adds, removes and moves entries. */
struct softib_tags {
    uint32_t size;          /* of the ring */
    uint32_t max;           /* entries that may wait */
    uint32_t sges;
    uint32_t head;          /* entries before it are taken */
    uint32_t armed;         /* entries before it match; later ones wait for a synchronization */
    uint32_t tail;
    uint32_t handles;       /* number of handles given out so far */
    uint32_t handled;       /* unexpected messages that the owner has confirmed, modulo 2^16 */
    uint64_t unexpected;    /* bits 48 and up: count of unexpected messages; bit 32: one of them waits for a receive,
                             * and the low 32 bits are the SRQ's head */
    uint64_t ring;          /* `size` entries: a softib_tag, then its softib_sge[sges] */
    uint64_t rndv_log;          /* softib_rndv_record[size] */
    uint32_t rndv_log_high;     /* entries from here on were never used */
    uint32_t there;         /* bytes of `ring` that have pages */
    uint32_t rndv_log_there;    /* bytes of `rndv_log` that have pages */
    uint32_t spare;
};

struct softib_rndv_record {        /* a matched rendezvous whose sender must still deliver data and FIN */
    uint32_t owner;         /* the sender, as in a lock; 0 = free */
    uint32_t handle;        /* of the matched tag */
    uint64_t wr_id;
    uint32_t qpn;
    uint32_t src_qp;
    uint32_t length;
    uint32_t settling;      /* 1: the sender is adding the completion; */
    uint32_t producer;      /* number of completions in the CQ at that time */
    uint32_t reserved;
};

struct softib_tag {         /* its softib_sge follow */
    uint64_t tag;
    uint64_t mask;
    uint32_t handle;
    uint32_t taken;
    uint64_t wr_id;         /* the rest is a softib_receive */
    uint32_t sges;
    uint32_t reserved;
};

#define SOFTIB_IS_DM 0x71444D51

struct softib_dm {          /* device memory: mapped by every process of the fabric */
    uint32_t is;            /* SOFTIB_IS_DM */
    uint32_t handle;        /* its number in the table of numbers */
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
    uint16_t lid;           /* UC, RC: LID of the peer */
    uint16_t moves;         /* migrations to an alternate path so far */
    uint32_t async;
    uint32_t node;          /* row of the node, for atomics */
    uint32_t rq_size;
    uint32_t rq_sges;
    uint32_t lock;          /* lock of the receiving half */
    uint32_t rq_psn;        /* the PSN that is expected next */
    uint32_t rq_head;
    uint8_t established;    /* COMM_EST was raised */
    uint8_t roce_v2;        /* its address names a GID of RoCE v2 */
    uint8_t spare[2];
    uint32_t alt_port;      /* row of the alternate path's port */
    uint16_t alt_lid;       /* LID of the peer on that path; 0: no alternate path loaded */
    uint16_t alt_pkey_index;
    uint32_t rq_seen;       /* last value read of `rq_tail` */
    uint8_t initiators[36];
    uint64_t rq;            /* constant fields: initiators read them with every message */
    uint64_t recv_cq;
    uint64_t srq;
    uint64_t user;
    uint64_t attr;          /* XRC target: its struct ibv_qp_attr, shared by its processes; 0 = none */
    uint64_t send_cq;       /* for the daemon, which checks whether completions were polled */
    uint16_t handles;       /* XRC target: processes that have it open */
    uint8_t still[6];
    uint64_t freed;         /* address, in its process, of the counter of receives whose completion was polled */
    uint32_t rq_tail;
    uint16_t waiter;
    uint8_t owners[58];
    uint32_t copies;        /* engine/scheduling/quiesce.c: odd while a request is executed */
    uint8_t executors[60];
};

#endif
