/* The directives of a lab's file: a table, and for each a function that stores its contents in the lab. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/differences.h"
#include "engine/base/nearest.h"
#include "engine/base/words.h"
#include "engine/lab/read_parts.h"

static int read_about(struct reader *reader, const char *text)
{
    return reader->lab->about = text, STATUS_OK;
}

static int read_minutes(struct reader *reader, const char *text)
{
    char *end;
    long minutes = strtol(text, &end, 10);
    if (*end || minutes < 1 || minutes > 120)
        return read_fail(reader, "minutes: %.20s: give a number from 1 to 120", text);
    return reader->lab->minutes = (int)minutes, STATUS_OK;
}

/* Settings are checked together with the ones that they extend. */
static int read_settings(struct reader *reader, const char *text, struct text_list *sets)
{
    struct text_list more;
    struct error err;
    if (lab_settings(&more, text, sets, &err)) return read_fail(reader, "%s", err.text);
    for (int i = 0; i < more.count; i++) {
        const bool room = sets->count < LAB_SETS_MAX;
        const char *kept = room ? pool_text(&reader->lab->pool, more.at[i], strlen(more.at[i])) : NULL;
        if (kept) sets->at[sets->count++] = kept;
        else read_fail(reader, "there are more than %d settings", LAB_SETS_MAX);
    }
    text_list_release(&more);
    return reader->status;
}

static int read_set(struct reader *reader, const char *text)
{
    return read_settings(reader, text, &reader->lab->sets);
}

/* A lab is about runs or about traces, from its head on. */
static int read_trace(struct reader *reader, const char *text)
{
    struct lab *lab = reader->lab;
    if (!*text || strchr(text, '/'))
        return read_fail(reader, "trace: %.40s: give the name of a file or folder beside lab.md", text);
    if (reader->step && !lab->trace) return read_fail(reader, "trace: a lab about traces has one above the first part");
    if (lab->sets.count || lab->tries.count)
        return read_fail(reader, "trace: nothing runs here: set and try are of runs");
    return *(reader->step ? &reader->step->trace : &lab->trace) = text, STATUS_OK;
}

/* "KEY=A|B|C" */
static int read_try(struct reader *reader, const char *text)
{
    struct lab *lab = reader->lab;
    struct lab_try *try = &lab->tries.at[lab->tries.count];
    size_t key = strcspn(text, "=");
    if (!text[key]) return read_fail(reader, "try: KEY=A|B|C");
    if (lab->tries.count == LAB_TRIES_MAX) return read_fail(reader, "a lab tries at most %d keys", LAB_TRIES_MAX);
    *try = (struct lab_try){.key = pool_text(&lab->pool, text, key)};
    for (const char *value = text + key + 1;; value += strcspn(value, "|") + 1) {
        const size_t length = strcspn(value, "|");
        if (!length) return read_fail(reader, "try: KEY=A|B|C: a value is missing");
        if (try->count == LAB_TRY_VALUES_MAX)
            return read_fail(reader, "a lab tries at most %d values of a key", LAB_TRY_VALUES_MAX);
        try->values[try->count++] = pool_text(&lab->pool, value, length);
        if (!try->key || !try->values[try->count - 1]) return read_fail(reader, "no memory");
        if (!value[length]) break;
    }
    lab->tries.count++;
    return reader->status;
}

/* "NAME NAME": rows of engine/advise/differences.def. */
static int read_elsewhere(struct reader *reader, const char *text)
{
    char name[40];
    reader->lab->elsewhere = text;
    for (int bytes; sscanf(text, "%39s%n", name, &bytes) == 1; text += bytes)
        if (!difference_named(name))
            return read_fail(reader, "elsewhere: docs/KNOBS.md has no difference called %s", name);
    return STATUS_OK;
}

/* A setup extends the lab's own settings, not those of the step before. */
static int read_setup(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (!step->has_setup) step->sets = reader->lab->sets;
    step->has_setup = true;
    return read_settings(reader, text, &step->sets);
}

static int read_resume(struct reader *reader, const char *text)
{
    if (!lab_saves_before(reader->lab, reader->lab->step_count - 1, text))
        return read_fail(reader, "resume: %.40s: no part before this one has do: checkpoint %.40s", text, text);
    reader->step->resume = text;
    return read_setup(reader, "");
}

