/* Tests of a GPU that do not take each other with them. They run one after the other in a child process; where it dies (a GPU that
 * met an error does nothing any more), or does not end a test in time, that test has failed, and a new child goes on with the next.
 *
 *     return tests_run_apart(count, limit_s, work);
 *
 * work(first, say_next) opens the GPU and does the tests from `first` on, telling before each which one it is and its name; it
 * returns false where there is no GPU. That is no failure, but for one that was there before. */
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/support/gpu_check.h"

static struct apart { /* what a child leaves behind */
    int next, tests, failures, limit_s;
    char name[128];
} * apart;

enum { APART_NO_GPU = 77, APART_GO_ON = 78 };

/* Before each test. After one that failed the rest is another child's, whose GPU is as new. */
static void apart_next(int number, const char *name)
{
    apart->tests = gpu_tests, apart->failures += gpu_failures;
    apart->next = number;
    snprintf(apart->name, sizeof apart->name, "%s", name);
    fflush(stdout);
    if (gpu_failures) _exit(APART_GO_ON);
    alarm((unsigned)apart->limit_s);
}

static int tests_run_apart(int count, int limit_s, bool (*work)(int first, void (*say_next)(int, const char *)))
{
    apart = mmap(NULL, sizeof *apart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (apart == MAP_FAILED) return printf("Bail out! no memory\n"), 1;
    apart->limit_s = limit_s;
    while (apart->next < count) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            gpu_tests = apart->tests;
            if (!work(apart->next, apart_next)) exit(APART_NO_GPU);
            apart_next(count, "");
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0) return printf("Bail out! no process\n"), 1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == APART_NO_GPU) {
            if (apart->next == 0 && apart->tests == 0) return 0;
            printf("Bail out! the GPU is gone\n");
            return 1;
        }
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == APART_GO_ON)) continue;
        printf("not ok %d - %s\n# ", ++apart->tests, apart->name);
        if (WIFEXITED(status)) printf("it could not go on\n");
        else if (WTERMSIG(status) == SIGALRM) printf("no end after %d s: it hangs\n", limit_s);
        else printf("it died of signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
        apart->failures++, apart->next++;
    }
    printf("1..%d\n", apart->tests);
    return apart->failures > 0;
}
