#include "engine/launch/hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"

enum { SLOTS_MOST = 4096 };

/* A name that mpirun and ssh take as a word; it must not look like an option. */
static bool is_name(const char *name, size_t length)
{
    if (!length || length >= HOST_NAME_BYTES || name[0] == '-') return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-._", name[i])) return false;
    return true;
}

static int add(struct hosts *hosts, const char *name, size_t length, int slots, struct error *err)
{
    if (!is_name(name, length))
        return error_set(err, STATUS_USAGE, "\"%.*s\" is not the name of a host", length < 80 ? (int)length : 80, name);
    for (int h = 0; h < hosts->count; h++)
        if (strlen(hosts->at[h].name) == length && memcmp(hosts->at[h].name, name, length) == 0)
            return error_set(err, STATUS_USAGE, "host %.*s is given twice", (int)length, name);
    if (hosts->count == HOSTS_MAX) return error_set(err, STATUS_USAGE, "more than %d hosts", HOSTS_MAX);
    struct host *host = &hosts->at[hosts->count++];
    snprintf(host->name, sizeof host->name, "%.*s", (int)length, name);
    host->slots = slots;
    return STATUS_OK;
}

/* The number at `text`, followed by one of `ends` or the end; 0: it is not one of 1 to SLOTS_MOST. */
static int number(const char *text, const char *ends, const char **after)
{
    char *end;
    const long value = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    if (value < 1 || value > SLOTS_MOST || (*end && !strchr(ends, *end))) return 0;
    if (after) *after = end;
    return (int)value;
}

int hosts_parse(struct hosts *hosts, const char *list, struct error *err)
{
    *hosts = (struct hosts){0};
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ":,");
        const char *end = at + length;
        int slots = 1;
        if (*end == ':' && !(slots = number(end + 1, ",", &end)))
            return error_set(err, STATUS_USAGE, "%.*s: give 1 to %d ranks for a host, such as a:2,b:2",
                             (int)strcspn(at, ","), at, SLOTS_MOST);
        const int status = add(hosts, at, length, slots, err);
        if (status || !*(at = end)) return status;
    }
}

/* ---- hostfiles ---- */

/* One word after the name: "slots=4", "max_slots=4" or "max-slots=4". */
static int read_word(const char *word, int *slots, int *most, struct error *err)
{
    const char *value = strchr(word, '=');
    const size_t length = value ? (size_t)(value - word) : 0;
    const bool is_most = length == 9 && (!strncmp(word, "max_slots", 9) || !strncmp(word, "max-slots", 9));
    if (!is_most && (length != 5 || strncmp(word, "slots", 5) != 0))
        return error_set(err, STATUS_USAGE, "\"%.60s\" is neither slots=N nor max_slots=N", word);
    const int count = number(value + 1, "", NULL);
    *(is_most ? most : slots) = count;
    return count ? STATUS_OK : error_set(err, STATUS_USAGE, "\"%.60s\" is not a number of 1 to %d", word, SLOTS_MOST);
}

static int read_line(struct hosts *hosts, char *line, struct error *err)
{
    static const char blanks[] = " \t\r\f\v";
    char *rest, *name = strtok_r(line, blanks, &rest);
    int slots = 1, most = SLOTS_MOST, status = STATUS_OK;
    if (!name) return STATUS_OK;
    for (char *word; !status && (word = strtok_r(NULL, blanks, &rest));) status = read_word(word, &slots, &most, err);
    if (status) return status;
    if (slots > most)
        return error_set(err, STATUS_USAGE, "host %.60s has %d slots but max_slots=%d", name, slots, most);
    return add(hosts, name, strlen(name), slots, err);
}

int hosts_parse_file(struct hosts *hosts, char *text, const char *path, struct error *err)
{
    int number_of_line = 1;
    *hosts = (struct hosts){0};
    for (char *line; (line = strsep(&text, "\n")); number_of_line++) {
        line[strcspn(line, "#")] = '\0';
        if (read_line(hosts, line, err)) return error_prefix(err, "%.200s, line %d", path, number_of_line);
    }
    return hosts->count ? STATUS_OK : error_set(err, STATUS_USAGE, "%.200s names no host", path);
}

