#include "tui/app/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/words.h"

enum { PATH_ROOM = 1024, WORD_ROOM = 32 };

struct settings settings_default(void)
{
    return (struct settings){.theme = THEME_DEFAULT, .units = UNITS_GIB, .mouse = true};
}

/* ---- one value ----------------------------------------------------------------------------------------------------- */

static const char *const units_words[UNITS] = {[UNITS_GB] = "GB", [UNITS_GIB] = "GiB", [UNITS_BYTES] = "bytes"};

static const struct setting {
    const char *key, *variable, *values;
    enum { OF_THEME, OF_UNITS, OF_YES } type;
    size_t at;
} table[] = {
    {"theme", "ZEROLAB_THEME", "default, light, projector or mono", OF_THEME, offsetof(struct settings, theme)},
    {"units", "ZEROLAB_UNITS", "GB, GiB or bytes", OF_UNITS, offsetof(struct settings, units)},
    {"ascii", "ZEROLAB_ASCII", "yes or no", OF_YES, offsetof(struct settings, ascii)},
    {"mouse", "ZEROLAB_MOUSE", "yes or no", OF_YES, offsetof(struct settings, mouse)},
    {"bars_now", "ZEROLAB_BARS_NOW", "yes or no", OF_YES, offsetof(struct settings, bars_now)},
};
enum { SETTINGS = sizeof table / sizeof table[0] };

/* False: the setting has no such value. */
static bool read_value(struct settings *settings, const struct setting *row, const char *value)
{
    void *const to = (char *)settings + row->at;
    const int theme = theme_named(value);
    const bool yes = !strcmp(value, "yes") || !strcmp(value, "1"), no = !strcmp(value, "no") || !strcmp(value, "0");
    if (row->type == OF_THEME && theme >= 0) return *(enum theme *)to = (enum theme)theme, true;
    if (row->type == OF_YES && (yes || no)) return *(bool *)to = yes, true;
    for (enum units units = 0; row->type == OF_UNITS && units < UNITS; units++)
        if (!strcasecmp(value, units_words[units])) return *(enum units *)to = units, true;
    return false;
}

static const char *print_value(const struct settings *settings, const struct setting *row)
{
    const void *const from = (const char *)settings + row->at;
    if (row->type == OF_THEME) return theme_name(*(const enum theme *)from);
    if (row->type == OF_UNITS) return units_words[*(const enum units *)from];
    return *(const bool *)from ? "yes" : "no";
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static int read_line(struct settings *settings, const char *line, size_t length, int number, struct error *err)
{
    char text[160], key[WORD_ROOM], value[WORD_ROOM], more;
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    text[strcspn(text, "#")] = '\0';
    if (text[strspn(text, " \t\r")] == '\0') return STATUS_OK;
    if (sscanf(text, " %31[a-z_] = %31s %c", key, value, &more) != 2)
        return error_set(err, STATUS_USAGE, "line %d is no \"key = value\"", number);
    for (int i = 0; i < SETTINGS; i++) {
        if (strcmp(table[i].key, key)) continue;
        if (read_value(settings, &table[i], value)) return STATUS_OK;
        return error_set(err, STATUS_USAGE, "line %d: %s is %s, not %s", number, key, table[i].values, value);
    }
    return error_set(err, STATUS_USAGE, "line %d: there is no setting %s", number, key);
}

int settings_read(struct settings *settings, const char *text, struct error *err)
{
    int status = STATUS_OK;
    for (int number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        struct error other;
        int of_line = read_line(settings, text, length, number, &other);
        if (of_line && !status) status = of_line, *err = other;
        text += length + (text[length] == '\n');
    }
    return status;
}

void settings_print(const struct settings *settings, char out[SETTINGS_ROOM])
{
    snprintf(out, SETTINGS_ROOM, "# zerolab writes this file when one of these is changed by a key.\n");
    for (int i = 0; i < SETTINGS; i++)
        text_append(out, SETTINGS_ROOM, "%s = %s\n", table[i].key, print_value(settings, &table[i]));
}

int settings_from_environment(struct settings *settings, struct error *err)
{
    int status = STATUS_OK;
    for (int i = 0; i < SETTINGS; i++) {
        const char *value = getenv(table[i].variable);
        if (!value || !*value || read_value(settings, &table[i], value)) continue;
        status = error_set(err, STATUS_USAGE, "%s is %s, not %.40s", table[i].variable, table[i].values, value);
    }
    return status;
}

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static bool file_path(char path[PATH_ROOM])
{
    const char *folder = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = -1;
    if (folder && *folder == '/') length = snprintf(path, PATH_ROOM, "%s/zerolab/settings", folder);
    else if (home && *home == '/') length = snprintf(path, PATH_ROOM, "%s/.config/zerolab/settings", home);
    return length > 0 && length < PATH_ROOM - 8;
}

int settings_load(struct settings *settings, struct error *err)
{
    char path[PATH_ROOM], text[8192];
    int fd = file_path(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || !file_path(path)
                   ? STATUS_OK
                   : error_set(err, STATUS_INPUT, "settings %s: %s", path, strerror(errno));
    ssize_t count = read(fd, text, sizeof text - 1);
    int problem = errno;
    close(fd);
    if (count < 0) return error_set(err, STATUS_INPUT, "settings %s: %s", path, strerror(problem));
    text[count] = '\0';
    int status = settings_read(settings, text, err);
    if (status) error_prefix(err, "settings"); /* one row of the screen has no room for the path */
    return status;
}

int settings_save(const struct settings *settings, struct error *err)
{
    char path[PATH_ROOM], text[SETTINGS_ROOM];
    if (!file_path(path)) return STATUS_OK;
    settings_print(settings, text);
    if (file_replace(path, text)) return STATUS_OK;
    return error_set(err, STATUS_RUN, "settings are not saved: %s: %s", path, strerror(errno));
}
