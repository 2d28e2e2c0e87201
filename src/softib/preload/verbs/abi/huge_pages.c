/*
 * MLX_QP_ALLOC_TYPE, MLX_CQ_ALLOC_TYPE, MLX_SRQ_ALLOC_TYPE of mlx5's provider (its README): HUGE asks for huge pages or nothing.
 * Objects here lie in the fabric's file, whatever its pages are; where the system has no huge pages the answer is mlx5's.
 */
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

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
