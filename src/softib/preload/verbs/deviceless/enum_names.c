/* Text for enumerators, the same as libibverbs': programs print it, and scripts search for it. */
#include "deviceless.h"

#define TEXT(table, value) text_of(table, sizeof table / sizeof *table, value)

static const char *text_of(const char *const *table, unsigned n, int value)
{
    return value >= 0 && (unsigned)value < n && table[value] ? table[value] : "unknown";
}

DL_EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
    static const char *const texts[] = {
        [1] = "InfiniBand channel adapter", [2] = "InfiniBand switch", [3] = "InfiniBand router", [4] = "iWARP NIC",
        [5] = "usNIC", [6] = "usNIC UDP", [7] = "unspecified",
    };

    return TEXT(texts, (int)type);
}

DL_EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const texts[] = { "no state change (NOP)", "down", "init", "armed", "active", "active defer" };

    return TEXT(texts, (int)state);
}

DL_EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    static const char *const texts[] = {
        "CQ error", "local work queue catastrophic error", "invalid request local work queue error",
        "local access violation work queue error", "communication established", "send queue drained", "path migrated",
        "path migration request error", "local catastrophic error", "port active", "port error", "LID change",
        "P_Key change", "SM change", "SRQ catastrophic error", "SRQ limit reached", "last WQE reached",
        "client reregistration", "GID table change", "WQ fatal", "Device link speed change",
    };

    return TEXT(texts, (int)event);
}

DL_EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const texts[] = {
        "success", "local length error", "local QP operation error", "local EE context operation error",
        "local protection error", "Work Request Flushed Error", "memory management operation error", "bad response error",
        "local access error", "remote invalid request error", "remote access error", "remote operation error",
        "transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
        "remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
        "fatal error", "response timeout error", "general error", "TM error", "TM software rendezvous",
    };

    return TEXT(texts, (int)status);
}

/* rdma-core has exported this privately since version 53. */
const char *dl_wr_opcode_str(int opcode) DL_EXPORTED_AS(ibv_wr_opcode_str);

const char *dl_wr_opcode_str(int opcode)
{
    static const char *const texts[] = {
        "rdma-write", "rdma-write-with-imm", "send", "send-with-imm", "rdma-read", "atomic-cmp-and-swp",
        "atomic-fetch-and-add", "local-inv", "bind-mw", "send-with-inv", "tso", "driver1", [14] = "flush", "atomic-write",
    };

    return TEXT(texts, opcode);
}
