/*
 * Parts of mlx5's provider that programs use: variables that request huge pages, and one function
 * of libmlx5.
 *
 * Programs call mlx5dv_query_device() on any device with Mellanox's vendor ID: perftest since 24.07
 * queries out-of-order receive work requests before it creates an RC QP, and fails if the call
 * fails (mlx5dv_query_device(3)). softib's HCAs answer like one without optional features.
 * libmlx5's mlx5dv_is_supported() returns false for them, so no program takes them for mlx5
 * hardware.
 */
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The head of struct mlx5dv_context: later fields are valid only if their bit in comp_mask is set. */
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
 * MLX_QP_ALLOC_TYPE, MLX_CQ_ALLOC_TYPE, MLX_SRQ_ALLOC_TYPE of mlx5's provider (its README): HUGE
 * means huge pages or failure. Here objects are always in the fabric's file; if the system has no
 * huge pages, the call fails as mlx5's does.
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
