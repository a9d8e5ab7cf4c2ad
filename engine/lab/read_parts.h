/* Internals of the labs' reader: lines, steps (read.c), directives (read_directives.c), contents (read_text.c). */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "engine/base/text_stream.h"
#include "engine/lab/lab.h"

struct reader {
    struct lab *lab;
    struct lab_step *step;  /* NULL: before the first step */
    const char *file;
    const char *directive;  /* name of the directive being read */
    int line, lines;        /* number of the line being read; of the next line */
    bool names_only;        /* the first pass: collects kept names, so that earlier lines can use them */
    bool in_explain;        /* prose belongs to the explanation */
    bool after_prose;       /* the line before was prose */
    bool before_last;       /* the last action belonged to before: */
    struct { struct text_stream text; int line; bool blank, own; } prose; /* paragraphs so far; text.out NULL: none */
    struct lab_names names; /* kept so far */
    struct error *err;
    int status;
};

int read_fail(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool read_is_directive(const char *name);
int read_directive(struct reader *reader, const char *name, const char *text);
int read_keep(struct reader *reader, const char *text); /* also of the first pass */

int read_prose(struct reader *reader, struct prose *prose, const char *text);
/* Adds a line to the present text; ends the text. */
void read_prose_line(struct reader *reader, const char *text);
int read_prose_end(struct reader *reader);

int read_answer_line(struct reader *reader, struct lab_answer *answer, const char *text);
int read_wrong_line(struct reader *reader, struct lab_wrong *wrong, const struct lab_answer *answer, const char *text);
int read_check_line(struct reader *reader, struct lab_check *check, const char *text);
int read_keep_line(struct reader *reader, struct lab_action *keep, const char *text);
int read_action(struct reader *reader, struct lab_actions *actions, const char *text);

/* ---- lab.c: the memory of a lab, freed as a whole. NULL: no memory. ---- */

void *pool_take(struct lab_pool *pool, size_t bytes); /* zeroed */
char *pool_text(struct lab_pool *pool, const char *text, size_t length);
void pool_free(struct lab_pool *pool);
