/* The ids of this process, by handle. Entries are reused at once, but handles as late as possible, so that a call with
 * the handle of a destroyed id fails instead of using another id. */
#include "cm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, BLOCKS = 256, BUCKETS = 4096 }; /* librdmacm keeps handles below 65536 */

static struct cm_id *blocks[BLOCKS];
static struct cm_id *by_number[BUCKETS];
static uint32_t used, cursor, last_number;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL); /* another thread of the parent may have held the lock at the fork */
}

static void at_first(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void cm_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, at_first);
    pthread_mutex_lock(&lock);
}

void cm_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Return the entry of a handle; `handle` is less than `used`. */
static struct cm_id *place(uint32_t handle)
{
    return &blocks[handle / BLOCK][handle % BLOCK];
}

static struct cm_id *vacant(void)
{
    for (uint32_t i = 0; i < used; i++) {
        struct cm_id *id = place(cursor = cursor + 1 < used ? cursor + 1 : 0);
        if (!id->channel)
            return id;
    }
    if (used == BLOCK * BLOCKS || !(blocks[used / BLOCK] = calloc(BLOCK, sizeof(struct cm_id))))
        return NULL;
    cursor = used;
    used += BLOCK;
    return place(cursor);
}

struct cm_id *cm_create(struct cm_channel *channel, uint32_t number)
{
    struct cm_id *id = vacant();

    if (!id)
        return NULL;
    memset(id, 0, sizeof *id);
    id->handle = cursor;
    id->channel = channel;
    id->known = number != 0;
    id->number = number ? number : (last_number = (last_number + 1) % SOFTIB_CM_CHILD);
    id->next = by_number[id->number % BUCKETS];
    by_number[id->number % BUCKETS] = id;
    return id;
}

struct cm_id *cm_find(struct cm_channel *channel, uint32_t handle)
{
    struct cm_id *id = handle < used ? place(handle) : NULL;

    return id && id->channel == channel && !id->parent ? id : NULL;
}

struct cm_id *cm_find_membership(struct cm_channel *channel, uint32_t handle)
{
    struct cm_id *id = handle < used ? place(handle) : NULL;

    return id && id->channel == channel && id->parent ? id : NULL;
}

struct cm_id *cm_by_number(uint32_t number)
{
    struct cm_id *id = by_number[number % BUCKETS];

    while (id && id->number != number)
        id = id->next;
    return id;
}

struct cm_id *cm_next_of(struct cm_channel *channel, struct cm_id *after)
{
    for (uint32_t i = after ? after->handle + 1 : 0; i < used; i++)
        if (place(i)->channel == channel)
            return place(i);
    return NULL;
}

void cm_free(struct cm_id *id)
{
    struct cm_id **at = &by_number[id->number % BUCKETS];

    if (id->parent)
        id->parent->memberships--;
    for (uint32_t i = 0; id->memberships && i < used; i++)
        if (place(i)->channel && place(i)->parent == id)
            cm_free(place(i));
    while (*at && *at != id)
        at = &(*at)->next;
    if (*at)
        *at = id->next;
    id->channel = NULL;
    id->parent = NULL;
}
