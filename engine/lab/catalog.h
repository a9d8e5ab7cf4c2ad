/* The catalog of labs. The labs of the source's labs/ are embedded in the program, so that it works from any folder. A
 * catalog name always means the embedded lab, also if the current folder has a labs/NAME; a path opens that one. */
#pragma once

#include "engine/lab/lab.h"

int lab_catalog_count(void);
const char *lab_catalog_name(int number);
int lab_catalog_number(const char *name); /* the number of this lab; -1: not in the catalog */

/* A recorded trace of an embedded lab; NULL: it has no such file. */
struct lab_trace { const char *lab, *file, *begin, *end; };
const struct lab_trace *lab_catalog_trace(const char *lab, const char *file);

/* The template of `zerolab lab new`: labs/skeleton.md, whose title is NAME. */
extern const char lab_skeleton[];

/* A name of the catalog, NAME of labs/NAME/lab.md, a folder with a lab.md in it, or such a file. STATUS_USAGE: no such lab
 * (the nearest is named), or what lab_read() says; STATUS_INPUT: it cannot be read. */
int lab_open(struct lab **out, const char *name, struct error *err);

/* Whether the current folder has a labs/NAME/lab.md that differs from the embedded lab of that name. */
bool lab_hides_own(const char *name);
