/* Map the file `shared_fabric` and look up its columns by name. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map.h"

#define MAGIC "SOFTIBv"

static uint64_t element_octets(const char *dtype)
{
    return (uint64_t)(dtype[2] - '0');
}

/* Return the entry `name`, if it has the type and store that this library was compiled for;
 * otherwise NULL and one line in `why`. */
static const struct softib_column *column(const struct softib_shared_fabric *head, const char *name, const char *dtype,
                                          char *why, size_t room)
{
    const struct softib_column *entries = (const void *)((const char *)head + head->directory);

    for (uint32_t i = 0; i < head->columns; i++) {
        const struct softib_column *c = &entries[i];
        uint64_t octets = element_octets(dtype);

        if (strncmp(c->name, name, sizeof c->name))
            continue;
        if (strncmp(c->dtype, dtype, sizeof c->dtype) || c->ndim < 1 || c->ndim > 4 ||
            c->store != SOFTIB_EAGER) {
            snprintf(why, room, "column %s of the shared fabric is %.8s in store %u, this library expects %s in store %u", name,
                     c->dtype, c->store, dtype, SOFTIB_EAGER);
            return NULL;
        }
        for (uint32_t d = 0; d < c->ndim; d++)
            if (c->shape[d] && octets > head->size / c->shape[d])
                octets = head->size + 1;
            else
                octets *= c->shape[d];
        if (c->offset > head->size || octets > head->size - c->offset) {
            snprintf(why, room, "column %s of the shared fabric is beyond its end", name);
            return NULL;
        }
        return c;
    }
    snprintf(why, room, "the shared fabric has no column %s", name);
    return NULL;
}

/* Check the further dimensions that the walk uses. */
static bool shaped(struct sv_shared_fabric *b, const char *name, const struct softib_column *c)
{
    static const struct { const char *name; uint64_t width; } fixed[] = {
        { "node_desc", 64 }, { "port_info", 64 }, { "switch_info", 64 }, { "sl2vl", 8 },
        { "port_mlnx_speed", 3 }, { "port_loss", 2 },
    };

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(name, fixed[i].name))
            return c->ndim == 2 && c->shape[1] == fixed[i].width;
    if (!strcmp(name, "lft")) {
        b->lft_cap = c->shape[1];
        return c->ndim == 2;
    }
    if (!strcmp(name, "vl_arb"))
        return c->ndim == 3 && c->shape[1] == 4 && c->shape[2] == 64;
    if (!strcmp(name, "mft")) {
        b->mlids = c->shape[1];
        b->mft_positions = c->shape[2];
        return c->ndim == 3;
    }
    return c->ndim == 1;
}

/* Return the lazy column `name` of the switches; an empty one if the fabric has no such column with this shape. */
static struct sv_lazy_column lazy_column(const struct sv_shared_fabric *b, const char *name, const char *dtype, uint32_t ndim)
{
    const struct softib_column *entries = (const void *)((const char *)b->head + b->head->directory);

    for (uint32_t i = 0; i < b->head->columns; i++) {
        const struct softib_column *c = &entries[i];

        if (strncmp(c->name, name, sizeof c->name) || strncmp(c->dtype, dtype, sizeof c->dtype) || c->store != SOFTIB_LAZY ||
            c->ndim != ndim || c->shape[0] != b->switches)
            continue;
        return (struct sv_lazy_column){ c->offset, element_octets(dtype) * c->shape[1] * (ndim > 2 ? c->shape[2] : 1) };
    }
    return (struct sv_lazy_column){ 0, 0 };
}

static int find_columns(struct sv_shared_fabric *b, char *why, size_t room)
{
    uint64_t nodes = 0, ports = 0, cables = 0, switches = 0, pkeys = 0, guids = 0, sl2vl_rows = 0;
    const struct softib_column *c;

#define X(type, field, dtype, rows) \
    if (!(c = column(b->head, #field, dtype, why, room))) \
        return -EPROTO; \
    if (!shaped(b, #field, c) || (rows && c->shape[0] != rows)) { \
        snprintf(why, room, "column %s of the shared fabric has an unknown shape", #field); \
        return -EPROTO; \
    } \
    rows = c->shape[0]; \
    b->field = (const void *)((const char *)b->head + c->offset);
    SV_COLUMNS(X)
#undef X
    b->nodes = nodes;
    b->ports = ports;
    b->cables = cables;
    b->switches = switches;
    b->pkeys_n = pkeys;
    b->guids_n = guids;
    b->sl2vl_rows = sl2vl_rows;
    b->ar_info = lazy_column(b, "ar_info", "|u1", 2);
    b->ar_lft = lazy_column(b, "ar_lft", "<u2", 2);
    b->ar_group = lazy_column(b, "ar_group", "<u8", 3);
    return 0;
}

static int check_head(const struct softib_shared_fabric *head, uint64_t size, const char *path, char *why, size_t room)
{
    if (size < sizeof *head || memcmp(head->magic, MAGIC, sizeof head->magic)) {
        snprintf(why, room, "%s is not a shared fabric", path);
        return -EPROTO;
    }
    if (head->version != SOFTIB_SHARED_FABRIC_VERSION) {
        snprintf(why, room, "%s has version %u, this library reads version %u; use the library of the softib that "
                 "runs the fabric", path, head->version, SOFTIB_SHARED_FABRIC_VERSION);
        return -EPROTO;
    }
    if (head->size != size || head->directory > size ||
        head->columns > (size - head->directory) / sizeof(struct softib_column)) {
        snprintf(why, room, "%s is truncated", path);
        return -EPROTO;
    }
    return 0;
}

int sv_shared_fabric_map(struct sv_shared_fabric *fabric, int fd, int lazy, const char *path, char *why, size_t room)
{
    struct stat info;
    int error;

    memset(fabric, 0, sizeof *fabric);
    if (fstat(fd, &info)) {
        error = errno;
        snprintf(why, room, "%s: %s", path, strerror(error));
        return -error;
    }
    uint64_t size = (uint64_t)info.st_size;
    void *at = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (at == MAP_FAILED) {
        snprintf(why, room, "%s: cannot be mapped: %s", path, size ? strerror(errno) : "it is empty");
        return size ? -errno : -EPROTO;
    }
    error = check_head(at, size, path, why, room);
    if (!error) {
        fabric->head = at;
        error = find_columns(fabric, why, room);
    }
    fabric->lazy_fd = lazy;
    fabric->lazy_inode = fstat(lazy, &info) ? 0 : info.st_ino;
    if (error) {
        munmap(at, size);
        memset(fabric, 0, sizeof *fabric);
    }
    return error;
}

void sv_shared_fabric_unmap(struct sv_shared_fabric *fabric)
{
    if (fabric->head)
        munmap((void *)(uintptr_t)fabric->head, fabric->head->size);
    memset(fabric, 0, sizeof *fabric);
}
