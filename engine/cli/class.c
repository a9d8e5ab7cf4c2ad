/* `zerolab class`: gathers learners' progress files from a folder for a teacher, and prints the progress of all as tables or as JSON.
 * The folder is shared, or holds state folders or single files copied from laptops. It is only read, so a class needs no server.
 *
 *     anna/.local/state/zerolab/labs/zero-1.json     is anna's, and so are
 *     anna/zerolab/labs/zero-1.json   anna/zero-1.json   anna-zero-1.json */
#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/cli/front.h"
#include "engine/lab/progress.h"

struct class_lab {
    char learner[64], lab[LAB_FOLDER_MAX];
    char *path;          /* relative to the folder */
    time_t changed;
    struct lab_progress progress;
};
struct class_damaged { char *path; char why[160]; };

/* Sorted by learner, then newest first; one entry per learner and lab. */
struct class {
    int count, room, damaged_count, damaged_room;
    struct class_lab *labs;
    struct class_damaged *damaged;
    bool cut; /* the folder has more files than were read */
};

enum { DEPTH_MAX = 12, FILE_BYTES_MAX = 1 << 16, FILES_MAX = 20000 };

/* ---- whose a file is ----------------------------------------------------------------------------------------------- */

/* Folders of the path to progress files; they are no learner's name. */
static bool is_place(const char *text, size_t length)
{
    static const char *const places[] = {".local", "state", "zerolab", "labs"};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        if (strlen(places[p]) == length && memcmp(text, places[p], length) == 0) return true;
    return false;
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

/* Whether one of the first `count` is of the same learner and lab. */
static bool is_older_copy(const struct class *class, int count, const struct class_lab *lab)
{
    for (int n = count - 1; n >= 0 && strcmp(class->labs[n].learner, lab->learner) == 0; n--)
        if (strcmp(class->labs[n].lab, lab->lab) == 0) return true;
    return false;
}

static void sort(struct class *class)
{
    int kept = 0;
    if (class->count) qsort(class->labs, (size_t) class->count, sizeof *class->labs, compare);
    for (int n = 0; n < class->count; n++) {
        if (is_older_copy(class, kept, &class->labs[n])) free(class->labs[n].path);
        else class->labs[kept++] = class->labs[n];
    }
    class->count = kept;
}

/* STATUS_INPUT: the folder cannot be read. */
static int gather(struct class *class, const char *folder, struct error *err)
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

static bool is_of(const struct class_lab *lab, const char *learner)
{
    return !learner || strcmp(lab->learner, learner) == 0;
}

static int labs_done(const struct class *class, const char *learner)
{
    int done = 0;
    for (int n = 0; n < class->count; n++) done += is_of(&class->labs[n], learner) && class->labs[n].progress.finished;
    return done;
}

static const char *ago(char out[32], time_t then, time_t now)
{
    long long minutes = now > then ? (long long)(now - then) / 60 : 0;
    if (minutes < 1) snprintf(out, 32, "now");
    else if (minutes < 120) snprintf(out, 32, "%lld min ago", minutes);
    else if (minutes < 48 * 60) snprintf(out, 32, "%lld h ago", minutes / 60);
    else snprintf(out, 32, "%lld days ago", minutes / (24 * 60));
    return out;
}

/* A name in a column of `columns` characters; a longer name is cut and ends in a dot. */
static const char *column_of(char out[128], const char *name, int columns)
{
    int characters = 0, length = 0;
    for (const char *at = name; *at && characters < columns; at++) {
        characters += (*at & 0xc0) != 0x80;
        const bool cut = characters == columns && strlen(at) > 1;
        out[length++] = cut ? '.' : *at;
        if (cut) break;
    }
    snprintf(out + length, 128 - (size_t)length, "%*s", columns - characters, "");
    return out;
}

static const char *place(char out[24], const struct lab_progress *progress)
{
    if (progress->finished) snprintf(out, 24, "done");
    else snprintf(out, 24, "%d of %d", progress->step + 1, progress->count);
    return out;
}

/* ---- what was believed: for the whole class, without names --------------------------------------------------------- */

struct belief {
    const char *lab, *text;
    int step, count, answered; /* learners who began with it; who answered the step */
};

static struct belief *belief_of(struct belief *beliefs, int *count, const char *lab, int step, const char *text)
{
    for (int b = 0; b < *count; b++)
        if (beliefs[b].step == step && !strcmp(beliefs[b].lab, lab) && !strcmp(beliefs[b].text, text))
            return &beliefs[b];
    beliefs[*count] = (struct belief){.lab = lab, .text = text, .step = step};
    return &beliefs[(*count)++];
}

static int by_count(const void *left, const void *right)
{
    const struct belief *a = left, *b = right;
    return a->count != b->count     ? b->count - a->count
           : strcmp(a->lab, b->lab) ? strcmp(a->lab, b->lab)
                                    : a->step - b->step;
}

/* Returns the wrong first answers of all learners, the most frequent first; the caller frees. NULL: no memory. */
static struct belief *beliefs_of(const struct class *class, int *count)
{
    struct belief *beliefs = calloc((size_t) class->count * LAB_STEPS_MAX + 1, sizeof *beliefs);
    *count = 0;
    for (int n = 0; n < class->count && beliefs; n++)
        for (int s = 0; s < class->labs[n].progress.count; s++) {
            const struct lab_step_progress *at = &class->labs[n].progress.at[s];
            if (*at->believed) belief_of(beliefs, count, class->labs[n].lab, s, at->believed)->count++;
        }
    for (int n = 0; n < class->count; n++)
        for (int b = 0; b < *count; b++)
            beliefs[b].answered +=
                !strcmp(class->labs[n].lab, beliefs[b].lab) && class->labs[n].progress.at[beliefs[b].step].attempts > 0;
    if (beliefs) qsort(beliefs, (size_t)*count, sizeof *beliefs, by_count);
    return beliefs;
}

static void add_beliefs(cJSON *list, const struct class *class)
{
    int count;
    struct belief *beliefs = beliefs_of(class, &count);
    for (int b = 0; b < count && beliefs; b++)
        json_put(json_item(list), TEXT("lab", beliefs[b].lab), NUMBER("step", beliefs[b].step + 1),
                 NUMBER("learners", beliefs[b].count), NUMBER("answered", beliefs[b].answered),
                 TEXT("believed", beliefs[b].text));
    free(beliefs);
}

/* ---- the answer ---------------------------------------------------------------------------------------------------- */

static void add_step(cJSON *json, const struct lab_step_progress *at)
{
    json_put(json, TEXT("mark", lab_mark_name(at->mark)), NUMBER("attempts", at->attempts), NUMBER("hints", at->hints),
             NUMBER("seconds", at->seconds), TEXT("said", at->said), TEXT("believed", at->believed));
}

static void add_lab(cJSON *json, const struct class_lab *lab, time_t now)
{
    const struct lab_progress *progress = &lab->progress;
    const struct lab_sums sums = lab_progress_sums(progress);
    char seen[32], where[24], column[128];
    json_put(json, TEXT("lab", lab->lab), TEXT("file", lab->path), NUMBER("changed", lab->changed),
             NUMBER("step", progress->step + 1), NUMBER("step_count", progress->count),
             TRUTH("finished", progress->finished), NUMBER("right", sums.right),
             NUMBER("attempts", sums.attempts), NUMBER("hints", sums.hints), NUMBER("seconds", sums.seconds),
             TEXT(".seen", ago(seen, lab->changed, now)), TEXT(".place", place(where, progress)),
             TEXT(".column", column_of(column, lab->lab, 15)));
    add_step(cJSON_AddObjectToObject(json, ".present"), &progress->at[progress->step]);
    cJSON *steps = cJSON_AddArrayToObject(json, "steps");
    for (int s = 0; s < progress->count; s++) add_step(json_item(steps), &progress->at[s]);
}

/* learner NULL: all of them. */
static cJSON *facts_of(const struct class *class, const char *folder, const char *learner)
{
    const time_t now = time(NULL);
    char column[128];
    cJSON *facts = json_object(NUMBER("version", 1), TEXT(".folder", folder), TRUTH(".one", learner), NUMBER(".minute", 60)),
          *learners = cJSON_AddArrayToObject(facts, "learners"), *labs = NULL,
          *damaged = cJSON_AddArrayToObject(facts, "damaged");
    for (int n = 0; n < class->count; n++) {
        const char *name = class->labs[n].learner;
        if (!is_of(&class->labs[n], learner)) continue;
        if (!n || strcmp(class->labs[n - 1].learner, name) != 0)
            labs = cJSON_AddArrayToObject(json_put(json_item(learners), TEXT("learner", name),
                                                   NUMBER("labs_done", labs_done(class, name)),
                                                   TEXT(".column", column_of(column, name, 18))), "labs");
        add_lab(json_item(labs), &class->labs[n], now);
    }
    for (int n = 0; n < class->damaged_count; n++)
        json_put(json_item(damaged), TEXT("file", class->damaged[n].path), TEXT("error", class->damaged[n].why));
    if (!learner) add_beliefs(cJSON_AddArrayToObject(facts, "beliefs"), class);
    return json_put(facts, TRUTH("cut", class->cut));
}

/* A row for each learner, at the lab that was worked on last: figures of the present step tell who is stuck. The beliefs under it can
 * be projected. Of one learner a row for each lab. */
static const char page[] =
    "{!learners}no progress of any lab lies in {.folder}\n"
    "learners' progress is $XDG_STATE_HOME/zerolab/labs/*.json (~/.local/state/zerolab/labs)\n{/}"
    "{?.one}{#learners}{learner}\n\nlab             part        right tries hints   min  seen\n"
    "{#labs}{.column} {.place:-8} {right:3} of {step_count:-2} {attempts:5} {hints:5} {seconds/.minute:5}  {.seen}\n{/}{/}{/}"
    "{!.one}{?learners}learner            lab             part     tries hints   min  labs  seen\n"
    "{#learners}{.column} {#labs:1}{.column} {.place:-8} {#.present}{attempts:5} {hints:5} {seconds/.minute:5}{/}"
    " {labs_done:5}  {.seen}\n{/}{/}"
    "\ntries, hints and min are of the part that they are at; labs: how many are done\n{/}"
    "{?beliefs}\nfirst answers that were wrong, and what they were taken for\n{/}"
    "{#beliefs}{learners:3} of {answered:-3} {lab}, part {step}: {~:11}{believed}{/}{/}"
    "{?damaged}\n{/}{#damaged}cannot be read: {file}: {error}\n{/}{/}"
    "{?cut}\nthere are more files than are read; give a folder with fewer\n{/}";

static int show(const struct cli *cli, const struct class *class, struct error *err)
{
    cJSON *facts = facts_of(class, cli->operand, cli->second);
    const cJSON *learners = json_get(facts, "learners");
    if (!cli->second || (learners && learners->child)) return front_answer(cli, page, facts, err);
    cJSON_Delete(facts);
    return error_set(err, STATUS_USAGE, "%s: no learner in %s has this name; zerolab class %s lists the learners",
                     cli->second, cli->operand, cli->operand);
}

int front_class(const struct cli *cli, struct error *err)
{
    struct class class;
    int status = gather(&class, cli->operand, err);
    if (!status) status = show(cli, &class, err);
    for (int n = 0; n < class.count; n++) free(class.labs[n].path);
    for (int n = 0; n < class.damaged_count; n++) free(class.damaged[n].path);
    free(class.labs);
    free(class.damaged);
    return status;
}
