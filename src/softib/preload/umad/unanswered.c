/*
 * Unanswered requests, which are returned as timed out when the daemon dies. A kernel discards them when a device is
 * removed; a program that waits for each answer (OpenSM's sweep) would then wait forever.
 */
#include "file.h"
#include "mad_layout.h"
#include "management.h" /* softib/iba/constants.py */

#include <stdlib.h>
#include <string.h>

enum { ROWS = 1024, PROBES = 8 }; /* enough: OpenSM has 4 outstanding requests (max_wire_smps); requests without a row
                                   * are lost, as in the kernel */

struct unanswered {
    bool waits;
    struct softib_umad_head head;
    uint8_t mad[MAD_HEADER];
};

static bool is_request(const uint8_t *mad)
{
    return !(mad[METHOD_AT] & RESPONSE_BIT) && mad[METHOD_AT] != TRAP_REPRESS;
}

/* Return the row of this agent's request with this TID (its lower half, since the driver owns the upper half);
 * otherwise a free row near its hash, or NULL. */
static struct unanswered *row_of(struct file *file, uint32_t agent, const uint8_t *mad)
{
    struct unanswered *free_row = NULL;
    uint32_t tid;

    memcpy(&tid, mad + TID_LOW_AT, sizeof tid);
    uint32_t at = (tid ^ agent) * 2654435761u >> 16; /* Knuth's multiplicative hash */
    for (unsigned i = 0; i < PROBES; i++) {
        struct unanswered *row = &file->unanswered[(at + i) % ROWS];
        if (!row->waits)
            free_row = free_row ? free_row : row;
        else if (row->head.id == agent && !memcmp(row->mad + TID_LOW_AT, &tid, sizeof tid))
            return row;
    }
    return free_row;
}

void unanswered_add(struct file *file, const struct softib_umad_head *head, const uint8_t *mad)
{
    if (!head->timeout_ms || !is_request(mad))
        return;
    pthread_mutex_lock(&file->counting);
    if (!file->unanswered)
        file->unanswered = calloc(ROWS, sizeof *file->unanswered);
    struct unanswered *row = file->unanswered ? row_of(file, head->id, mad) : NULL;
    if (row) {
        row->waits = true;
        row->head = *head;
        memcpy(row->mad, mad, MAD_HEADER);
    }
    pthread_mutex_unlock(&file->counting);
}

void unanswered_done(struct file *file, const struct softib_umad_head *head, const uint8_t *mad)
{
    if (!head->status && is_request(mad))
        return;
    pthread_mutex_lock(&file->counting);
    struct unanswered *row = file->unanswered ? row_of(file, head->id, mad) : NULL;
    if (row)
        row->waits = false;
    pthread_mutex_unlock(&file->counting);
}

bool unanswered_next(struct file *file, struct message *m)
{
    bool found = false;

    pthread_mutex_lock(&file->counting);
    for (unsigned i = 0; file->unanswered && !found && i < ROWS; i++) {
        struct unanswered *row = &file->unanswered[i];
        if (!row->waits)
            continue;
        row->waits = false;
        m->head = row->head;
        m->head.status = ETIMEDOUT;
        memcpy(m->mad, row->mad, MAD_HEADER);
        found = true;
    }
    pthread_mutex_unlock(&file->counting);
    return found;
}

void unanswered_forget(struct file *file)
{
    if (file->unanswered)
        memset(file->unanswered, 0, ROWS * sizeof *file->unanswered);
}
