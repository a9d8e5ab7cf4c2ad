/* `zerolab class`: prints the progress of a class of learners as tables or as JSON. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/cli/front.h"
#include "engine/lab/class.h"

static bool is_of(const struct class_lab *lab, const char *learner)
{
    return !learner || strcmp(lab->learner, learner) == 0;
}

static bool is_first(const struct class *class, int number)
{
    return !number || strcmp(class->labs[number - 1].learner, class->labs[number].learner) != 0;
}

static int labs_done(const struct class *class, const char *learner)
{
    int done = 0;
    for (int n = 0; n < class->count; n++) done += is_of(&class->labs[n], learner) && class->labs[n].progress.finished;
    return done;
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

static const char *ago(char out[32], time_t then, time_t now)
{
    long long minutes = now > then ? (long long)(now - then) / 60 : 0;
    if (minutes < 1) snprintf(out, 32, "now");
    else if (minutes < 120) snprintf(out, 32, "%lld min ago", minutes);
    else if (minutes < 48 * 60) snprintf(out, 32, "%lld h ago", minutes / 60);
    else snprintf(out, 32, "%lld days ago", minutes / (24 * 60));
    return out;
}

/* Prints a name in a column of `columns` characters; a longer name is cut and ends in a dot. */
static void print_name(FILE *out, const char *name, int columns)
{
    int characters = 0;
    for (const char *at = name; *at && characters < columns; at++) {
        characters += (*at & 0xc0) != 0x80;
        if (characters == columns && strlen(at) > 1) {
            fputc('.', out);
            break;
        }
        fputc(*at, out);
    }
    fprintf(out, "%*s ", characters < columns ? columns - characters : 0, "");
}

static const char *place(char out[24], const struct lab_progress *progress)
{
    if (progress->finished) snprintf(out, 24, "done");
    else snprintf(out, 24, "%d of %d", progress->step + 1, progress->count);
    return out;
}

/* Shows how learners do at their present step, which tells which of them are stuck. */
static void print_class(FILE *out, const struct class *class, time_t now)
{
    char seen[32], where[24];
    fprintf(out, "%-18s %-15s %-8s %5s %5s %5s %5s  %s\n", "learner", "lab", "part", "tries", "hints", "min", "labs",
            "seen");
    for (int n = 0; n < class->count; n++) {
        const struct class_lab *lab = &class->labs[n];
        const struct lab_step_progress *at = &lab->progress.at[lab->progress.step];
        if (!is_first(class, n)) continue;
        print_name(out, lab->learner, 18);
        print_name(out, lab->lab, 15);
        fprintf(out, "%-8s %5d %5d %5.0f %5d  %s\n", place(where, &lab->progress), at->attempts, at->hints,
                at->seconds / 60, labs_done(class, lab->learner), ago(seen, lab->changed, now));
    }
    fputs("\ntries, hints and min are of the part that they are at; labs: how many are done\n", out);
}

static void print_learner(FILE *out, const struct class *class, const char *learner, time_t now)
{
    char seen[32], where[24];
    fprintf(out, "%s\n\n%-15s %-8s %8s %5s %5s %5s  %s\n", learner, "lab", "part", "right", "tries", "hints", "min",
            "seen");
    for (int n = 0; n < class->count; n++) {
        const struct class_lab *lab = &class->labs[n];
        const struct lab_sums sums = lab_progress_sums(&lab->progress);
        if (!is_of(lab, learner)) continue;
        print_name(out, lab->lab, 15);
        fprintf(out, "%-8s %3d of %-2d %5d %5d %5.0f  %s\n", place(where, &lab->progress),
                lab_progress_right(&lab->progress), lab->progress.count, sums.attempts, sums.hints, sums.seconds / 60,
                ago(seen, lab->changed, now));
    }
}

/* ---- what was believed: for the whole class, without names ---- */

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

/* A page to project. */
static void print_beliefs(FILE *out, const struct class *class)
{
    int count;
    struct belief *beliefs = beliefs_of(class, &count);
    for (int b = 0; b < count && beliefs; b++) {
        if (b == 0) fputs("\nfirst answers that were wrong, and what they were taken for\n", out);
        const int column = fprintf(out, "%3d of %-3d %s, part %d: ", beliefs[b].count, beliefs[b].answered,
                                   beliefs[b].lab, beliefs[b].step + 1);
        words_print(out, column, 11, beliefs[b].text);
    }
    free(beliefs);
}

