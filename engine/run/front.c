#include "engine/run/front.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

int front_fail(const struct error *err)
{
    fflush(stdout);
    fprintf(stderr, "zerolab: %s\n", err->text);
    return err->status;
}

static int units_named(const char *name, enum app_units *units, struct error *err)
{
    static const char *const names[] = {[APP_UNITS_GB] = "GB", [APP_UNITS_GIB] = "GiB", [APP_UNITS_BYTES] = "bytes"};
    for (int u = APP_UNITS_GB; name && u <= APP_UNITS_BYTES; u++)
        if (strcasecmp(name, names[u]) == 0) return *units = (enum app_units)u, STATUS_OK;
    return name ? error_set(err, STATUS_USAGE, "--units %s: give GB, GiB or bytes", name) : STATUS_OK;
}

static bool is_theme(const char *name)
{
    size_t length = strlen(name);
    for (const char *at = app_theme_names(); *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == length && strncmp(at, name, length) == 0) return true;
    return false;
}

int front_look(struct app_look *look, const struct cli *cli, struct error *err)
{
    *look = (struct app_look){
        .ascii = cli->ascii, .no_color = cli->no_color, .no_mouse = cli->no_mouse, .theme = cli->theme};
    if (cli->theme && !is_theme(cli->theme))
        return error_set(err, STATUS_USAGE, "no theme %s; there are: %s", cli->theme, app_theme_names());
    return units_named(cli->units, &look->units, err);
}

int front_write(const char *path, const char *text, struct error *err)
{
    bool standard = !path || strcmp(path, "-") == 0;
    FILE *file = standard ? stdout : fopen(path, "we");
    bool written =
        file && fputs(text, file) >= 0 && (*text == '\0' || text[strlen(text) - 1] == '\n' || fputc('\n', file) != EOF);
    if (file && (standard ? fflush(file) : fclose(file)) != 0) written = false;
    return written ? STATUS_OK
                   : error_set(err, STATUS_RUN, "cannot write %s: %s", standard ? "standard output" : path,
                               strerror(errno));
}

FILE *front_open(const char *path, struct error *err)
{
    FILE *out = path && strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!out) error_set(err, STATUS_RUN, "cannot write %s: %s", path, strerror(errno));
    return out;
}

int front_close(FILE *out, const char *path, struct error *err)
{
    int failed = out == stdout ? fflush(out) : fclose(out);
    return failed ? error_set(err, STATUS_RUN, "cannot write %s: %s", path ? path : "standard output", strerror(errno))
                  : STATUS_OK;
}
