/* Declarations shared by the files of fabric/. */
#ifndef SOFTIB_VERBS_FABRIC_INNER_H
#define SOFTIB_VERBS_FABRIC_INNER_H

#include "fabric.h"

#define SV_PATH_ROOM 4096

/* The cells of this process; NULL before sv_fabric_join. */
extern struct sv_cells *sv_fabric_cells;

/* devices.c: read the devices of `view`. 0, or -errno and one line in `why`. */
int sv_devices_read(const char *view, char *why, size_t room);

/* link.c: connect. -errno, or the socket and the fabric's files, which the caller owns. */
int sv_link_open(const char *path, const char *view, uint32_t *process, int files[SOFTIB_SERVER_FILES], char *why, size_t room);
/* Send one request with the descriptor `with` (-1: none). Returns 0, or -errno of the daemon or the
 * connection. */
int sv_link_ask(int socket, const struct softib_server_ask *ask, int with);

#endif
