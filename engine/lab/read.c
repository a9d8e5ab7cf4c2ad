/* Reads a lab's file: first into logical lines (a directive with its indented continuations, or a line of prose), then each by
 * the table of directives. See docs/LABS.md for the format. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/config/command.h"
#include "engine/lab/contest.h"
#include "engine/lab/lab.h"
#include "engine/lab/pool.h"
#include "engine/lab/read_parts.h"

enum { DIRECTIVE_MAX = 24 };

int read_fail(struct reader *reader, const char *format, ...)
{
    char text[360];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!reader->status)
        reader->status = error_set(reader->err, STATUS_USAGE, "%.100s:%d: %s", reader->file, reader->line, text);
    return reader->status;
}

/* ---- directives ---------------------------------------------------------------------------------------------------- */

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

/* Settings are checked against those that they stand upon. */
static int read_settings(struct reader *reader, const char *text, const char **sets, int *count)
{
    char *read[LAB_SETS_MAX];
    int more;
    struct error err;
    if (lab_settings(read, &more, text, sets, *count, &err)) return read_fail(reader, "%s", err.text);
    for (int i = 0; i < more; i++) {
        const char *kept = *count < LAB_SETS_MAX ? pool_text(reader->lab->pool, read[i], strlen(read[i])) : NULL;
        if (kept) sets[(*count)++] = kept;
        else read_fail(reader, "there are more than %d settings", LAB_SETS_MAX);
        free(read[i]);
    }
    return reader->status;
}

static int read_set(struct reader *reader, const char *text)
{
    return read_settings(reader, text, reader->lab->sets, &reader->lab->set_count);
}

/* "KEY=A|B|C" */
static int read_try(struct reader *reader, const char *text)
{
    struct lab *lab = reader->lab;
    struct lab_try *try = &lab->tries.at[lab->tries.count];
    size_t key = strcspn(text, "=");
    if (!text[key]) return read_fail(reader, "try: KEY=A|B|C");
    if (lab->tries.count == LAB_TRIES_MAX) return read_fail(reader, "a lab tries at most %d keys", LAB_TRIES_MAX);
    *try = (struct lab_try){.key = pool_text(lab->pool, text, key)};
    for (const char *value = text + key + 1;; value += strcspn(value, "|") + 1) {
        const size_t length = strcspn(value, "|");
        if (!length) return read_fail(reader, "try: KEY=A|B|C: a value is missing");
        if (try->count == LAB_TRY_VALUES_MAX)
            return read_fail(reader, "a lab tries at most %d values of a key", LAB_TRY_VALUES_MAX);
        try->values[try->count++] = pool_text(lab->pool, value, length);
        if (!try->key || !try->values[try->count - 1]) return read_fail(reader, "no memory");
        if (!value[length]) break;
    }
    lab->tries.count++;
    return reader->status;
}

/* A setup stands upon the lab's own settings, not on those of the step before. */
static int read_setup(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (!step->has_setup) {
        memcpy(step->sets, reader->lab->sets, sizeof step->sets);
        step->set_count = reader->lab->set_count;
        step->has_setup = true;
    }
    return read_settings(reader, text, step->sets, &step->set_count);
}

/* "checkpoint TAG" among these actions. */
static bool is_saved_by(const struct lab_actions *actions, const char *tag)
{
    for (int a = 0; a < actions->count; a++) {
        const struct lab_action *action = &actions->at[a];
        const char *line = action->act == LAB_COMMAND && action->text.count == 1 ? action->text.pieces[0].text : NULL;
        if (!line || strncmp(line, "checkpoint", 10) != 0) continue;
        if (!tag || strcmp(line + 10 + strspn(line + 10, " ="), tag) == 0) return true;
    }
    return false;
}

/* tag NULL: any. */
static bool is_saved_before(const struct lab *lab, int end, const char *tag)
{
    for (int s = 0; s < end; s++) {
        const struct lab_step *step = &lab->steps[s];
        if (is_saved_by(&step->before, tag) || is_saved_by(&step->actions, tag) || is_saved_by(&step->solution, tag))
            return true;
    }
    return false;
}

static int read_resume(struct reader *reader, const char *text)
{
    if (!is_saved_before(reader->lab, reader->lab->step_count - 1, text))
        return read_fail(reader, "resume: %.40s: no step before this one has do: checkpoint %.40s", text, text);
    reader->step->resume = text;
    return read_setup(reader, "");
}

