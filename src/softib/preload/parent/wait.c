/*
 * softib-wait PID COMMAND …: replaces the `softib run` process while the user's program runs, if
 * nothing is left to do after it. Process PID is a child of this process, started by the
 * interpreter that this program replaced. Open descriptors of this program are locks on ports,
 * which the kernel releases at exit. COMMAND is only for ps.
 *
 * Signals and exit codes are those of softib.live.launch.preload.run_attached: Ctrl-C is the program's, SIGTERM is
 * passed on, and the exit code is the program's, or 128 + the signal that ended it.
 *
 * SOFTIB_NETWORK is the descriptor of the connection to the node's network, where the program uses it (softib run
 * --net): a line says so when the network ends before the program. SOFTIB_FAILED is the end of a line that is printed
 * if the program fails.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void pass_on(int number)
{
    int before = errno;

    kill(child, number);
    errno = before;
}

/* Return when the child ends. Print one line if the network ends first. */
static void watch_network(int network)
{
    int program = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd fds[2] = { { program, POLLIN, 0 }, { network, POLLIN, 0 } };

    while (program >= 0 && !fds[0].revents) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[1].revents) {
            if (!fds[0].revents)
                fputs("softib: the fabric is gone, and the network of the node with it\n", stderr);
            break;
        }
    }
    if (program >= 0)
        close(program);
}

int main(int argc, char **argv)
{
    struct sigaction act = { .sa_handler = pass_on };
    sigset_t set;
    const char *failed = getenv("SOFTIB_FAILED");
    int status, code;

    child = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    if (child <= 0)
        return 2;
    signal(SIGINT, SIG_IGN);
    sigaction(SIGTERM, &act, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* blocked by the interpreter before the program began */
    if (getenv("SOFTIB_NETWORK"))
        watch_network(atoi(getenv("SOFTIB_NETWORK")));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 2;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (failed && argc > 2 && code && code != 128 + SIGINT && code != 128 + SIGTERM)
        fprintf(stderr, "softib: %s ended with exit code %d; %s\n", argv[2], code, failed);
    return code;
}
