/* What the parts of fabric/ share. */
#ifndef SOFTIB_VERBS_FABRIC_INNER_H
#define SOFTIB_VERBS_FABRIC_INNER_H

#include "fabric.h"

#define SV_PATH_ROOM 4096

/* The cells of this process; NULL before sv_fabric_join. */
extern struct sv_cells *sv_fabric_cells;

/* devices.c: reads what `view` shows. 0, or -errno with a line in `why`. */
int sv_devices_read(const char *view, char *why, size_t room);

/* link.c: the connection. -errno, or the socket and the fabric's files, which are the caller's. */
int sv_link_open(const char *path, const char *view, uint32_t *process, int files[SOFTIB_SERVER_FILES], char *why, size_t room);
/* One request; `with` (a descriptor, or -1) goes with it. Returns -errno of the daemon or of the connection. */
int sv_link_ask(int socket, const struct softib_server_ask *ask, int with);

#endif
