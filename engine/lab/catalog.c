#include "engine/lab/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/file.h"
#include "engine/base/nearest.h"

#define INCLUDED(prefix, ID, path)                                                                                     \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".global " #prefix "_of_" #ID ", " #prefix "_end_of_" #ID "\n" #prefix "_of_" #ID                          \
            ": .incbin \"labs/" path "\"\n" #prefix "_end_of_" #ID ": .byte 0\n"                                       \
            ".popsection");                                                                                            \
    extern const char prefix##_of_##ID[], prefix##_end_of_##ID[];
#define LAB(ID, folder)         INCLUDED(lab, ID, folder "/lab.md")
#define TRACE(ID, folder, file) INCLUDED(trace, ID, folder "/" file)
#include "engine/lab/labs.def"

__asm__(".pushsection .rodata\n"
        ".global lab_skeleton\n"
        "lab_skeleton: .incbin \"labs/skeleton.md\"\n"
        ".byte 0\n"
        ".popsection");

static const struct {
    const char *name, *begin, *end;
} catalog[] = {
#define LAB(ID, folder) {folder, lab_of_##ID, lab_end_of_##ID},
#include "engine/lab/labs.def"
};
static const struct lab_trace traces[] = {
#define TRACE(ID, folder, file) {folder, file, trace_of_##ID, trace_end_of_##ID},
#include "engine/lab/labs.def"
};
enum { CATALOG = sizeof catalog / sizeof *catalog, TRACES = sizeof traces / sizeof *traces };
enum { READ_MOST_BYTES = 64 << 20 }; /* lab_read() says in which line a file is too long */

int lab_catalog_count(void)
{
    return CATALOG;
}

const char *lab_catalog_name(int number)
{
    return catalog[number].name;
}

static int read_file(struct lab **out, const char *path, struct error *err)
{
    char *text;
    size_t length;
    int status = file_read(&text, &length, path, READ_MOST_BYTES, true, err);
    if (status) return error_prefix(err, "%s", path);
    status = lab_read(out, path, text, length, err);
    free(text);
    return status;
}

static bool is_there(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static int unknown(const char *name, struct error *err)
{
    const char *names[CATALOG];
    for (int l = 0; l < CATALOG; l++) names[l] = catalog[l].name;
    const char *nearest = nearest_name(name, names, CATALOG);
    return error_set(
        err, STATUS_USAGE, "no labs/%.100s/lab.md here, and none of that name comes with the program%s%s%s", name,
        nearest ? "; did you mean " : "; zerolab lab list shows them", nearest ? nearest : "", nearest ? "?" : "");
}

int lab_catalog_number(const char *name)
{
    for (int l = 0; l < CATALOG; l++)
        if (strcmp(catalog[l].name, name) == 0) return l;
    return -1;
}

const struct lab_trace *lab_catalog_trace(const char *lab, const char *file)
{
    for (int t = 0; t < TRACES; t++)
        if (strcmp(traces[t].lab, lab) == 0 && strcmp(traces[t].file, file) == 0) return &traces[t];
    return NULL;
}

bool lab_hides_own(const char *name)
{
    char path[300], *text;
    size_t length;
    const int number = lab_catalog_number(name);
    if (number < 0) return false;
    snprintf(path, sizeof path, "labs/%s/lab.md", name);
    if (file_read(&text, &length, path, READ_MOST_BYTES, false, NULL)) return false;
    const size_t own = (size_t)(catalog[number].end - catalog[number].begin);
    const bool differs = length != own || memcmp(text, catalog[number].begin, own) != 0;
    free(text);
    return differs;
}

int lab_open(struct lab **out, const char *name, struct error *err)
{
    char path[4096];
    const int number = lab_catalog_number(name);
    *out = NULL;
    snprintf(path, sizeof path, "labs/%s/lab.md", name);
    if (number >= 0) {
        int status =
            lab_read(out, path, catalog[number].begin, (size_t)(catalog[number].end - catalog[number].begin), err);
        if (!status) (*out)->folder = NULL;
        return status;
    }
    if (strchr(name, '/') || is_there(name)) {
        if (snprintf(path, sizeof path, "%s/lab.md", name) < (int)sizeof path && is_there(path))
            return read_file(out, path, err);
        return read_file(out, name, err);
    }
    return is_there(path) ? read_file(out, path, err) : unknown(name, err);
}
