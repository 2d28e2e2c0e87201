/* Functions of libibverbs that need neither a device nor a fabric. Their prototypes are of headers that libibverbs keeps to itself. */
#ifndef SOFTIB_VERBS_DEVICELESS_H
#define SOFTIB_VERBS_DEVICELESS_H

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#define DL_EXPORT __attribute__((visibility("default")))
/* A function under libibverbs' name, whether or not the headers at hand declare it. */
#define DL_EXPORTED_AS(name) __asm__(#name) DL_EXPORT

#endif
