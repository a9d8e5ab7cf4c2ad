#include "engine/cli/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/printable.h"
#include "engine/base/template.h"
#include "tui/draw/style.h"

int front_fail(const struct error *err)
{
    fflush(stdout);
    fprintf(stderr, "zerolab: %s\n", err->text);
    return err->status;
}

int front_look(struct app_look *look, const struct cli *cli, struct error *err)
{
    static const char *const units[] = {[APP_UNITS_GB] = "GB", [APP_UNITS_GIB] = "GiB", [APP_UNITS_BYTES] = "bytes"};
    *look = (struct app_look){
        .ascii = cli->ascii, .no_color = cli->no_color, .no_mouse = cli->no_mouse, .theme = cli->theme};
    if (cli->theme && theme_named(cli->theme) < 0)
        return error_set(err, STATUS_USAGE, "no theme %s; there are: %s", cli->theme, theme_names());
    for (int u = APP_UNITS_GB; cli->units && u <= APP_UNITS_BYTES; u++)
        if (strcasecmp(cli->units, units[u]) == 0) return look->units = (enum app_units)u, STATUS_OK;
    return cli->units ? error_set(err, STATUS_USAGE, "--units %s: give GB, GiB or bytes", cli->units) : STATUS_OK;
}

/* ---- answers ---- */

/* The new file beside the one that is written; a command writes one answer at a time. */
static struct {
    FILE *file; /* NULL: none */
    char path[4096], partial[4096 + 32];
} beside;

static bool is_standard(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

static bool output_is_told_of; /* the failure of standard output has been printed, which is enough */

static int cannot_write(const char *path, int cause, struct error *err)
{
    output_is_told_of |= is_standard(path) && err;
    return error_set(err, STATUS_RUN, "cannot write %s: %s", is_standard(path) ? "standard output" : path,
                     strerror(cause));
}

/* cause: the errno of an earlier failure, or 0; a new failure replaces it. */
static int put_away(FILE *file, int cause)
{
    const bool stays = file == stdout || file == printable_below(stdout);
    return (stays ? fflush(file) : fclose(file)) == 0 ? cause : errno;
}

/* Resolves a path, so that a link stays a link. False: the file may not be written, or not through this link. */
static bool real_path(char real[static 4096], const char *path)
{
    char of_fd[40];
    const int fd = file_open_named(path, O_WRONLY);
    snprintf(of_fd, sizeof of_fd, "/proc/self/fd/%d", fd);
    const ssize_t length = fd < 0 ? -1 : readlink(of_fd, real, 4096);
    if (fd >= 0) close(fd);
    if (length <= 0 || length >= 4096) return false;
    real[length] = '\0';
    return true;
}

/* Opens a new file beside `path`, which later takes its name; if writing fails, the old file stays. False, and
 * nothing done: the path is no plain file, or is protected, or no file can be made beside it. */
static bool open_beside(const char *path, bool frame)
{
    struct stat there;
    const bool exists = stat(path, &there) == 0;
    if (exists && (!S_ISREG(there.st_mode) || !real_path(beside.path, path))) return false;
    if (!exists && snprintf(beside.path, sizeof beside.path, "%s", path) >= (int)sizeof beside.path) return false;
    bool named = snprintf(beside.partial, sizeof beside.partial, "%s.%ld.partial", beside.path, (long)getpid()) <
                 (int)sizeof beside.partial;
    beside.file = named ? fopen(beside.partial, "wxe") : NULL; /* x: never overwrite a file of that name */
    if (beside.file && exists) fchmod(fileno(beside.file), there.st_mode & 07777);
    if (beside.file && !frame && !(beside.file = printable_over(beside.file))) unlink(beside.partial);
    return beside.file;
}

FILE *front_open(const char *path, bool frame, struct error *err)
{
    if (is_standard(path)) return frame ? printable_below(stdout) : stdout;
    if (open_beside(path, frame)) return beside.file;
    FILE *file = file_open_named_stream(path, O_TRUNC);
    if (file && !frame) file = printable_over(file);
    if (!file) error_set(err, STATUS_USAGE, "cannot write %s: %s", path, file_why(errno));
    return file;
}

/* cause: as of put_away(). */
static int close_out(FILE *out, const char *path, int cause, struct error *err)
{
    const bool is_beside = out == beside.file;
    cause = put_away(out, cause);
    if (is_beside) {
        beside.file = NULL;
        path = beside.path;
        if (!cause && rename(beside.partial, path) != 0) cause = errno;
        if (cause) unlink(beside.partial);
    }
    return cause ? cannot_write(path, cause, err) : STATUS_OK;
}

int front_write(const char *path, const char *text, bool frame, struct error *err)
{
    const size_t length = strlen(text);
    FILE *out = front_open(path, frame, err);
    if (!out) return STATUS_USAGE;
    const bool put = fputs(text, out) >= 0 && (!length || text[length - 1] == '\n' || fputc('\n', out) != EOF);
    return close_out(out, path, put ? 0 : errno, err);
}

int front_give(const char *path, char *text, struct error *err)
{
    const int status =
        text ? front_write(path, text, false, err) : error_set(err, STATUS_RUN, "no memory for the answer");
    free(text);
    return status;
}

int front_close(FILE *out, const char *path, int status, struct error *err)
{
    /* stdio does not keep the errno */
    const int closed = close_out(out, path, ferror(out) ? EIO : 0, status ? NULL : err);
    return status ? status : closed;
}

int front_answer(const struct cli *cli, const char *page, cJSON *facts, struct error *err)
{
    if (cli->json) return front_give(cli->output, json_lines(template_strip(facts)), err);
    FILE *out = front_open(cli->output, false, err);
    if (out) template_print(out, page, facts);
    cJSON_Delete(facts);
    return out ? front_close(out, cli->output, STATUS_OK, err) : err->status;
}

void front_drop(FILE *out)
{
    put_away(out, 0);
    if (out != beside.file) return;
    beside.file = NULL;
    unlink(beside.partial);
}

/* Whether the reader of standard output has closed it (a pipe), or the terminal is gone. */
static bool reader_has_left(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP));
}

int front_end(int status)
{
    struct error err;
    const int cause = put_away(stdout, ferror(stdout) ? EIO : 0);
    if (!cause || output_is_told_of || reader_has_left()) return status;
    cannot_write(NULL, cause, &err);
    front_fail(&err);
    return status > STATUS_CHECK ? status : err.status;
}

/* ---- signals ---- */

static volatile sig_atomic_t asked; /* the signal; 0: none */

static void on_signal(int number)
{
    asked = number;
}

void interrupt_watch(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction before;
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
            sigaction(ending[i], &(struct sigaction){.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, NULL);
    }
}

bool interrupt_asked(void)
{
    return asked != 0;
}

void interrupt_end(void)
{
    if (!asked) return;
    signal(asked, SIG_DFL);
    raise(asked);
}
