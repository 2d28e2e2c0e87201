/*
 * The one function of libmlx5 that programs call on any device with Mellanox's vendor ID: perftest since 24.07 asks for receive work
 * requests out of order before it makes an RC QP, and gives up where the call fails (mlx5dv_query_device(3)). These HCAs answer as one that
 * has nothing optional. mlx5dv_is_supported(), libmlx5's, says false for them, so nobody takes them for mlx5 hardware.
 */
#include "abi.h"

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
