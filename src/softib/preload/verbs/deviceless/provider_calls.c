/*
 * Functions that libibverbs exports only for its providers (libmlx5, libefa …): the symbol versions IBVERBS_PRIVATE_*,
 * whose number changes with these functions. This library replaces libibverbs, so programs that link to a provider, or
 * open one, need them. No provider has a device here: its registration is accepted and ignored, and functions that need
 * a kernel fail with ENOSYS.
 *
 * The symbols are unversioned: the loader accepts an unversioned symbol for any version, so one
 * library serves the providers of every rdma-core.
 */
#include "deviceless.h"

#include <errno.h>
#include <stdbool.h>

DL_EXPORT bool verbs_allow_disassociate_destroy;

#define EMPTY(name)                                                                                                          \
    void dl_##name(void) DL_EXPORTED_AS(name);                                                                               \
    void dl_##name(void)                                                                                                     \
    {                                                                                                                        \
    }
#define NO_POINTER(name)                                                                                                     \
    void *dl_##name(void) DL_EXPORTED_AS(name);                                                                              \
    void *dl_##name(void)                                                                                                    \
    {                                                                                                                        \
        errno = ENOSYS;                                                                                                      \
        return NULL;                                                                                                         \
    }
#define NO(name)                                                                                                             \
    int dl_##name(void) DL_EXPORTED_AS(name);                                                                                \
    int dl_##name(void)                                                                                                      \
    {                                                                                                                        \
        return errno = ENOSYS;                                                                                               \
    }

EMPTY(ibv_register_driver)
/* The name contains the number of IBVERBS_PRIVATE_*: 34, 57, 59, 64 and 65 until August 2026. */
#define REGISTER(n) EMPTY(verbs_register_driver_##n)
#define TEN(tens)                                                                                                            \
    REGISTER(tens##0) REGISTER(tens##1) REGISTER(tens##2) REGISTER(tens##3) REGISTER(tens##4) REGISTER(tens##5)              \
    REGISTER(tens##6) REGISTER(tens##7) REGISTER(tens##8) REGISTER(tens##9)
REGISTER(34)
TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
EMPTY(verbs_set_ops)
EMPTY(verbs_init_cq)
EMPTY(verbs_uninit_context)
EMPTY(__verbs_log)
EMPTY(ibv_dmabuf_heap_destroy)
EMPTY(ibv_dmabuf_heap_free)

NO_POINTER(_verbs_init_and_alloc_context)
NO_POINTER(verbs_open_device)
NO_POINTER(ibv_dmabuf_heap_alloc)
NO_POINTER(ibv_dmabuf_heap_cc_shared_init)

NO(__ioctl_final_num_attrs)
NO(execute_ioctl)
NO(ibv_read_ibdev_sysfs_file)
NO(ibv_get_fw_ver)
NO(ibv_cmd_advise_mr)
NO(ibv_cmd_alloc_dm)
NO(ibv_cmd_alloc_dmah)
NO(ibv_cmd_alloc_mw)
NO(ibv_cmd_alloc_pd)
NO(ibv_cmd_attach_mcast)
NO(ibv_cmd_close_xrcd)
NO(ibv_cmd_create_ah)
NO(ibv_cmd_create_comp_cntr)
NO(ibv_cmd_create_counters)
NO(ibv_cmd_create_cq)
NO(ibv_cmd_create_cq_ex)
NO(ibv_cmd_create_cq_ex2)
NO(ibv_cmd_create_flow)
NO(ibv_cmd_create_flow_action_esp)
NO(ibv_cmd_create_qp)
NO(ibv_cmd_create_qp_ex)
NO(ibv_cmd_create_qp_ex2)
NO(ibv_cmd_create_rwq_ind_table)
NO(ibv_cmd_create_srq)
NO(ibv_cmd_create_srq_ex)
NO(ibv_cmd_create_wq)
NO(ibv_cmd_dealloc_mw)
NO(ibv_cmd_dealloc_pd)
NO(ibv_cmd_dereg_mr)
NO(ibv_cmd_destroy_ah)
NO(ibv_cmd_destroy_comp_cntr)
NO(ibv_cmd_destroy_counters)
NO(ibv_cmd_destroy_cq)
NO(ibv_cmd_destroy_flow)
NO(ibv_cmd_destroy_flow_action)
NO(ibv_cmd_destroy_qp)
NO(ibv_cmd_destroy_rwq_ind_table)
NO(ibv_cmd_destroy_srq)
NO(ibv_cmd_destroy_wq)
NO(ibv_cmd_detach_mcast)
NO(ibv_cmd_export_dmabuf_fd)
NO(ibv_cmd_free_dm)
NO(ibv_cmd_free_dmah)
NO(ibv_cmd_get_context)
NO(ibv_cmd_inc_comp_cntr)
NO(ibv_cmd_inc_err_comp_cntr)
NO(ibv_cmd_modify_cq)
NO(ibv_cmd_modify_flow_action_esp)
NO(ibv_cmd_modify_qp)
NO(ibv_cmd_modify_qp_ex)
NO(ibv_cmd_modify_srq)
NO(ibv_cmd_modify_wq)
NO(ibv_cmd_open_qp)
NO(ibv_cmd_open_xrcd)
NO(ibv_cmd_poll_cq)
NO(ibv_cmd_post_recv)
NO(ibv_cmd_post_send)
NO(ibv_cmd_post_srq_recv)
NO(ibv_cmd_qp_attach_comp_cntr)
NO(ibv_cmd_query_comp_cntr_caps)
NO(ibv_cmd_query_context)
NO(ibv_cmd_query_device)
NO(ibv_cmd_query_device_any)
NO(ibv_cmd_query_device_ex)
NO(ibv_cmd_query_mr)
NO(ibv_cmd_query_port)
NO(ibv_cmd_query_port_speed)
NO(ibv_cmd_query_qp)
NO(ibv_cmd_query_srq)
NO(ibv_cmd_read_comp_cntr)
NO(ibv_cmd_read_counters)
NO(ibv_cmd_read_err_comp_cntr)
NO(ibv_cmd_reg_dm_mr)
NO(ibv_cmd_reg_dmabuf_mr)
NO(ibv_cmd_reg_mr)
NO(ibv_cmd_reg_mr_ex)
NO(ibv_cmd_req_notify_cq)
NO(ibv_cmd_rereg_mr)
NO(ibv_cmd_resize_cq)
NO(ibv_cmd_set_comp_cntr)
NO(ibv_cmd_set_err_comp_cntr)
