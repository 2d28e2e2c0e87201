/*
 * A process is identified by the inode of its pidfd, which is unique for the uptime of the system (pidfs, Linux 6.9),
 * so a reused pid is detected. On older systems all pidfds have the same inode: only the pid is checked, and the daemon
 * clears `alive` when a process closes its connection.
 */
#include "identity.h"
#include "libc_calls.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIDFS 0x50494446 /* PID_FS_MAGIC of linux/magic.h, which older headers lack */

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static uint64_t inode_of(int pidfd)
{
    struct statfs system;
    struct stat info;

    return !fstatfs(pidfd, &system) && system.f_type == PIDFS && !fstat(pidfd, &info) ? info.st_ino : 0;
}

static uint64_t inode_at(const char *path)
{
    struct stat info;

    return stat(path, &info) ? 0 : info.st_ino;
}

static uint32_t forks;

static void in_child(void)
{
    forks++;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

uint64_t vm_self(void)
{
    return (uint64_t)forks << 32 | (uint32_t)getpid();
}

uint64_t vm_pid_ns(void)
{
    static uint64_t found, of; /* a process never changes its namespace, but a child may be in another one */

    if (__atomic_load_n(&of, __ATOMIC_ACQUIRE) != vm_self()) {
        __atomic_store_n(&found, inode_at("/proc/self/ns/pid"), __ATOMIC_RELAXED);
        __atomic_store_n(&of, vm_self(), __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&found, __ATOMIC_RELAXED);
}

void vm_identify(struct softib_process *self)
{
    int pidfd = open_pidfd(getpid());

    self->pid = (uint32_t)getpid();
    self->pid_ns = vm_pid_ns();
    self->user_ns = inode_at("/proc/self/ns/user");
    self->pidfd = pidfd < 0 ? 0 : inode_of(pidfd);
    if (pidfd >= 0)
        close(pidfd);
}

/* A zombie counts as dead: its threads make no more copies, and its parent may never wait for it. */
bool vm_runs(const struct softib_process *p)
{
    VM_KEEP_ERRNO;
    struct pollfd over = { .fd = open_pidfd((pid_t)p->pid), .events = POLLIN };
    bool runs;

    if (over.fd < 0)
        return errno == ESRCH ? false : kill((pid_t)p->pid, 0) == 0 || errno != ESRCH;
    runs = poll(&over, 1, 0) <= 0 && (!p->pidfd || inode_of(over.fd) == p->pidfd);
    close(over.fd);
    return runs;
}