/* The views of the screen (tui/view/views.def) that show a run; tests/engine/test_lab_frames.c compares both. */
static const char *const looks[] = {"overview", "whiteboard", "timeline", "memory", "tiers",  "buckets",
                                    "shards",   "schedule", "why",    "knobs",  "collectives",
                                    "loss",     "steps",    "text",   "events", "oom"};
enum { LOOKS = sizeof looks / sizeof *looks };

static int read_look(struct reader *reader, const char *text)
{
    char list[200] = "";
    reader->step->look = text;
    for (int v = 0; v < LOOKS; v++) {
        if (strcmp(looks[v], text) == 0) return STATUS_OK;
        text_append(list, sizeof list, "%s%s", v ? ", " : "", looks[v]);
    }
    return read_fail(reader, "look: there is no view %.40s; there are %s", text, list);
}

static int read_same(struct reader *reader, const char *text)
{
    if (!reader->step->answer.value) return read_fail(reader, "same: belongs to an answer: above it");
    reader->step->same = text;
    return STATUS_OK;
}

static int read_question(struct reader *reader, const char *text)
{
    const bool predict = !strcmp(reader->directive, "predict"), quiz = !strcmp(reader->directive, "quiz");
    struct lab_step *step = reader->step;
    if (step->ask != LAB_READ)
        return read_fail(reader, "this part asks something already; begin another with ## TITLE");
    step->ask = predict ? LAB_PREDICT : quiz ? LAB_QUIZ : LAB_TASK;
    return read_prose(reader, &step->question, text);
}

static int read_answer(struct reader *reader, const char *text)
{
    if (reader->step->ask != LAB_PREDICT) return read_fail(reader, "answer: belongs to a predict: above it");
    if (reader->step->answer.value) return read_fail(reader, "there is an answer already");
    return read_answer_line(reader, &reader->step->answer, text);
}

static int read_wrong(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (!step->answer.value) return read_fail(reader, "wrong: belongs to an answer: above it");
    if (step->wrong_count == LAB_WRONGS_MAX)
        return read_fail(reader, "there are more than %d wrong answers", LAB_WRONGS_MAX);
    return read_wrong_line(reader, &step->wrong[step->wrong_count++], &step->answer, text);
}

static int read_choice(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    const char *bar = strstr(text, " | ");
    if (step->ask != LAB_QUIZ) return read_fail(reader, "choices belong to a quiz: above them");
    if (step->choice_count == LAB_CHOICES_MAX)
        return read_fail(reader, "a quiz has at most %d choices", LAB_CHOICES_MAX);
    if (!bar) return read_fail(reader, "a choice needs a reply: + TEXT | REPLY (right), - TEXT | REPLY (wrong)");
    struct lab_choice *choice = &step->choice[step->choice_count++];
    *choice = (struct lab_choice){.line = reader->line, .right = *reader->directive == '+'};
    const char *said = pool_text(&reader->lab->pool, text, (size_t)(bar - text));
    if (!said) return read_fail(reader, "no memory");
    return read_prose(reader, &choice->text, said) || read_prose(reader, &choice->reply, bar + 3) ? reader->status
                                                                                                  : STATUS_OK;
}

static int read_check(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (step->check_count == LAB_CHECKS_MAX) return read_fail(reader, "a part has at most %d checks", LAB_CHECKS_MAX);
    return read_check_line(reader, &step->check[step->check_count++], text);
}

static int read_act(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    const bool before = !strcmp(reader->directive, "before"), solution = !strcmp(reader->directive, "solution");
    if (solution && step->ask != LAB_TASK) return read_fail(reader, "solution: belongs to a task: above it");
    if (!before && !solution && step->ask == LAB_TASK)
        return read_fail(reader, "in a task the learner acts: use before: or solution:");
    reader->before_last = before;
    struct lab_actions *list = before ? &step->before : solution ? &step->solution : &step->actions;
    const int first = list->count;
    int status = read_action(reader, list, text);
    for (int a = first; !status && reader->lab->trace && a < list->count; a++)
        if (list->at[a].act != LAB_GO)
            status = read_fail(reader, "%.40s: a trace can only be looked at: go OPERATION", text);
    return status;
}

