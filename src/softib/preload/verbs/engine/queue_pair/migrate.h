/* Alternate paths (IBA 17.2.8). */
#ifndef SOFTIB_VERBS_ENGINE_MIGRATE_H
#define SOFTIB_VERBS_ENGINE_MIGRATE_H

#include "qp.h"

/* `s` migrates; it is locked. */
void ve_move(struct ve_engine *e, struct softib_qp *s);
/* What moved in the shared part is taken over. `q->lock` is held. */
void ve_adopt(struct ve_qp *q);
/* Retries are spent: false where there is no armed alternate path. `q->lock` is held. */
bool ve_migrate(struct ve_qp *q);
/* A request of `q` reaches `peer`, which is locked, and one of them has to do with migration. False: it is dropped. */
bool ve_migration(struct ve_qp *q, struct softib_qp *peer);

#endif
