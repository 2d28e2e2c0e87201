/* What is not there says EOPNOTSUPP, and changes nothing: moderation of CQs (ibv_modify_cq(3)), ECE (ibv_query_ece(3)). */
#include "rig.h"

int main(void)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_RC);
    struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { .cq_count = 4, .cq_period = 10 } };
    struct ibv_ece none = { 0 }, some = { .vendor_id = 0x02c9, .options = 1 }, strange = { .comp_mask = 1 };
    struct ibv_device_attr_ex attr;

    MUST(ibv_modify_cq(cq, &moderate) == EOPNOTSUPP);
    MUST(!ibv_query_device_ex(context, NULL, &attr) && !attr.cq_mod_caps.max_cq_count && !attr.cq_mod_caps.max_cq_period);
    MUST(ibv_query_ece(qp, &some) == EOPNOTSUPP && ibv_set_ece(qp, &some) == EOPNOTSUPP);
    MUST(!ibv_set_ece(qp, &none) && ibv_set_ece(qp, &strange) == EINVAL); /* vendor 0: none are wanted */
    MUST(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
    puts("ok");
    return 0;
}
