/* Reads a lab's file: first into logical lines (a directive with its indented continuations, or a line of prose), then each by
 * the table of directives. See docs/LABS.md for the format. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/differences.h"
#include "engine/base/words.h"
#include "engine/config/keys.h"
#include "engine/lab/read_parts.h"

enum { DIRECTIVE_MAX = 24 };

int read_fail(struct reader *reader, const char *format, ...)
{
    char text[360];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    if (!reader->status)
        reader->status = error_set(reader->err, STATUS_USAGE, "%.100s:%d: %s", reader->file, reader->line, text);
    return reader->status;
}

/* ---- steps --------------------------------------------------------------------------------------------------------- */

/* An error about a whole step gives the line of its title. */
static int step_fails(struct reader *reader, const char *lacks)
{
    reader->line = reader->step->line;
    return read_fail(reader, "part \"%.80s\" %s", reader->step->title, lacks);
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
    if (!lab->step_count && contest_check(&lab->tries, &lab->sets, &err))
        return read_fail(reader, "%s", err.text);
    if (lab->step_count == LAB_STEPS_MAX) return read_fail(reader, "a lab has at most %d parts", LAB_STEPS_MAX);
    if (!*title) return read_fail(reader, "a part has a title: ## TITLE");
    reader->step = &lab->steps[lab->step_count++];
    *reader->step = (struct lab_step){.line = reader->line, .title = title};
    reader->in_explain = reader->before_last = false;
    return STATUS_OK;
}

/* The last step of a lab with elsewhere: what DeepSpeed and FSDP2 do otherwise. */
static int end_elsewhere(struct reader *reader)
{
    char name[40], text[DIFFERENCE_MAX + 80];
    const char *names = reader->lab->elsewhere;
    if (begin_step(reader, "Elsewhere: " DEEPSPEED_READ ", " FSDP2_READ)) return reader->status;
    for (int bytes; sscanf(names, "%39s%n", name, &bytes) == 1; names += bytes) {
        const struct difference *row = difference_named(name);
        /* The key is the subject where a clause speaks of it: "this size". */
        const bool speaks = row->key && (strstr(row->here, "this ") || strstr(row->deepspeed, "this "));
        const int lead = snprintf(text, sizeof text, "%s: ", speaks ? key_leaf(row->key) : row->subject);
        difference_say(text + lead, row);
        read_prose_line(reader, text);
        read_prose_line(reader, "");
    }
    return reader->status;
}

