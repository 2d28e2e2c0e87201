/* The C library's functions, looked up once. */
#include "internal.h"

#include <dlfcn.h>

static struct real found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    /* dlsym returns data pointers. POSIX allows their use as function pointers; ISO C requires the
     * copy of their bytes. */
#define X(type, name, arguments) *(void **)(&found.name) = dlsym(RTLD_NEXT, #name);
    SOFTIB_REAL(X)
#undef X
}

const struct real *real(void)
{
    pthread_once(&once, find);
    return &found;
}
