/* The C library's own calls, found once. */
#include "internal.h"

#include <dlfcn.h>

static struct real found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    /* dlsym gives data pointers; POSIX lets them be functions, and ISO C wants the detour over their bytes. */
#define X(type, name, arguments) *(void **)(&found.name) = dlsym(RTLD_NEXT, #name);
    SOFTIB_REAL(X)
#undef X
}

const struct real *real(void)
{
    pthread_once(&once, find);
    return &found;
}