/* ---- Slurm ---- */

/* Adds every name that `pattern` stands for: "r[1-2]n[01-16]". made: the name so far. */
static int expand(struct hosts *hosts, const char *made, const char *pattern, size_t length, struct error *err)
{
    const char *open = memchr(pattern, '[', length);
    char name[2 * HOST_NAME_BYTES];
    if (!open) {
        const int bytes = snprintf(name, sizeof name, "%s%.*s", made, (int)length, pattern);
        return add(hosts, name, (size_t)bytes, 1, err);
    }
    const char *close = memchr(open, ']', length - (size_t)(open - pattern)), *at = open + 1;
    if (!close) return error_set(err, STATUS_USAGE, "\"%.*s\" has no closing bracket", (int)length, pattern);
    for (;; at++) {
        char *end;
        const long first = strtol(at, &end, 10);
        const int digits = (int)(end - at);
        const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (!isdigit((unsigned char)*at) || (*end != ',' && end != close) || last < first || last - first >= SLOTS_MOST)
            return error_set(err, STATUS_USAGE, "\"%.*s\" is not a list of nodes", (int)length, pattern);
        for (long i = first; i <= last; i++) {
            if (snprintf(name, sizeof name, "%s%.*s%0*ld", made, (int)(open - pattern), pattern, digits, i) >=
                HOST_NAME_BYTES)
                return error_set(err, STATUS_USAGE, "\"%.*s\" has too long a name", (int)length, pattern);
            const size_t rest = length - (size_t)(close + 1 - pattern);
            const int status = expand(hosts, name, close + 1, rest, err);
            if (status) return status;
        }
        if ((at = end) == close) return STATUS_OK;
    }
}

/* Gives the hosts their slots: "2(x3),1" is 2, 2, 2, 1. */
static int give_slots(struct hosts *hosts, const char *per_node, struct error *err)
{
    int host = 0;
    for (const char *at = per_node; host < hosts->count; at++) {
        int times = 1, slots = number(at, ",(", &at);
        if (slots && *at == '(') times = at[1] == 'x' ? number(at + 2, ")", &at) : 0, at += times > 0;
        if (!slots || !times || times > hosts->count - host) break;
        for (int i = 0; i < times; i++) hosts->at[host++].slots = slots;
        if (!*at && host == hosts->count) return STATUS_OK;
        if (*at != ',') break;
    }
    return error_set(err, STATUS_USAGE, "\"%.80s\" does not say what each of the %d nodes has", per_node, hosts->count);
}

int hosts_parse_slurm(struct hosts *hosts, const char *nodes, const char *per_node, struct error *err)
{
    *hosts = (struct hosts){0};
    for (const char *at = nodes;; at++) {
        size_t length = 0;
        for (bool inside = false; at[length] && (inside || at[length] != ','); length++)
            inside = at[length] == '[' || (inside && at[length] != ']');
        const int status = expand(hosts, "", at, length, err);
        if (status) return error_prefix(err, "SLURM_JOB_NODELIST");
        if (!*(at += length)) break;
    }
    return per_node ? give_slots(hosts, per_node, err) : STATUS_OK;
}

/* ---- all of them ---- */

int hosts_slots(const struct hosts *hosts)
{
    int slots = 0;
    for (int h = 0; h < hosts->count; h++) slots += hosts->at[h].slots;
    return slots;
}

void hosts_put_first(struct hosts *hosts, int index)
{
    const struct host first = hosts->at[index];
    memmove(&hosts->at[1], &hosts->at[0], (size_t)index * sizeof first);
    hosts->at[0] = first;
}

void hosts_text(const struct hosts *hosts, char text[HOSTS_TEXT_BYTES])
{
    *text = '\0';
    for (int h = 0; h < hosts->count; h++)
        text_append(text, HOSTS_TEXT_BYTES, "%s%s:%d", h ? "," : "", hosts->at[h].name, hosts->at[h].slots);
}