/* Kept in the order of the actions around it. Of a task: when it is done, unless it stands with its before: lines. */
int read_keep(struct reader *reader, const char *text)
{
    struct lab_action unplaced;
    if (reader->names_only) return read_keep_line(reader, &unplaced, text);
    struct lab_actions *list = reader->before_last ? &reader->step->before : &reader->step->actions;
    if (list->count == LAB_ACTIONS_MAX) return read_fail(reader, "there are more than %d actions", LAB_ACTIONS_MAX);
    return read_keep_line(reader, &list->at[list->count++], text);
}

static int read_hint(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (step->hint_count == LAB_HINTS_MAX)
        return read_fail(reader, "there are %d hints at most: a nudge, the formula, the answer", LAB_HINTS_MAX);
    return read_prose(reader, &step->hint[step->hint_count++], text);
}

static int read_explain(struct reader *reader, const char *text)
{
    if (reader->in_explain) return read_fail(reader, "there is an explanation already");
    if (read_prose_end(reader)) return reader->status;
    reader->in_explain = true;
    read_prose_line(reader, text);
    return reader->status;
}

enum place { IN_LAB = 1, IN_STEP = 2, OF_RUN = 4 }; /* OF_RUN: not in a lab about traces */
static const struct {
    const char *name;
    unsigned place;
    int (*read)(struct reader *, const char *text);
} directives[] = {
    {"about", IN_LAB, read_about},
    {"minutes", IN_LAB, read_minutes},
    {"trace", IN_LAB | IN_STEP, read_trace},
    {"set", IN_LAB | OF_RUN, read_set},
    {"try", IN_LAB | OF_RUN, read_try},
    {"elsewhere", IN_LAB, read_elsewhere},
    {"setup", IN_STEP | OF_RUN, read_setup},
    {"resume", IN_STEP | OF_RUN, read_resume},
    {"look", IN_STEP, read_look},
    {"before", IN_STEP, read_act},
    {"predict", IN_STEP, read_question},
    {"answer", IN_STEP, read_answer},
    {"wrong", IN_STEP, read_wrong},
    {"same", IN_STEP, read_same},
    {"quiz", IN_STEP, read_question},
    {"task", IN_STEP | OF_RUN, read_question},
    {"solution", IN_STEP, read_act},
    {"do", IN_STEP, read_act},
    {"keep", IN_STEP, read_keep},
    {"check", IN_STEP, read_check},
    {"hint", IN_STEP, read_hint},
    {"explain", IN_STEP, read_explain},
    {"+", IN_STEP, read_choice},
    {"-", IN_STEP, read_choice},
};
enum { DIRECTIVES = sizeof directives / sizeof *directives };

bool read_is_directive(const char *name)
{
    for (int d = 0; d < DIRECTIVES; d++)
        if (strcmp(directives[d].name, name) == 0) return true;
    return false;
}

int read_directive(struct reader *reader, const char *name, const char *text)
{
    const char *names[DIRECTIVES];
    for (int d = 0; d < DIRECTIVES; d++) {
        names[d] = directives[d].name;
        if (strcmp(names[d], name) != 0) continue;
        const unsigned place = directives[d].place;
        if (!(place & (reader->step ? IN_STEP : IN_LAB)))
            return read_fail(reader,
                             reader->step ? "%s: belongs above the first part"
                                          : "%s: belongs into a part, below a line ## TITLE",
                             name);
        if (place & OF_RUN && reader->lab->trace)
            return read_fail(reader, "%s: this lab is about a trace; nothing runs in it", name);
        if (reader->in_explain) return read_fail(reader, "explain: comes last in a part; put %s: above it", name);
        reader->directive = name;
        return directives[d].read(reader, text);
    }
    const char *nearest = nearest_name(name, names, DIRECTIVES);
    if (nearest) return read_fail(reader, "there is no directive %s:; did you mean %s:?", name, nearest);
    return read_fail(
        reader,
        "there is no directive %s:; they stand in docs/LABS.md (prose may not begin with a small word and a colon)",
        name);
}
