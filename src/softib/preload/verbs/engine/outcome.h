/* The outcome of a request. */
#ifndef SOFTIB_VERBS_ENGINE_OUTCOME_H
#define SOFTIB_VERBS_ENGINE_OUTCOME_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum ve_wait { VE_NONE, VE_RNR, VE_LOST };

struct ve_outcome {
    enum ve_wait wait;
    enum ibv_wc_status status;
    uint32_t byte_len;
    uint8_t rnr_timer;              /* VE_RNR: the responder's timer code */
    bool corrupted;                   /* VE_LOST because of a bit error: the request is resent when the timer expires */
};

static inline struct ve_outcome ve_done(enum ibv_wc_status status)
{
    return (struct ve_outcome){ .status = status };
}

#endif
