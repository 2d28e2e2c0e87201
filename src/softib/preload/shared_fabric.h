/*
 * The file `shared_fabric`: a running fabric's arrays in one shared mapping. This header is the
 * only declaration of its layout; softib.live.shared_fabric reads it into NumPy dtypes.
 *
 * The file starts with a softib_shared_fabric. `columns` entries of softib_column follow at
 * `directory`; each names an array at `offset` bytes from the start of the file (a multiple of 4096). The array has
 * `ndim` dimensions, with sizes `shape`, in C order; its elements have the type `dtype` (NumPy's type strings: "<u8",
 * "|u1", "<f4", ...). softib/fabric/columns.py documents the arrays. Outside the daemon the file is mapped read-only.
 * `epoch` increases whenever the configuration (a table, a port) may have changed: after a change, cached paths must be
 * checked again. `magic` is written last.
 *
 * Columns that most fabrics never write (`store` SOFTIB_LAZY) are in a second, sparse file of `lazy_size` bytes: a
 * memfd of the daemon, which passes its descriptor (verbs/fabric/server.h; "/proc/PID/fd/LAZY_FD" in the daemon's PID
 * namespace). The `offset` of these columns refers to the second file. Its pages are allocated when the daemon writes
 * them, independent of free space in a file system. A mapping of it allocates pages even when it is read; pread does
 * not. The `texts` bytes at `texts_at` are JSON: texts from the fabric's files that no attribute on the wire contains
 * (labels, systems).
 */
#ifndef SOFTIB_SHARED_FABRIC_H
#define SOFTIB_SHARED_FABRIC_H

#include <stdint.h>

#define SOFTIB_SHARED_FABRIC_VERSION 2
#define SOFTIB_EAGER 0
#define SOFTIB_LAZY 1

struct softib_shared_fabric {
    char magic[8];          /* "SOFTIBv" and a NUL */
    uint32_t version;       /* SOFTIB_SHARED_FABRIC_VERSION */
    uint32_t columns;       /* entries of the directory */
    uint64_t directory;     /* offset of the first entry */
    uint64_t size;          /* bytes of the file */
    uint64_t epoch;         /* number of changes of the configuration so far */
    uint32_t pid;           /* process of the daemon */
    uint32_t lazy_fd;       /* the daemon's descriptor of the second file */
    char name[64];          /* of the fabric */
    uint64_t lazy_size;     /* bytes of the second file */
    uint64_t texts_at;      /* offset of the texts */
    uint64_t texts;         /* length of the texts in bytes */
};

struct softib_column {
    char name[32];
    char dtype[8];
    char writer[16];        /* the writer while the fabric runs: "hardware", "mad" or "engine" */
    uint64_t offset;
    uint32_t ndim;
    uint32_t store;         /* SOFTIB_EAGER: in this file; SOFTIB_LAZY: in the second one */
    uint64_t shape[4];
};

#endif
