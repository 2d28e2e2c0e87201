/* The ioctls of a umad device: register and unregister agents, and add the P_Key index to the
 * header. */
#include "file.h"

#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <string.h>

enum { OUI_MAX = 0xffffff };

static int add_agent(struct file *file, struct softib_umad_ask *question, uint32_t *id)
{
    struct softib_umad_reply reply;

    question->op = SOFTIB_UMAD_REGISTER;
    question->handle = file->handle;
    pthread_mutex_lock(&file->changing);
    int error = -ask(question, &reply, false);
    if (!error && reply.value < SOFTIB_UMAD_AGENTS) {
        file->agents[reply.value] = (struct agent){ true, question->rmpp_version && !question->user_rmpp };
        *id = reply.value;
        file->spoken = true;
    } else if (!error)
        error = EIO;
    pthread_mutex_unlock(&file->changing);
    return error ? fail(error) : 0;
}

static int register_agent(struct file *file, struct ib_user_mad_reg_req *wanted)
{
    struct softib_umad_ask question = {
        .qpn = wanted->qpn, .mgmt_class = wanted->mgmt_class, .mgmt_class_version = wanted->mgmt_class_version,
        .rmpp_version = wanted->rmpp_version,
        .oui = (uint32_t)wanted->oui[0] << 16 | (uint32_t)wanted->oui[1] << 8 | wanted->oui[2],
    };
    uint32_t id;

    memcpy(question.method_mask, wanted->method_mask, sizeof question.method_mask);
    if (add_agent(file, &question, &id))
        return -1;
    wanted->id = id;
    return 0;
}

static int register_agent2(struct file *file, struct ib_user_mad_reg_req2 *wanted)
{
    if (wanted->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP) {
        wanted->flags = IB_USER_MAD_REG_FLAGS_CAP; /* so that the program learns which flags are supported */
        return fail(EINVAL);
    }
    if (wanted->qpn > 1 || wanted->oui > OUI_MAX)
        return fail(EINVAL);
    struct softib_umad_ask question = {
        .qpn = (uint8_t)wanted->qpn, .mgmt_class = wanted->mgmt_class, .mgmt_class_version = wanted->mgmt_class_version,
        .rmpp_version = wanted->rmpp_version, .oui = wanted->oui,
        .user_rmpp = wanted->flags & IB_USER_MAD_USER_RMPP ? 1 : 0,
    };
    uint32_t id;

    memcpy(question.method_mask, wanted->method_mask, sizeof question.method_mask);
    if (add_agent(file, &question, &id))
        return -1;
    wanted->id = id;
    return 0;
}

static int unregister_agent(struct file *file, uint32_t id)
{
    struct softib_umad_ask question = { .op = SOFTIB_UMAD_UNREGISTER, .handle = file->handle, .agent = id };
    struct softib_umad_reply reply;

    if (id >= SOFTIB_UMAD_AGENTS || !file->agents[id].used)
        return fail(EINVAL);
    pthread_mutex_lock(&file->changing);
    file->agents[id].used = false;
    int error = -ask(&question, &reply, false);
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
            return fail(EINVAL); /* reads with the old layout may be waiting */
        file->head = SOFTIB_UMAD_HEAD;
        return 0;
    }
    return fail(ENOTTY);
}
