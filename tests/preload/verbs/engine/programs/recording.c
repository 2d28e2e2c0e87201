/* Threads and a forked child record at once (engine/record.c): each its own file, every event, in its order. What is in the files is read by the test. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/record.h"

#define THREADS 4

static unsigned events;

static void *posts(void *number)
{
    for (unsigned i = 0; i < events; i++) {
        ve_record_enter(true);
        ve_record(SOFTIB_EVENT_POST, (uint16_t)(i & 7), (uint32_t)(uintptr_t)number, i, 64);
        ve_record_leave(i % 3 == 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    pid_t child;
    int status;

    if (argc != 2)
        return 2;
    events = (unsigned)atoi(argv[1]);
    ve_record_begin();
    if (!ve_recording)
        return 3;
    for (uintptr_t t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, posts, (void *)(t + 1));
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    posts((void *)(uintptr_t)(THREADS + 1));
    child = fork();
    if (!child) {
        ve_record_forget();
        posts((void *)(uintptr_t)(THREADS + 2));
        exit(0);
    }
    if (waitpid(child, &status, 0) != child || status)
        return 4;
    puts("ok");
    return 0;
}
