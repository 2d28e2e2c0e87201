/* Asynchronous events: read from the context's socket, to which the daemon and peers write. */
#include "abi.h"
#include "../engine/completion/events.h"

#include <errno.h>
#include <search.h>
#include <sys/socket.h>

/* -- existing objects: an event of a destroyed object is stale -- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *enrolled;

static int by_address(const void *a, const void *b)
{
    return a < b ? -1 : a > b;
}

void va_enroll(void *object)
{
    pthread_mutex_lock(&lock);
    tsearch(object, &enrolled, by_address);
    pthread_mutex_unlock(&lock);
}

void va_dismiss(void *object)
{
    pthread_mutex_lock(&lock);
    tdelete(object, &enrolled, by_address);
    pthread_mutex_unlock(&lock);
}

enum subject { OF_CQ, OF_QP, OF_SRQ, OF_PORT, OF_NOTHING };

static enum subject subject_of(uint32_t type)
{
    switch (type) {
    case IBV_EVENT_CQ_ERR:
        return OF_CQ;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return OF_QP;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return OF_SRQ;
    case IBV_EVENT_WQ_FATAL:
        return OF_NOTHING;
    default:
        return OF_PORT;
    }
}

/* Set the object and count its unacknowledged event; false: the object is destroyed. */
static bool name(const struct softib_event *e, struct ibv_async_event *event)
{
    void *object = (void *)(uintptr_t)e->element; /* NULL or stale: not in the list */
    bool there = true;

    event->event_type = e->type;
    if (subject_of(e->type) == OF_PORT) {
        event->element.port_num = (int)e->portnum;
        return true;
    }
    pthread_mutex_lock(&lock);
    there = object && tfind(object, &enrolled, by_address);
    if (there && subject_of(e->type) == OF_CQ) {
        event->element.cq = object;
        ((struct va_cq *)object)->async_events++;
    } else if (there && subject_of(e->type) == OF_QP) {
        event->element.qp = object;
        ((struct ve_qp *)object)->events++;
    } else if (there && subject_of(e->type) == OF_SRQ) {
        event->element.srq = object;
        ((struct va_srq *)object)->events++;
    }
    pthread_mutex_unlock(&lock);
    return there;
}

VA_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct softib_event e;
    ssize_t got;

    do {
        got = recv(context->async_fd, &e, sizeof e, 0);
        if (got < 0)
            return -1;
        ve_events_read(&va_engine, va_context(context)->async);
    } while (got != sizeof e || !name(&e, event));
    return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
    pthread_mutex_lock(mutex);
    ++*completed;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(mutex);
}

VA_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;

    switch (subject_of(event->event_type)) {
    case OF_CQ:
        ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
        break;
    case OF_QP:
        ack(&qp->mutex, &qp->cond, &qp->events_completed);
        break;
    case OF_SRQ:
        ack(&srq->mutex, &srq->cond, &srq->events_completed);
        break;
    default:
        break;
    }
}
