#include "engine/launch/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"

struct supervisor {
    struct comm_group *group;
    pid_t starter; /* the process that started this one: the front end */
    pid_t pid[64]; /* by rank; 0: has ended */
    int ranks, alive;
    uint64_t kill_ns;    /* when remaining ranks are to be killed; 0: never */
    struct error reason; /* status 0: no rank ended badly */
};

/* The child. If the parent died between fork() and prctl(), no signal will end this process, so it exits at once. */
static _Noreturn void become_rank(struct supervisor *s, int rank, pid_t parent, const sigset_t *before,
                                  supervise_live *live, void *user)
{
    char name[32]; /* the kernel keeps 15 */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(STATUS_RUN);
    snprintf(name, sizeof name, "zerolab rank %d", rank);
    prctl(PR_SET_NAME, name);
    sigprocmask(SIG_SETMASK, before, NULL);
    exit(live(user, s->group, rank));
}

static void end_within(struct supervisor *s, int ms)
{
    const uint64_t at_ns = clock_ns() + (uint64_t)ms * 1000000u;
    if (!s->kill_ns || at_ns < s->kill_ns) s->kill_ns = at_ns;
}

/* The first bad end is the reason of the run's end. */
static void end_badly(struct supervisor *s, const struct error *reason)
{
    if (s->reason.status) return;
    s->reason = *reason;
    end_within(s, SUPERVISE_GRACE_MS);
    comm_group_fail(s->group, reason);
}

static void kill_all(struct supervisor *s)
{
    if (!s->reason.status) error_set(&s->reason, STATUS_RUN, "the ranks were told to end, did not, and were killed");
    for (int r = 0; r < s->ranks; r++)
        if (s->pid[r]) kill(s->pid[r], SIGKILL);
}

static void start(struct supervisor *s, const sigset_t *before, supervise_live *live, void *user)
{
    const pid_t parent = getpid();
    struct error err;
    fflush(NULL);
    for (int r = 0; r < s->ranks && !s->reason.status; r++) {
        const pid_t pid = fork();
        if (pid == 0) become_rank(s, r, parent, before, live, user);
        if (pid > 0) s->pid[r] = pid, s->alive++;
        if (pid > 0) continue;
        error_set(&err, STATUS_RUN, "cannot start rank %d of %d: %s", r, s->ranks, strerror(errno));
        end_badly(s, &err);
    }
}

static void note_end(struct supervisor *s, pid_t pid, int wait_status)
{
    struct error err;
    int rank = 0;
    while (rank < s->ranks && s->pid[rank] != pid) rank++;
    if (rank == s->ranks) return;
    s->pid[rank] = 0;
    s->alive--;
    const int number = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    if (number)
        error_set(&err, STATUS_RUN, "rank %d (process %d) was ended by signal %d (%s)", rank, (int)pid, number,
                  strsignal(number));
    else if (code)
        error_set(&err, code < STATUS_RUN ? code : STATUS_RUN, "rank %d (process %d) ended with status %d", rank,
                  (int)pid, code);
    if (number || code) end_badly(s, &err);
}

/* Sleeps until a child ends or a signal arrives, at most 0.1 s once kill_ns is set; kills all ranks when kill_ns has
 * passed. */
static void sleep_until_news(struct supervisor *s, const sigset_t *news)
{
    struct timespec limit = {.tv_sec = 3600};
    const uint64_t now_ns = clock_ns();
    if (s->kill_ns && s->kill_ns <= now_ns) kill_all(s);
    else if (s->kill_ns) limit.tv_sec = 0, limit.tv_nsec = 100000000;
    const int number = sigtimedwait(news, NULL, &limit);
    if (number != SIGTERM && number != SIGINT) return;
    if (s->pid[0]) kill(s->pid[0], number);
    /* A front end that asks wants a quick end. If it died, the run has time to finish its step and to save. */
    end_within(s, getppid() == s->starter ? SUPERVISE_GRACE_MS : SUPERVISE_LAST_MS);
}

int supervise(int ranks, int ranks_per_node, supervise_live *live, void *user, struct error *err)
{
    struct supervisor s = {.ranks = ranks, .starter = getppid()};
    sigset_t news, before;
    int status = comm_group_create(&s.group, ranks, ranks_per_node, err);
    if (status) return status;
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigaddset(&news, SIGTERM);
    sigaddset(&news, SIGINT);
    sigprocmask(SIG_BLOCK, &news, &before);
    start(&s, &before, live, user);
    while (s.alive) {
        int wait_status;
        const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
        if (pid > 0) note_end(&s, pid, wait_status);
        else sleep_until_news(&s, &news);
    }
    comm_group_free(s.group);
    if (s.reason.status) *err = s.reason;
    return s.reason.status;
}
