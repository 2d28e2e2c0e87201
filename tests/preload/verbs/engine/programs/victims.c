/*
 * Programs that are killed with everything in their hands. Each line of stdin, "NUMBER AMOUNT", makes a child process of that
 * number that takes AMOUNT of numbers, keys, memberships and objects of many sizes, and is killed; then "dead PID STARTED"
 * is printed. "fork NUMBER CHILD AMOUNT" does so in a process that forks, whose child takes as much again as CHILD; both are
 * killed. "stay NUMBER TARGET": this process itself enters as NUMBER and keeps a hazard on TARGET; "go": lets it go.
 */
#include "hazards.h"
#include "key_table.h"
#include "locks.h"
#include "number_table.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void wake_socket(const struct vm_heap *w, int n)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    if (snprintf(at.sun_path, sizeof at.sun_path, "%.80s/wake-%u-%d", w->folder, w->process, n) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at))
        abort();
}

static void member(struct vm_heap *w, uint32_t qpn)
{
    struct softib_verbs *head = vm_head(w);
    struct softib_member *m = vm_members(w);
    uint32_t i = 0;

    vm_lock(w, &head->member_lock);
    while (i < head->member_high && m[i].qpn)
        i++;
    m[i].process = (uint16_t)w->process;
    m[i].qpn = qpn;
    if (i == head->member_high)
        head->member_high++;
    vm_unlock(&head->member_lock);
}

static void take(struct vm_heap *w, int amount)
{
    static const size_t sizes[] = { 64, 100, 4096, 65536, 200000 };
    uint32_t key;

    for (int i = 0; i < amount; i++) {
        size_t size = sizes[i % 5];
        uint64_t at = vm_alloc(w, size);
        struct softib_key *k = vm_key_take(w, &key);
        uint32_t qpn = at ? vm_number_take(w, at) : 0;
        char *octets = vm_at(w, at);

        for (size_t o = 0; at && o < size; o++)
            if (octets[o])
                exit(3); /* not zero: somebody else's */
        if (!k || !qpn)
            exit(4);
        memset(octets, 0xA5, size);
        vm_key_publish(k, key);
        if (i % 3 == 0)
            member(w, qpn);
    }
}

static int victim(const char *folder, uint32_t number, uint32_t child, int amount, int ready_fd)
{
    static struct vm_heap w;

    if (vm_open(&w, folder, -1, number))
        return 1;
    take(&w, amount);
    if (child && !fork()) {
        vm_renumber(&w, child);
        take(&w, amount);
        if (write(ready_fd, "", 1) != 1)
            return 1;
        kill(getpid(), SIGKILL);
    }
    if (child)
        wait(NULL);
    wake_socket(&w, 1);
    wake_socket(&w, 2);
    vm_lock(&w, &vm_head(&w)->member_lock); /* dies with a lock held, too */
    if (write(ready_fd, "", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static void kill_one(const char *folder, uint32_t number, uint32_t child, int amount)
{
    int ready[2], status;
    char octet;
    pid_t pid;

    if (pipe(ready))
        abort();
    pid = fork();
    if (!pid)
        _exit(victim(folder, number, child, amount, ready[1]));
    close(ready[1]);
    if (read(ready[0], &octet, 1) != 1 || (child && read(ready[0], &octet, 1) != 1)) {
        waitpid(pid, &status, 0);
        printf("failed %d\n", WEXITSTATUS(status));
        exit(1);
    }
    close(ready[0]);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("dead %d 0\n", pid);
}

int main(int argc, char **argv)
{
    static struct vm_heap heap;
    uint64_t *hazard = NULL;
    char line[100];
    unsigned number, other, amount;

    while (argc == 2 && fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "stay %u %u", &number, &other) == 2) {
            if (vm_open(&heap, argv[1], -1, number))
                return 1;
            hazard = vm_hazard(&heap, other, false);
            puts("stays");
        } else if (!strncmp(line, "go", 2) && hazard) {
            vm_hazard_end(hazard);
            puts("gone");
        } else if (sscanf(line, "fork %u %u %u", &number, &other, &amount) == 3) {
            kill_one(argv[1], number, other, (int)amount);
        } else if (sscanf(line, "%u %u", &number, &other) == 2) {
            kill_one(argv[1], number, 0, (int)other);
        }
        fflush(stdout);
    }
    return 0;
}