/* The views of the screen (tui/views/views.def) that show a run; tests/test_lab_frames.c holds them against it. */
static const char *const looks[] = {"overview", "timeline", "memory", "tiers",  "buckets",
                                    "shards",   "schedule", "why",    "knobs",  "collectives",
                                    "loss",     "steps",    "text",   "events", "oom"};
enum { LOOKS = sizeof looks / sizeof *looks };

static int read_look(struct reader *reader, const char *text)
{
    char list[200];
    int used = 0;
    reader->step->look = text;
    for (int v = 0; v < LOOKS; v++) {
        if (strcmp(looks[v], text) == 0) return STATUS_OK;
        used += snprintf(list + used, sizeof list - (size_t)used, "%s%s", v ? ", " : "", looks[v]);
    }
    return read_fail(reader, "look: there is no view %.40s; there are %s", text, list);
}

static int ask(struct reader *reader, enum lab_ask what, const char *text)
{
    struct lab_step *step = reader->step;
    if (step->ask != LAB_READ)
        return read_fail(reader, "this step asks something already; begin another with ## TITLE");
    step->ask = what;
    return read_prose(reader, &step->question, text);
}

static int read_predict(struct reader *reader, const char *text)
{
    return ask(reader, LAB_PREDICT, text);
}

static int read_quiz(struct reader *reader, const char *text)
{
    return ask(reader, LAB_QUIZ, text);
}