static int begin_lab(struct reader *reader, const char *title)
{
    if (reader->lab->title) return read_fail(reader, "a file holds one lab; parts begin with ## TITLE");
    if (!*title) return read_fail(reader, "the lab has a title: # TITLE");
    return reader->lab->title = title, STATUS_OK;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

static size_t line_length(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return (size_t)((newline ? newline : end) - at);
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
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    while (length && *at == ' ') at++, length--;
    fwrite(at, 1, trimmed(at, length), out);
    for (; goes_on(*rest, end); *rest = next_line(*rest, end), reader->lines++) {
        size_t more = trimmed(*rest, line_length(*rest, end)), indent = strspn(*rest, " ");
        fprintf(out, " %.*s", (int)(more - indent), *rest + indent);
    }
    char *whole = text_stream_close(&text), *kept = whole ? pool_text(&reader->lab->pool, whole, text.bytes) : NULL;
    free(whole);
    return kept;
}

static int one_heading(struct reader *reader, const char *at, size_t length)
{
    size_t hashes = strspn(at, "#"), skip = hashes + strspn(at + hashes, " ");
    if (hashes > 2 || skip > length) return read_fail(reader, "# TITLE begins the lab, ## TITLE a part");
    char *text = pool_text(&reader->lab->pool, at + skip, length - skip);
    return !text ? read_fail(reader, "no memory") : hashes == 1 ? begin_lab(reader, text) : begin_step(reader, text);
}

/* A small word and a colon; within a paragraph only if it is one that we know. */
static bool is_directive_line(const struct reader *reader, const char *at, size_t length, char name[DIRECTIVE_MAX + 1])
{
    size_t letters = directive_name(at, length);
    memcpy(name, at, letters);
    name[letters] = '\0';
    if (!letters || (reader->in_explain && !isalpha((unsigned char)*name))) return false;
    return !reader->after_prose || read_is_directive(name);
}

static int one_directive(struct reader *reader, const char *name, const char *at, size_t length, const char **rest,
                         const char *end)
{
    size_t skip = strlen(name) + (isalpha((unsigned char)*name) != 0);
    if (skip == length && strcmp(name, "explain") == 0)
        return read_directive(reader, name, ""); /* prose follows, also as it is */
    char *text = joined(reader, at + skip, length - skip, rest, end);
    if (!text) return read_fail(reader, "no memory");
    return read_directive(reader, name, text);
}

static int one_line(struct reader *reader, const char *at, size_t length, const char **rest, const char *end)
{
    char name[DIRECTIVE_MAX + 1];
    bool comment = length >= 2 && at[0] == '/' && at[1] == '/', told = is_directive_line(reader, at, length, name);
    reader->after_prose = !comment && !told && length && *at != '#';
    if (comment) return STATUS_OK;
    if (told) return one_directive(reader, name, at, length, rest, end);
    if (length && *at == '#') return one_heading(reader, at, length);
    if (!reader->step && length) return read_fail(reader, "text stands in parts, below a line ## TITLE");
    char *text = pool_text(&reader->lab->pool, at, length);
    if (text) read_prose_line(reader, text);
    return text ? reader->status : read_fail(reader, "no memory");
}

/* In the first pass: only what is kept. */
static int one_name(struct reader *reader, const char *at, size_t length, const char **rest, const char *end)
{
    if (directive_name(at, length) != 4 || strncmp(at, "keep", 4) != 0) return STATUS_OK;
    char *text = joined(reader, at + 5, length - 5, rest, end);
    return text ? read_keep(reader, text) : read_fail(reader, "no memory");
}

static int each_line(struct reader *reader, const char *at, const char *end, bool names_only)
{
    reader->names_only = names_only;
    reader->lines = 1;
    while (at < end && !reader->status) {
        size_t length = trimmed(at, line_length(at, end));
        const char *rest = next_line(at, end);
        reader->line = reader->lines++;
        (names_only ? one_name : one_line)(reader, at, length, &rest, end);
        at = rest;
    }
    return reader->status;
}

static int read_lines(struct reader *reader, const char *at, const char *end)
{
    if (each_line(reader, at, end, true) || each_line(reader, at, end, false)) return reader->status;
    if (reader->lab->elsewhere && end_elsewhere(reader)) return reader->status;
    if (step_is_whole(reader)) return reader->status;
    reader->line = 1;
    if (!reader->lab->title) return read_fail(reader, "a lab begins with its title: # TITLE");
    if (!reader->lab->minutes) return read_fail(reader, "say how long it takes: minutes: 10");
    if (!reader->lab->about) return read_fail(reader, "say in a line what it is about: about: ...");
    return reader->lab->step_count ? STATUS_OK : read_fail(reader, "there are no parts; one begins with ## TITLE");
}

/* Checks of the whole text before it is parsed. */
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
    struct lab *lab = calloc(1, sizeof *lab);
    char *copy = lab ? pool_text(&lab->pool, text, length) : NULL; /* ends in a zero byte, for strspn() and its like */
    if (!copy) return free(lab), error_set(err, STATUS_RUN, "no memory for a lab");
    const char *slash = strrchr(file, '/'), *above = slash ? memrchr(file, '/', (size_t)(slash - file)) : NULL;
    const char *name = above ? above + 1 : file; /* "labs/zero-1/lab.md": zero-1 */
    snprintf(lab->name, sizeof lab->name, "%.*s", (int)(slash ? (size_t)(slash - name) : strlen(file)), name);
    lab->folder = slash ? pool_text(&lab->pool, file, (size_t)(slash - file)) : ".";
    struct reader reader = {.lab = lab, .file = file, .err = err};
    int status = read_lines(&reader, copy, copy + length);
    if (reader.prose.text.out) free(text_stream_close(&reader.prose.text));
    if (status) lab_free(lab);
    else *out = lab;
    return status;
}
