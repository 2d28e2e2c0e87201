/* The ioctls of a umad device: agents come and go, and the header grows its P_Key index. */
#include "file.h"

#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <string.h>

enum { OUI_MAX = 0xffffff };

static int add_agent(struct file *file, struct softib_umad_ask *question, uint32_t *id)
{
    struct softib_umad_reply told;

    question->op = SOFTIB_UMAD_REGISTER;
    question->handle = file->handle;
    pthread_mutex_lock(&file->changing);
    int error = -ask(question, &told, false);
    if (!error && told.value < SOFTIB_UMAD_AGENTS) {
        file->agents[told.value] = (struct agent){ true, question->rmpp_version && !question->user_rmpp };
        *id = told.value;
        file->spoken = true;
    } else if (!error)
        error = EIO;
    pthread_mutex_unlock(&file->changing);
    return error ? fail(error) : 0;
}

static int register_agent(struct file *file, struct ib_user_mad_reg_req *asked)
{
    struct softib_umad_ask question = {
        .qpn = asked->qpn, .mgmt_class = asked->mgmt_class, .mgmt_class_version = asked->mgmt_class_version,
        .rmpp_version = asked->rmpp_version,
        .oui = (uint32_t)asked->oui[0] << 16 | (uint32_t)asked->oui[1] << 8 | asked->oui[2],
    };
    uint32_t id;

    memcpy(question.method_mask, asked->method_mask, sizeof question.method_mask);
    if (add_agent(file, &question, &id))
        return -1;
    asked->id = id;
    return 0;
}

static int register_agent2(struct file *file, struct ib_user_mad_reg_req2 *asked)
{
    if (asked->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP) {
        asked->flags = IB_USER_MAD_REG_FLAGS_CAP; /* so that the program learns what there is */
        return fail(EINVAL);
    }
    if (asked->qpn > 1 || asked->oui > OUI_MAX)
        return fail(EINVAL);
    struct softib_umad_ask question = {
        .qpn = (uint8_t)asked->qpn, .mgmt_class = asked->mgmt_class, .mgmt_class_version = asked->mgmt_class_version,
        .rmpp_version = asked->rmpp_version, .oui = asked->oui,
        .user_rmpp = asked->flags & IB_USER_MAD_USER_RMPP ? 1 : 0,
    };
    uint32_t id;

    memcpy(question.method_mask, asked->method_mask, sizeof question.method_mask);
    if (add_agent(file, &question, &id))
        return -1;
    asked->id = id;
    return 0;
}

static int unregister_agent(struct file *file, uint32_t id)
{
    struct softib_umad_ask question = { .op = SOFTIB_UMAD_UNREGISTER, .handle = file->handle, .agent = id };
    struct softib_umad_reply told;

    if (id >= SOFTIB_UMAD_AGENTS || !file->agents[id].used)
        return fail(EINVAL);
    pthread_mutex_lock(&file->changing);
    file->agents[id].used = false;
    int error = -ask(&question, &told, false);
    pthread_mutex_unlock(&file->changing);
    return error ? fail(error) : 0;
}

int file_ioctl(struct file *file, unsigned long request, void *argument)
{
    if (file->kind != 'u')
        return fail(ENOTTY);
    if (!argument && (uint32_t)request != IB_USER_MAD_ENABLE_PKEY)
        return fail(EFAULT);
    switch ((uint32_t)request) {
    case IB_USER_MAD_REGISTER_AGENT:
        return register_agent(file, argument);
    case IB_USER_MAD_REGISTER_AGENT2:
        return register_agent2(file, argument);
    case IB_USER_MAD_UNREGISTER_AGENT:
        return unregister_agent(file, *(uint32_t *)argument);
    case IB_USER_MAD_ENABLE_PKEY:
        if (file->spoken)
            return fail(EINVAL); /* reads may be waiting in the old layout */
        file->head = SOFTIB_UMAD_HEAD;
        return 0;
    }
    return fail(ENOTTY);
}
