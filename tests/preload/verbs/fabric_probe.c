/* What the tests need of preload/verbs/fabric beside its own functions: inline ones, and loops that are timed. */
#include <fcntl.h>
#include <time.h>

#include "internal.h"

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void probe_count(struct softib_cell *cell, unsigned direction, uint64_t packets, uint64_t dwords)
{
    sv_cell_count(cell, direction, packets, dwords);
}

void probe_count_shared(struct softib_cell *cell, unsigned direction, uint64_t packets, uint64_t dwords)
{
    sv_cell_count_shared(cell, direction, packets, dwords);
}

/* Seconds of a walk of each of `n` ways; `links` gets how many links they had in all. */
double probe_walk_many(const struct sv_shared_fabric *fabric, const struct sv_route_key *routes, uint32_t n, uint64_t *links)
{
    struct sv_path path;
    double begin = now();

    *links = 0;
    for (uint32_t i = 0; i < n; i++) {
        sv_path_walk(fabric, &routes[i], &path);
        *links += path.links;
    }
    return now() - begin;
}

/* Walks all ways into columns: what tests compare a whole fabric with. */
void probe_walk_all(const struct sv_shared_fabric *fabric, const struct sv_route_key *routes, uint32_t n, uint8_t *reason, uint32_t *dest,
                    uint16_t *links)
{
    struct sv_path path;

    for (uint32_t i = 0; i < n; i++) {
        reason[i] = (uint8_t)sv_path_walk(fabric, &routes[i], &path);
        dest[i] = path.dest;
        links[i] = path.links;
    }
}

/* Counts `rounds` times on a cell: one packet of `dwords` forward, one of 7 words back. */
void probe_count_loop(struct softib_cell *cell, uint64_t rounds, uint64_t dwords)
{
    for (uint64_t i = 0; i < rounds; i++) {
        sv_cell_count(cell, 0, 1, dwords);
        sv_cell_count(cell, 1, 1, 7);
    }
}

uint64_t probe_fabric_epoch(void)
{
    return sv_shared_fabric_epoch(&sv_shared_fabric);
}

/* Lanes of the fabric of `fabric`, whose traffic file is at `traffic`; 0 or -errno. */
int probe_link_clocks(const struct sv_shared_fabric *fabric, const char *traffic)
{
    static struct sv_cells *cells;
    char why[512];
    int error;

    if (cells)
        sv_cells_close(cells);
    cells = sv_fabric_cells = NULL;
    sv_shared_fabric = *fabric;
    error = sv_cells_open(&cells, open(traffic, O_RDWR | O_CLOEXEC), traffic, 1, why, sizeof why);
    sv_fabric_cells = cells;
    return error;
}
