#include "engine/launch/failure.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The text from `at` to the end of its line. */
static int line_length(const char *at)
{
    return (int)strcspn(at, "\r\n");
}

/* "mpirun noticed that process rank 2 with PID 71 on node x exited on signal 9 (Killed)."; the PID is sometimes 0. Open MPI 5 says
 * "prterun noticed ..." and breaks the line where it is full. */
static bool explain_killed_rank(const char *printed, struct error *err)
{
    int rank, pid, number;
    const char *at = strstr(printed, "noticed that process rank ");
    const char *on = at ? strstr(at, "exited") : NULL;
    if (!on || sscanf(at, "noticed that process rank %d with PID %d", &rank, &pid) != 2 ||
        sscanf(on, "exited on signal %d", &number) != 1)
        return false;
    char process[32] = "";
    if (pid > 0) snprintf(process, sizeof process, " (process %d)", pid);
    error_set(err, STATUS_RUN, "rank %d%s was ended by signal %d (%s)", rank, process, number, strsignal(number));
    return true;
}

/* The first line that one of our own processes printed: "zerolab: text". */
static const char *own_line(const char *printed)
{
    static const char mark[] = "zerolab: ";
    for (const char *at = printed; (at = strstr(at, mark)); at++)
        if (at == printed || at[-1] == '\n') return at + sizeof mark - 1;
    return NULL;
}

static const char *sanitizer_line(const char *printed)
{
    const char *at = strstr(printed, "SUMMARY: ");
    return at ? at : strstr(printed, "runtime error: ");
}

/* The last line with letters in it: better than nothing. */
static const char *last_line(const char *printed)
{
    const char *best = NULL;
    for (const char *at = printed; *at; at += line_length(at), at += *at != '\0') {
        bool letters = false;
        for (int i = 0; i < line_length(at); i++) letters |= isalpha((unsigned char)at[i]) != 0;
        if (letters) best = at;
    }
    return best;
}

int failure_explain(int wait_status, const char *printed, const char *launcher, struct error *err)
{
    if (!printed) printed = "";
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    const char *line;
    if (explain_killed_rank(printed, err)) return STATUS_RUN;
    if ((line = sanitizer_line(printed))) return error_set(err, STATUS_RUN, "%.*s", line_length(line), line);
    if (WIFSIGNALED(wait_status))
        return error_set(err, STATUS_RUN, "%s was ended by signal %d (%s)", launcher, WTERMSIG(wait_status),
                         strsignal(WTERMSIG(wait_status)));
    if (code == 0) return STATUS_OK;
    int status = code <= STATUS_RUN ? code : STATUS_RUN;
    if ((line = own_line(printed))) return error_set(err, status, "%.*s", line_length(line), line);
    if ((line = last_line(printed)))
        return error_set(err, STATUS_RUN, "%s ended with status %d: %.*s", launcher, code, line_length(line), line);
    return error_set(err, STATUS_RUN, "%s ended with status %d and said nothing", launcher, code);
}

int failure_explain_forced(const char *printed, struct error *err)
{
    if (!printed) printed = "";
    if (explain_killed_rank(printed, err)) return STATUS_RUN;
    const char *line = own_line(printed);
    if (line) return error_set(err, STATUS_RUN, "%.*s", line_length(line), line);
    return error_set(err, STATUS_RUN, "the engine did not end by itself and was ended");
}
