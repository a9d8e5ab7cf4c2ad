/* `zerolab class`: prints the progress of a class of learners as tables or as JSON. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
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

/* ---- columns ------------------------------------------------------------------------------------------------------- */

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
             TRUTH("finished", progress->finished), NUMBER("right", lab_progress_right(progress)),
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
        if (is_first(class, n))
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

/* ---- the command --------------------------------------------------------------------------------------------------- */

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
    int status = class_gather(&class, cli->operand, err);
    if (!status) status = show(cli, &class, err);
    class_release(&class);
    return status;
}