static int read_task(struct reader *reader, const char *text)
{
    return ask(reader, LAB_TASK, text);
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

static int read_choice(struct reader *reader, const char *text, bool right)
{
    struct lab_step *step = reader->step;
    const char *bar = strstr(text, " | ");
    if (step->ask != LAB_QUIZ) return read_fail(reader, "choices belong to a quiz: above them");
    if (step->choice_count == LAB_CHOICES_MAX)
        return read_fail(reader, "a quiz has at most %d choices", LAB_CHOICES_MAX);
    if (!bar) return read_fail(reader, "a choice needs a reply: + TEXT | REPLY (right), - TEXT | REPLY (wrong)");
    struct lab_choice *choice = &step->choice[step->choice_count++];
    *choice = (struct lab_choice){.line = reader->line, .right = right};
    const char *said = pool_text(reader->lab->pool, text, (size_t)(bar - text));
    if (!said) return read_fail(reader, "no memory");
    return read_prose(reader, &choice->text, said) || read_prose(reader, &choice->reply, bar + 3) ? reader->status
                                                                                                  : STATUS_OK;
}

static int read_right_choice(struct reader *reader, const char *text)
{
    return read_choice(reader, text, true);
}

static int read_wrong_choice(struct reader *reader, const char *text)
{
    return read_choice(reader, text, false);
}

static int read_check(struct reader *reader, const char *text)
{
    struct lab_step *step = reader->step;
    if (step->check_count == LAB_CHECKS_MAX) return read_fail(reader, "a step has at most %d checks", LAB_CHECKS_MAX);
    return read_check_line(reader, &step->check[step->check_count++], text);
}

static int read_before(struct reader *reader, const char *text)
{
    reader->before_last = true;
    return read_action(reader, &reader->step->before, text);
}

static int read_do(struct reader *reader, const char *text)
{
    if (reader->step->ask == LAB_TASK) return read_fail(reader, "in a task the learner acts: use before: or solution:");
    reader->before_last = false;
    return read_action(reader, &reader->step->actions, text);
}

static int read_solution(struct reader *reader, const char *text)
{
    if (reader->step->ask != LAB_TASK) return read_fail(reader, "solution: belongs to a task: above it");
    reader->before_last = false;
    return read_action(reader, &reader->step->solution, text);
}

/* Kept in the order of the actions around it. Of a task: when it is done, unless it stands with its before: lines. */
static int read_keep(struct reader *reader, const char *text)
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

enum place { IN_LAB = 1, IN_STEP = 2 };
static const struct {
    const char *name;
    enum place place;
    int (*read)(struct reader *, const char *text);
} directives[] = {
    {"about", IN_LAB, read_about},      {"minutes", IN_LAB, read_minutes},    {"set", IN_LAB, read_set},
    {"try", IN_LAB, read_try},          {"setup", IN_STEP, read_setup},       {"resume", IN_STEP, read_resume},
    {"look", IN_STEP, read_look},       {"before", IN_STEP, read_before},     {"predict", IN_STEP, read_predict},
    {"answer", IN_STEP, read_answer},   {"wrong", IN_STEP, read_wrong},       {"quiz", IN_STEP, read_quiz},
    {"task", IN_STEP, read_task},       {"solution", IN_STEP, read_solution}, {"do", IN_STEP, read_do},
    {"keep", IN_STEP, read_keep},       {"check", IN_STEP, read_check},       {"hint", IN_STEP, read_hint},
    {"explain", IN_STEP, read_explain}, {"+", IN_STEP, read_right_choice},    {"-", IN_STEP, read_wrong_choice},
};
enum { DIRECTIVES = sizeof directives / sizeof *directives };

static bool is_directive(const char *name)
{
    for (int d = 0; d < DIRECTIVES; d++)
        if (strcmp(directives[d].name, name) == 0) return true;
    return false;
}

static int directive(struct reader *reader, const char *name, const char *text)
{
    const char *names[DIRECTIVES];
    for (int d = 0; d < DIRECTIVES; d++) {
        names[d] = directives[d].name;
        if (strcmp(names[d], name) != 0) continue;
        bool in_step = reader->step != NULL, of_step = directives[d].place == IN_STEP;
        if (in_step != of_step)
            return read_fail(
                reader, of_step ? "%s: belongs into a step, below a line ## TITLE" : "%s: belongs above the first step",
                name);
        if (reader->in_explain) return read_fail(reader, "explain: comes last in a step; put %s: above it", name);
        return directives[d].read(reader, text);
    }
    const char *nearest = nearest_name(name, names, DIRECTIVES);
    if (nearest) return read_fail(reader, "there is no directive %s:; did you mean %s:?", name, nearest);
    return read_fail(
        reader,
        "there is no directive %s:; they stand in docs/LABS.md (prose may not begin with a small word and a colon)",
        name);
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* What the whole of a step lacks is said at its title's line. */
static int step_fails(struct reader *reader, const char *lacks)
{
    reader->line = reader->step->line;
    return read_fail(reader, "step \"%.80s\" %s", reader->step->title, lacks);
}

static int check_quiz(struct reader *reader, const struct lab_step *step)
{
    int right = 0;
    for (int c = 0; c < step->choice_count; c++) right += step->choice[c].right;
    if (step->choice_count < 2 || right != 1)
        return step_fails(reader, "is a quiz: it needs two choices or more, one of them right (+)");
    return STATUS_OK;
}

/* What a step must have. */
static int step_is_whole(struct reader *reader)
{
    const struct lab_step *step = reader->step;
    if (!step) return STATUS_OK;
    if (read_prose_end(reader)) return reader->status;
    if (step->ask == LAB_PREDICT && !step->answer.value) return step_fails(reader, "predicts: it needs an answer:");
    if (step->ask == LAB_TASK && (!step->check_count || !step->solution.count))
        return step_fails(reader, "is a task: it needs a check: and a solution:");
    if ((step->ask == LAB_PREDICT || step->ask == LAB_TASK) && step->hint_count != LAB_HINTS_MAX)
        return step_fails(reader, "needs three hints: a nudge, the formula, the answer");
    if (step->ask != LAB_READ && !step->explain.count) return step_fails(reader, "asks something: it needs explain:");
    if (!step->text.count && !step->question.count) return step_fails(reader, "says nothing");
    return step->ask == LAB_QUIZ ? check_quiz(reader, step) : STATUS_OK;
}

static int begin_step(struct reader *reader, const char *title)
{
    struct lab *lab = reader->lab;
    if (step_is_whole(reader)) return reader->status;
    struct error err;
    if (!lab->step_count && contest_check(&lab->tries, lab->sets, lab->set_count, &err))
        return read_fail(reader, "%s", err.text);
    if (lab->step_count == LAB_STEPS_MAX) return read_fail(reader, "a lab has at most %d steps", LAB_STEPS_MAX);
    if (!*title) return read_fail(reader, "a step has a title: ## TITLE");
    reader->step = &lab->steps[lab->step_count++];
    *reader->step = (struct lab_step){.line = reader->line, .title = title};
    reader->in_explain = reader->before_last = false;
    return STATUS_OK;
}

static int begin_lab(struct reader *reader, const char *title)
{
    if (reader->lab->title) return read_fail(reader, "a file holds one lab; steps begin with ## TITLE");
    if (!*title) return read_fail(reader, "the lab has a title: # TITLE");
    return reader->lab->title = title, STATUS_OK;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    size_t length = newline ? (size_t)(newline - at) : (size_t)(end - at);
    return length;
}

static const char *next_line(const char *at, const char *end)
{
    size_t length = line_length(at, end);
    return at + length < end ? at + length + 1 : end;
}

static size_t trimmed(const char *at, size_t length)
{
    while (length && isspace((unsigned char)at[length - 1])) length--;
    return length;
}

/* "predict: ..." with a small word, or a choice; returns the letters of the name. */
static size_t directive_name(const char *at, size_t length)
{
    size_t letters = 0;
    if (length > 2 && (*at == '+' || *at == '-') && at[1] == ' ') return 1;
    while (letters < length && letters < DIRECTIVE_MAX && (islower((unsigned char)at[letters]) || at[letters] == '_'))
        letters++;
    bool colon = letters && letters < length && at[letters] == ':' && (letters + 1 == length || at[letters + 1] == ' ');
    return colon ? letters : 0;
}

static bool goes_on(const char *at, const char *end)
{
    size_t length = at < end ? trimmed(at, line_length(at, end)) : 0;
    return length > 2 && at[0] == ' ' && at[1] == ' ';
}

/* The rest of a directive's line and its indented lines, joined by blanks. */
static char *joined(struct reader *reader, const char *at, size_t length, const char **rest, const char *end)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    while (length && *at == ' ') at++, length--;
    fwrite(at, 1, trimmed(at, length), out);
    for (; goes_on(*rest, end); *rest = next_line(*rest, end), reader->lines++) {
        size_t more = trimmed(*rest, line_length(*rest, end)), indent = strspn(*rest, " ");
        fprintf(out, " %.*s", (int)(more - indent), *rest + indent);
    }
    fclose(out);
    char *kept = text ? pool_text(reader->lab->pool, text, bytes) : NULL;
    free(text);
    return kept;
}

static int one_heading(struct reader *reader, const char *at, size_t length)
{
    size_t hashes = strspn(at, "#"), skip = hashes + strspn(at + hashes, " ");
    if (hashes > 2 || skip > length) return read_fail(reader, "# TITLE begins the lab, ## TITLE a step");
    char *text = pool_text(reader->lab->pool, at + skip, length - skip);
    return !text ? read_fail(reader, "no memory") : hashes == 1 ? begin_lab(reader, text) : begin_step(reader, text);
}

/* A small word and a colon; within a paragraph only if it is one that we know. */
static bool is_directive_line(const struct reader *reader, const char *at, size_t length, char name[DIRECTIVE_MAX + 1])
{
    size_t letters = directive_name(at, length);
    memcpy(name, at, letters);
    name[letters] = '\0';
    if (!letters || (reader->in_explain && !isalpha((unsigned char)*name))) return false;
    return !reader->after_prose || is_directive(name);
}

static int one_directive(struct reader *reader, const char *name, const char *at, size_t length, const char **rest,
                         const char *end)
{
    size_t skip = strlen(name) + (isalpha((unsigned char)*name) != 0);
    if (skip == length && strcmp(name, "explain") == 0)
        return directive(reader, name, ""); /* prose follows, also as it is */
    char *text = joined(reader, at + skip, length - skip, rest, end);
    if (!text) return read_fail(reader, "no memory");
    return directive(reader, name, text);
}

static int one_line(struct reader *reader, const char *at, size_t length, const char **rest, const char *end)
{
    char name[DIRECTIVE_MAX + 1];
    bool comment = length >= 2 && at[0] == '/' && at[1] == '/', told = is_directive_line(reader, at, length, name);
    reader->after_prose = !comment && !told && length && *at != '#';
    if (comment) return STATUS_OK;
    if (told) return one_directive(reader, name, at, length, rest, end);
    if (length && *at == '#') return one_heading(reader, at, length);
    if (!reader->step && length) return read_fail(reader, "text stands in steps, below a line ## TITLE");
    char *text = pool_text(reader->lab->pool, at, length);
    if (text) read_prose_line(reader, text);
    return text ? reader->status : read_fail(reader, "no memory");
}

/* The first pass: only what is kept. */
static int read_names(struct reader *reader, const char *at, const char *end)
{
    reader->names_only = true;
    reader->lines = 1;
    while (at < end && !reader->status) {
        size_t length = trimmed(at, line_length(at, end));
        const char *rest = next_line(at, end);
        reader->line = reader->lines++;
        if (length && directive_name(at, length) == 4 && strncmp(at, "keep", 4) == 0) {
            char *text = joined(reader, at + 5, length - 5, &rest, end);
            if (!text) return read_fail(reader, "no memory");
            read_keep(reader, text);
        }
        at = rest;
    }
    reader->names_only = false;
    return reader->status;
}

static int read_lines(struct reader *reader, const char *at, const char *end)
{
    if (read_names(reader, at, end)) return reader->status;
    reader->lines = 1;
    while (at < end && !reader->status) {
        size_t length = trimmed(at, line_length(at, end));
        const char *rest = next_line(at, end);
        reader->line = reader->lines++;
        one_line(reader, at, length, &rest, end);
        at = rest;
    }
    if (reader->status) return reader->status;
    if (step_is_whole(reader)) return reader->status;
    reader->line = 1;
    if (!reader->lab->title) return read_fail(reader, "a lab begins with its title: # TITLE");
    if (!reader->lab->minutes) return read_fail(reader, "say how long it takes: minutes: 10");
    if (!reader->lab->about) return read_fail(reader, "say in a line what it is about: about: ...");
    return reader->lab->step_count ? STATUS_OK : read_fail(reader, "there are no steps; one begins with ## TITLE");
}

/* "labs/zero-1/lab.md" -> "zero-1" */
static void name_from(char *name, size_t room, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *begin = file;
    for (const char *at = file; slash && at < slash; at++)
        if (*at == '/') begin = at + 1;
    size_t length = slash ? (size_t)(slash - begin) : strlen(file);
    snprintf(name, room, "%.*s", (int)length, begin);
}

/* What can be said of a text before it is taken apart. */
static int check_text(const char *file, const char *text, size_t length, struct error *err)
{
    const bool too_long = length > LAB_FILE_BYTES_MAX;
    const char *zero = memchr(text, '\0', length), *at = too_long ? text + LAB_FILE_BYTES_MAX : zero;
    int line = 1;
    if (!at) return STATUS_OK;
    for (const char *before = text; before < at; before++) line += *before == '\n';
    if (too_long)
        return error_set(err, STATUS_USAGE, "%.100s:%d: a lab's file has at most %d KiB, and they end here", file, line,
                         LAB_FILE_BYTES_MAX >> 10);
    return error_set(err, STATUS_USAGE, "%.100s:%d: this is no text: it holds a zero byte", file, line);
}

int lab_read(struct lab **out, const char *file, const char *text, size_t length, struct error *err)
{
    *out = NULL;
    if (check_text(file, text, length, err)) return STATUS_USAGE;
    struct lab_pool *pool = pool_new();
    struct lab *lab = pool ? pool_take(pool, sizeof *lab) : NULL;
    if (lab) lab->pool = pool, lab->steps = pool_take(pool, LAB_STEPS_MAX * sizeof *lab->steps);
    char *copy =
        lab && lab->steps ? pool_text(pool, text, length) : NULL; /* ends in a zero byte, for strspn() and its like */
    if (!copy) return pool_free(pool), error_set(err, STATUS_RUN, "no memory for a lab");
    name_from(lab->name, sizeof lab->name, file);
    struct reader reader = {.lab = lab, .file = file, .err = err};
    int status = read_lines(&reader, copy, copy + length);
    read_release(&reader);
    if (status) lab_free(lab);
    else *out = lab;
    return status;
}

void lab_free(struct lab *lab)
{
    if (lab) pool_free(lab->pool);
}

const char *lab_resume_at(const struct lab *lab, int step)
{
    const char *resume = NULL;
    for (int s = 0; s <= step && s < lab->step_count; s++)
        if (lab->steps[s].has_setup) resume = lab->steps[s].resume;
    return resume;
}

bool lab_saves(const struct lab *lab)
{
    return is_saved_before(lab, lab->step_count, NULL);
}

void lab_sets_at(const struct lab *lab, int step, const char *const **sets, int *count)
{
    *sets = lab->sets;
    *count = lab->set_count;
    for (int s = 0; s <= step && s < lab->step_count; s++) {
        if (!lab->steps[s].has_setup) continue;
        *sets = lab->steps[s].sets;
        *count = lab->steps[s].set_count;
    }
}
