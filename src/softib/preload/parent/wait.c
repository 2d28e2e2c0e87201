/*
 * softib-wait PID COMMAND …: replaces the `softib run` process while the user's program runs, if
 * nothing is left to do after it. Process PID is a child of this process, started by the
 * interpreter that this program replaced. Open descriptors of this program are locks on ports,
 * which the kernel releases at exit. COMMAND is only for ps.
 *
 * Signals and exit codes are those of softib.live.launch.preload.run_attached: only the program reacts to Ctrl-C,
 * SIGTERM and SIGHUP are passed on to it, and the exit code is the program's, or 128 + the signal that ended it.
 *
 * SOFTIB_NETWORK is the descriptor of the connection to the node's network, if the program uses it (softib run --net);
 * if the network ends before the program, one line reports it. SOFTIB_FAILED is the end of a line that is printed if
 * the program fails.
 *
 * SOFTIB_FABRIC is the directory of the fabric, SOFTIB_CONTROL the inode of its control socket, and SOFTIB_ENDING the
 * interpreter: when this fabric ends, the interpreter replaces this program and ends the user's
 * (softib.live.launch.child_watchdog). Processes that leave the user's program (daemon(3)) become children of this one,
 * which is a subreaper. If some remain when the program ends, a guard process stays until they or the fabric end.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 1000, MOST = 64, NUMBER = 16 };

static pid_t child;
static const char *fabric, *inode, *interpreter;

static void pass_on(int number)
{
    int before = errno;

    kill(child, number);
    errno = before;
}

/* Return whether the fabric is alive, as softib.live.launch.child_watchdog.living does: its daemon holds the lock, and
 * the socket belongs to no other daemon. */
static bool is_alive(void)
{
    char path[4096];
    struct stat control;
    int lock;
    bool held;

    snprintf(path, sizeof path, "%s/lock", fabric);
    lock = open(path, O_RDWR | O_CLOEXEC);
    if (lock < 0)
        return errno != ENOENT; /* without a descriptor or memory the answer is unknown */
    held = flock(lock, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    close(lock);
    snprintf(path, sizeof path, "%s/control", fabric);
    return held && stat(path, &control) == 0 && control.st_ino == strtoull(inode, NULL, 10);
}

/* Replace this process by the interpreter, which ends ``pids`` and their descendants. Return if it cannot start. */
static void end_programs(const pid_t *pids, int count)
{
    char numbers[MOST][NUMBER];
    char *arguments[MOST + 4] = { (char *)interpreter, "-m", "softib.live.launch.child_watchdog" };

    for (int i = 0; i < count; i++) {
        snprintf(numbers[i], NUMBER, "%d", (int)pids[i]);
        arguments[3 + i] = numbers[i];
    }
    execv(interpreter, arguments);
}

/* Reap processes that left the program and have ended. */
static void reap_others(void)
{
    siginfo_t ended;

    do {
        ended.si_pid = 0;
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || !ended.si_pid || ended.si_pid == child)
            return;
    } while (waitpid(ended.si_pid, NULL, 0) > 0);
}

/* Wait for the child to end. Print one line if the network ends first; end the child if its fabric ends. */
static void watch(int network)
{
    int program = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd fds[2] = { { program, POLLIN, 0 }, { network, POLLIN, 0 } };
    bool looks = fabric;

    while (program >= 0 && !fds[0].revents) {
        int ready = poll(fds, 2, looks ? LOOK_MS : -1);
        if (ready < 0 && errno != EINTR)
            break;
        if (ready < 0)
            fds[0].revents = fds[1].revents = 0;
        if (fds[1].revents) {
            if (!fds[0].revents)
                fputs("softib: the fabric is gone, and the network of the node with it\n", stderr);
            fds[1].fd = -1;
        }
        reap_others();
        if (looks && !fds[0].revents && !is_alive()) {
            end_programs(&child, 1);
            looks = false;
        }
    }
    if (program >= 0)
        close(program);
}