/* learner NULL: a row for each of them, at the lab that was worked on last; else a row for each lab of that one. */
static void print_text(FILE *out, const struct class *class, const char *folder, const char *learner, time_t now)
{
    if (!class->count)
        fprintf(out,
                "no progress of any lab lies in %s\nlearners' progress is $XDG_STATE_HOME/zerolab/labs/*.json "
                "(~/.local/state/zerolab/labs)\n",
                folder);
    else if (learner) print_learner(out, class, learner, now);
    else print_class(out, class, now), print_beliefs(out, class);
    for (int n = 0; n < class->damaged_count && !learner; n++)
        fprintf(out, "%scannot be read: %s: %s\n", n ? "" : "\n", class->damaged[n].path, class->damaged[n].why);
    if (class->cut) fputs("\nthere are more files than are read; give a folder with fewer\n", out);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void add_lab(cJSON *json, const struct class_lab *lab)
{
    const struct lab_progress *progress = &lab->progress;
    const struct lab_sums sums = lab_progress_sums(progress);
    json_put(json, TEXT("lab", lab->lab), TEXT("file", lab->path), NUMBER("changed", lab->changed),
             NUMBER("step", progress->step + 1), NUMBER("step_count", progress->count),
             TRUTH("finished", progress->finished), NUMBER("right", lab_progress_right(progress)),
             NUMBER("attempts", sums.attempts), NUMBER("hints", sums.hints), NUMBER("seconds", sums.seconds));
    cJSON *steps = cJSON_AddArrayToObject(json, "steps");
    for (int s = 0; s < progress->count; s++) {
        const struct lab_step_progress *at = &progress->at[s];
        json_put(json_item(steps), TEXT("mark", lab_mark_name(at->mark)), NUMBER("attempts", at->attempts),
                 NUMBER("hints", at->hints), NUMBER("seconds", at->seconds), TEXT("said", at->said),
                 TEXT("believed", at->believed));
    }
}

static void add_beliefs(cJSON *json, const struct class *class)
{
    int count;
    struct belief *beliefs = beliefs_of(class, &count);
    for (int b = 0; b < count && beliefs; b++)
        json_put(json_item(json), TEXT("lab", beliefs[b].lab), NUMBER("step", beliefs[b].step + 1),
                 NUMBER("learners", beliefs[b].count), NUMBER("answered", beliefs[b].answered),
                 TEXT("believed", beliefs[b].text));
    free(beliefs);
}

static char *json_of(const struct class *class, const char *learner)
{
    cJSON *json = cJSON_CreateObject(), *learners, *labs = NULL, *damaged;
    cJSON_AddNumberToObject(json, "version", 1);
    learners = cJSON_AddArrayToObject(json, "learners");
    for (int n = 0; n < class->count; n++) {
        if (!is_of(&class->labs[n], learner)) continue;
        if (is_first(class, n)) {
            cJSON *one = json_item(learners);
            json_put(one, TEXT("learner", class->labs[n].learner),
                     NUMBER("labs_done", labs_done(class, class->labs[n].learner)));
            labs = cJSON_AddArrayToObject(one, "labs");
        }
        add_lab(json_item(labs), &class->labs[n]);
    }
    damaged = cJSON_AddArrayToObject(json, "damaged");
    for (int n = 0; n < class->damaged_count; n++)
        json_put(json_item(damaged), TEXT("file", class->damaged[n].path), TEXT("error", class->damaged[n].why));
    if (!learner) add_beliefs(cJSON_AddArrayToObject(json, "beliefs"), class);
    cJSON_AddBoolToObject(json, "cut", class->cut);
    return json_lines(json);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static bool has_learner(const struct class *class, const char *learner)
{
    for (int n = 0; n < class->count; n++)
        if (strcmp(class->labs[n].learner, learner) == 0) return true;
    return false;
}

static int show(const struct cli *cli, const struct class *class, struct error *err)
{
    if (cli->second && !has_learner(class, cli->second))
        return error_set(err, STATUS_USAGE, "%s: no learner in %s has this name; zerolab class %s lists the learners",
                         cli->second, cli->operand, cli->operand);
    if (cli->json) return front_give(cli->output, json_of(class, cli->second), err);
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    print_text(out, class, cli->operand, cli->second, time(NULL));
    return front_close(out, cli->output, STATUS_OK, err);
}

int front_class(const struct cli *cli, struct error *err)
{
    struct class class;
    int status = class_gather(&class, cli->operand, err);
    if (!status) status = show(cli, &class, err);
    class_release(&class);
    return status;
}
