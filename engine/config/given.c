/* The source of each given key: lines "path<tab>file|set|auto<tab>spelling<tab>value", in the order of the file. They
 * are for people (`zerolab plan --explain`, the header of a trace), so values are shortened; the spelling is the path
 * itself unless the file has another or an older one. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/hjson.h"
#include "engine/config/resolve.h"

bool config_is_set(const char *const *sets, int count, const char *path)
{
    char typed[CONFIG_PATH_MAX], own[CONFIG_PATH_MAX];
    for (int s = 0; s < count; s++) {
        snprintf(typed, sizeof typed, "%.*s", (int)strcspn(sets[s], "="), sets[s]);
        config_path(own, typed);
        if (strcmp(own, path) == 0) return true;
    }
    return false;
}

int config_note_given(struct config_source *source, int row, const cJSON *item, bool is_auto, struct error *err)
{
    const char *path = config_keys[row].path, *spelled = source->spelled[row];
    char shown[64];
    const bool set = source->is_set[row];
    hjson_show(item, shown, sizeof shown);
    for (char *c = shown; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = ' ';
    return config_add_line(&source->config->given, err, "%s\t%s\t%s\t%s", path,
                           is_auto ? "auto"
                           : set   ? "set"
                                   : "file",
                           spelled && !set ? spelled : path, shown);
}

bool config_given_next(const char **at, struct config_given *given)
{
    while (*at && **at) {
        const char *line = *at, *end = strchr(line, '\n');
        *at = end ? end + 1 : line + strlen(line);
        if (sscanf(line, "%127[^\t\n]\t%7[^\t\n]\t%127[^\t\n]\t%79[^\n]", given->path, given->from, given->spelling,
                   given->value) == 4)
            return true;
    }
    return false;
}

bool config_is_given(const struct config *config, const char *path)
{
    struct config_given given;
    for (const char *at = config->given; config_given_next(&at, &given);)
        if (strcmp(given.path, path) == 0) return true;
    return false;
}

void config_forget_file(struct config *config)
{
    struct config_given given;
    char *kept = config->given;
    for (const char *at = config->given, *line = at; config_given_next(&at, &given); line = at) {
        const size_t length = at ? (size_t)(at - line) : strlen(line);
        if (strcmp(given.from, "file") == 0) continue;
        memmove(kept, line, length);
        kept += length;
    }
    if (kept) *kept = '\0';
}