/* Processes that left the program and still run. */
struct others {
    pid_t pids[MOST];
    struct pollfd fds[MOST];
    int count;
};

/* Return whether a process is a child of ``parent``, or in ``session``. */
static bool belongs(const char *pid, pid_t parent, pid_t session)
{
    char path[300], line[512] = "", *name_end;
    int its_parent, its_session;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    line[fread(line, 1, sizeof line - 1, file)] = 0;
    fclose(file);
    for (name_end = line + sizeof line - 1; name_end > line && *name_end != ')'; name_end--)
        ; /* the process name may contain parentheses and spaces */
    if (sscanf(name_end, ") %*c %d %*d %d", &its_parent, &its_session) != 2)
        return false;
    return its_parent == parent || its_session == session;
}

static void add(struct others *others, pid_t parent, pid_t session)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;

    while (all && others->count < MOST && (entry = readdir(all))) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !belongs(entry->d_name, parent, session))
            continue;
        others->pids[others->count] = (pid_t)strtol(entry->d_name, NULL, 10);
        others->fds[others->count++] = (struct pollfd){ -1, POLLIN, 0 };
    }
    if (all)
        closedir(all);
}

static void open_descriptors(struct others *others, int first)
{
    for (int i = first; i < others->count; i++)
        others->fds[i].fd = (int)syscall(SYS_pidfd_open, others->pids[i], 0);
}

/* Wait for changes. Replace each process in the list that has ended by another process of its session: daemon(3) forks,
 * calls setsid, and forks again, so the first processes end. */
static void look(struct others *others)
{
    int before = others->count, kept = 0;

    poll(others->fds, (nfds_t)before, LOOK_MS);
    for (int i = 0; i < before; i++)
        if (others->fds[i].fd < 0 || others->fds[i].revents)
            add(others, -1, others->pids[i]);
    open_descriptors(others, before);
    for (int i = 0; i < others->count; i++) {
        if (i >= before || (others->fds[i].fd >= 0 && !others->fds[i].revents)) {
            others->pids[kept] = others->pids[i];
            others->fds[kept++] = others->fds[i];
        } else if (others->fds[i].fd >= 0) {
            close(others->fds[i].fd);
        }
    }
    others->count = kept;
}

/* Stay in the background while processes that left the program run; end them if their fabric ends. */
static void guard(void)
{
    struct others others = { .count = 0 };

    reap_others();
    if (fabric)
        add(&others, getpid(), -1);
    if (!others.count || fork() != 0)
        return;
    setsid();
    signal(SIGTERM, SIG_DFL);
    if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
        signal(SIGHUP, SIG_IGN); /* nohup */
    /* The guard closes the ends of pipes and the locks on ports. */
    if (syscall(SYS_close_range, 0, ~0U, 0) < 0 || open("/dev/null", O_RDWR) != 0 || dup(0) < 0 || dup(0) < 0)
        _exit(0);
    open_descriptors(&others, 0);
    while (others.count && is_alive())
        look(&others);
    if (others.count)
        end_programs(others.pids, others.count);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct sigaction act = { .sa_handler = pass_on }, hangup;
    sigset_t set;
    const char *failed = getenv("SOFTIB_FAILED"), *network = getenv("SOFTIB_NETWORK");
    int status, code;

    child = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    if (child <= 0)
        return 2;
    fabric = getenv("SOFTIB_FABRIC");
    inode = getenv("SOFTIB_CONTROL");
    interpreter = getenv("SOFTIB_ENDING");
    if (!inode || !interpreter)
        fabric = NULL;
    signal(SIGINT, SIG_IGN);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, NULL, &hangup);
    if (hangup.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &act, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* the interpreter blocked these signals before the program began */
    watch(network ? atoi(network) : -1);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 2;
    guard();
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (failed && argc > 2 && code && code != 128 + SIGINT && code != 128 + SIGTERM && code != 128 + SIGHUP)
        fprintf(stderr, "softib: %s ended with exit code %d; %s\n", argv[2], code, failed);
    return code;
}
