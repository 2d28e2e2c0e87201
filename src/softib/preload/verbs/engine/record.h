/*
 * SOFTIB_RECORD: posts and polls of the program are written to files in that folder, one per thread (softib run
 * --record). This header is the only declaration of their layout; softib.live.recording reads it into NumPy dtypes. The
 * normal path of a request is not affected: with the variable set, ops.c, cq.c and wr_builder.c return the recording
 * functions of abi/record.c instead of the plain ones.
 *
 * The time of a request is the start of its post call, the time of a completion the end of its poll call. So even with
 * concurrent threads, a thread that polled the n-th completion of a queue did so after all n existed, and its later
 * posts have later times.
 *
 * A file is a softib_record_head and softib_record_events until the first whose `type` is 0. Ticks
 * are the processor's counter. `compute` accumulates the thread's CPU time between calls of this
 * library, without the time between polls that returned nothing.
 */
#ifndef SOFTIB_VERBS_ENGINE_RECORD_H
#define SOFTIB_VERBS_ENGINE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define SOFTIB_RECORD_VERSION 2

/*
 * POST: a send request: qpn, peer, bytes, opcode (enum ibv_wr_opcode)
 * RECEIVED: the completion of a receive was polled: qpn, peer (of datagrams), bytes, opcode (enum ibv_wc_opcode)
 * SENT: the completion of a send request was polled: qpn, octets: number of complete requests of this QP
 * QP: a QP was created: qpn, opcode (enum ibv_qp_type)
 * BEGIN, END: a collective begins or ends: qpn is its number, bytes the size that the call states
 */
#define SOFTIB_EVENT_POST 1
#define SOFTIB_EVENT_RECEIVED 2
#define SOFTIB_EVENT_SENT 3
#define SOFTIB_EVENT_QP 4
#define SOFTIB_EVENT_BEGIN 5
#define SOFTIB_EVENT_END 6

struct softib_record_head {
    char magic[8];              /* "SOFTIBr" and a NUL */
    uint32_t version;           /* SOFTIB_RECORD_VERSION */
    uint32_t pid;
    uint32_t tid;
    uint32_t rank;              /* rank from the launcher; 0xFFFFFFFF: unknown */
    uint64_t ticks[2];          /* two moments by the counter */
    uint64_t ns[2];             /* the same moments by CLOCK_MONOTONIC */
    uint64_t lost;              /* events for which there was no room */
    uint64_t away;              /* ticks without running, before calls that post or begin something, except the first */
};

struct softib_record_event {
    uint64_t ticks;             /* start of the call; of completions: its end */
    uint64_t compute;           /* ticks computed so far */
    uint32_t qpn;
    uint32_t peer;              /* QPN at the other end */
    uint32_t octets;
    uint16_t opcode;
    uint16_t type;              /* SOFTIB_EVENT_* */
};

/* Whether this process records its calls. Set when the process joins the fabric. */
extern bool ve_recording;
void ve_record_begin(void);
/* Called in a forked child: record to new files. */
void ve_record_forget(void);
/* Call _enter at the start of a library call and _leave at its end. `acts`: the call posts or begins something, so the
 * program was not waiting for a message. `idle`: it polled and found no completion. */
void ve_record_enter(bool acts);
/* Call this when the program has taken completions: events recorded later have the current time. */
void ve_record_taken(void);
void ve_record_leave(bool idle);
/* Record one event between ve_record_enter and the end of the call. */
void ve_record(uint16_t type, uint16_t opcode, uint32_t qpn, uint32_t peer, uint32_t octets);

#endif
