/*
 * Parts of mlx5's provider that programs use: variables that ask for huge pages, and one function of libmlx5.
 *
 * mlx5dv_query_device() is what programs call on any device with Mellanox's vendor ID: perftest since 24.07 asks for
 * receive work requests out of order before it makes an RC QP, and fails if the call fails (mlx5dv_query_device(3)).
 * These HCAs answer like one without optional features. mlx5dv_is_supported(), libmlx5's, says false for them, so no
 * one takes them for mlx5 hardware.
 */
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The head of struct mlx5dv_context: what follows it is valid only with its bit of comp_mask. */
struct dv_context {
    uint8_t version;
    uint64_t flags;
    uint64_t comp_mask;
};

int mlx5dv_query_device(struct ibv_context *context, struct dv_context *out);

VA_EXPORT int mlx5dv_query_device(struct ibv_context *context, struct dv_context *out)
{
    (void)context;
    out->version = 0;
    out->flags = 0;
    out->comp_mask = 0;
    return 0;
}

/*
 * MLX_QP_ALLOC_TYPE, MLX_CQ_ALLOC_TYPE, MLX_SRQ_ALLOC_TYPE of mlx5's provider (its README): HUGE asks for huge pages
 * or nothing. Objects here are in the fabric's file regardless of its pages; if the system has no huge pages the
 * result is that of mlx5.
 */
bool va_pages_there(const char *variable)
{
    const char *type = getenv(variable);
    char text[32] = "0";
    FILE *file;

    if (!type || strcasecmp(type, "HUGE"))
        return true;
    file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = 0;
        fclose(file);
    }
    return atol(text) > 0;
}
