#include "engine/lab/class.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/words.h"

enum { DEPTH_MAX = 12, FILE_BYTES_MAX = 1 << 16, FILES_MAX = 20000 };

/* ---- whose a file is ----------------------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* Folders of the path to progress files; they are no learner's name. */
static bool is_place(const char *text, size_t length)
{
    return is_word(text, length, ".local") || is_word(text, length, "state") || is_word(text, length, "zerolab") ||
           is_word(text, length, "labs");
}

static void add_part(char *name, size_t room, const char *part, size_t length)
{
    text_append(name, room, "%s%.*s", *name ? "/" : "", (int)length, part);
}

/* "anna-zero-1.json" of the lab zero-1: anna. */
static void add_file_part(char *name, size_t room, const char *file, const char *lab)
{
    size_t length = strlen(file) - strlen(".json"), lab_length = strlen(lab);
    if (length >= lab_length && memcmp(file + length - lab_length, lab, lab_length) == 0) length -= lab_length;
    while (length && strchr("-_. ", file[length - 1])) length--;
    if (length) add_part(name, room, file, length);
}

/* The learner's name: the folders above the file without the standard ones; if none is left, the gathered folder. */
static void name_learner(struct class_lab *lab, const char *folder)
{
    const char *at = lab->path, *slash;
    size_t room = sizeof lab->learner;
    lab->learner[0] = '\0';
    for (; (slash = strchr(at, '/')); at = slash + 1)
        if (!is_place(at, (size_t)(slash - at))) add_part(lab->learner, room, at, (size_t)(slash - at));
    add_file_part(lab->learner, room, at, lab->lab);
    if (!*lab->learner) {
        size_t length = strlen(folder);
        while (length > 1 && folder[length - 1] == '/') length--;
        while (length && memrchr(folder, '/', length)) folder++, length--;
        add_part(lab->learner, room, folder, length);
    }
    for (char *c = lab->learner; *c; c++)
        if (iscntrl((unsigned char)*c)) *c = '?';
}

/* ---- gathering ----------------------------------------------------------------------------------------------------- */

static void add_damaged(struct class *class, const char *path, const char *why)
{
    struct class_damaged *damaged = array_add(class->damaged, class->damaged_count, class->damaged_room);
    if (!damaged) return;
    *damaged = (struct class_damaged){.path = strdup(path)};
    snprintf(damaged->why, sizeof damaged->why, "%.150s", why);
}

/* State folders hold other JSON files too: only an unreadable file at a path for progress counts as damaged. */
static bool should_be_progress(const char *path)
{
    const char *labs = strstr(path, "labs/");
    return labs && (labs == path || labs[-1] == '/') && !strchr(labs + 5, '/');
}

/* STATUS_INPUT: not a progress file, or unreadable. */
static int read_file(struct class_lab *read, const FTSENT *file, struct error *err)
{
    char *text;
    size_t length;
    if (file->fts_statp->st_size > FILE_BYTES_MAX)
        return error_set(err, STATUS_INPUT, "this is too large to be a lab's progress");
    int status = file_read(&text, &length, file->fts_accpath, FILE_BYTES_MAX, false, err);
    if (!status) status = lab_progress_identify(&read->progress, read->lab, text, err);
    free(text);
    return status;
}

static void take_file(struct class *class, const FTSENT *file, const char *folder, const char *path)
{
    struct class_lab read = {.changed = file->fts_statp->st_mtime};
    struct error err;
    if (read_file(&read, file, &err)) {
        if (should_be_progress(path)) add_damaged(class, path, err.text);
        return;
    }
    if (!array_grow((void **)&class->labs, class->count, &class->room, sizeof *class->labs)) return;
    if (!(read.path = strdup(path))) return;
    name_learner(&read, folder);
    class->labs[class->count++] = read;
}

/* Does not follow links: many users may write to the folder, and a link could lead elsewhere. */
static void walk(struct class *class, FTS *tree, const char *folder)
{
    const size_t skip = strlen(folder);
    int files = 0;
    for (FTSENT *at; (at = fts_read(tree)) && !class->cut;) {
        const char *path = at->fts_path + skip;
        path += strspn(path, "/");
        if (at->fts_info == FTS_D && at->fts_level > DEPTH_MAX) fts_set(tree, at, FTS_SKIP);
        if (at->fts_info == FTS_DNR && *path) add_damaged(class, path, "this folder cannot be read");
        if (at->fts_info != FTS_F || !file_ends_in(at->fts_name, ".json")) continue;
        class->cut = files++ == FILES_MAX;
        if (!class->cut) take_file(class, at, folder, path);
    }
}

/* By learner; of one the lab that was worked on last comes first; of the same lab twice the newer. */
static int compare(const void *a, const void *b)
{
    const struct class_lab *x = a, *y = b;
    int by_name = strcmp(x->learner, y->learner);
    if (by_name) return by_name;
    if (x->changed != y->changed) return x->changed > y->changed ? -1 : 1;
    return strcmp(x->path, y->path);
}

static bool is_older_copy(const struct class *class, int number)
{
    const struct class_lab *lab = &class->labs[number];
    for (int n = number - 1; n >= 0 && strcmp(class->labs[n].learner, lab->learner) == 0; n--)
        if (strcmp(class->labs[n].lab, lab->lab) == 0) return true;
    return false;
}

static void sort(struct class *class)
{
    int kept = 0;
    if (class->count) qsort(class->labs, (size_t) class->count, sizeof *class->labs, compare);
    for (int n = 0; n < class->count; n++) {
        if (!is_older_copy(class, n)) continue;
        free(class->labs[n].path);
        class->labs[n].lab[0] = '\0';
    }
    for (int n = 0; n < class->count; n++)
        if (class->labs[n].lab[0]) class->labs[kept++] = class->labs[n];
    class->count = kept;
}

int class_gather(struct class *class, const char *folder, struct error *err)
{
    char *const roots[] = {(char *)folder, NULL};
    struct stat found;
    *class = (struct class){0};
    const bool known = stat(folder, &found) == 0;
    if (known && !S_ISDIR(found.st_mode))
        return error_set(err, STATUS_INPUT, "%s: a file, not a folder; give the folder that holds learners' progress",
                         folder);
    if (!known || access(folder, R_OK | X_OK) != 0)
        return error_set(err, STATUS_INPUT, "%s: %s", folder, strerror(errno));
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    if (!tree) return error_set(err, STATUS_INPUT, "%s: %s", folder, strerror(errno));
    walk(class, tree, folder);
    fts_close(tree);
    sort(class);
    return STATUS_OK;
}

void class_release(struct class *class)
{
    for (int n = 0; n < class->count; n++) free(class->labs[n].path);
    for (int n = 0; n < class->damaged_count; n++) free(class->damaged[n].path);
    free(class->labs);
    free(class->damaged);
}
