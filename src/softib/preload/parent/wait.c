/*
 * softib-wait PID COMMAND …: what is left of `softib run` while its program runs and nothing is due at the end. Process PID is this one's
 * child; it was started by the interpreter that this program has taken the place of. Descriptors that this program holds are locks on ports,
 * which the kernel gives back when it ends. COMMAND is for the eyes of ps.
 *
 * Signals and exit codes are those of softib.live.launch.preload.run_attached: Ctrl-C is the program's, SIGTERM is passed on, and the
 * exit code is the program's, or 128 + the signal that ended it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static pid_t child;

static void pass_on(int number)
{
    int before = errno;

    kill(child, number);
    errno = before;
}

int main(int argc, char **argv)
{
    struct sigaction act = { .sa_handler = pass_on };
    sigset_t set;
    int status;

    child = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    if (child <= 0)
        return 2;
    signal(SIGINT, SIG_IGN);
    sigaction(SIGTERM, &act, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL); /* blocked by the interpreter before the program began */
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
