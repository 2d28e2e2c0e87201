/* Alternate paths (IBA 17.2.8). */
#ifndef SOFTIB_VERBS_ENGINE_MIGRATE_H
#define SOFTIB_VERBS_ENGINE_MIGRATE_H

#include "qp.h"

/* Migrate `s`, which is locked. */
void ve_move(struct ve_engine *e, struct softib_qp *s);
/* Apply a migration of the shared part to `q`. `q->lock` is held. */
void ve_adopt(struct ve_qp *q);
/* Migrate when retries are exhausted; false: no armed alternate path. `q->lock` is held. */
bool ve_migrate(struct ve_qp *q);
/* Handle migration when a request of `q` reaches `peer`, which is locked. False: the request is
 * dropped. */
bool ve_migration(struct ve_qp *q, struct softib_qp *peer);

#endif
