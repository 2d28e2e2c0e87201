/* Functions of libibverbs that need neither a device nor a fabric. Their prototypes are in
 * libibverbs' private headers. */
#ifndef SOFTIB_VERBS_DEVICELESS_H
#define SOFTIB_VERBS_DEVICELESS_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#define DL_EXPORT __attribute__((visibility("default")))
/* A function with libibverbs' name, whether or not the installed headers declare it. */
#define DL_EXPORTED_AS(name) __asm__(#name) DL_EXPORT

#endif
