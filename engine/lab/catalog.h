/* Which labs there are. Those of the source's labs/ are assembled into the program, so that it works from any folder. Their names
 * are always theirs: a folder labs/NAME that somebody left in the current folder does not replace one. Its path plays it. */
#ifndef ENGINE_LAB_CATALOG_H
#define ENGINE_LAB_CATALOG_H

#include "engine/lab/lab.h"

int lab_catalog_count(void);
const char *lab_catalog_name(int number);
int lab_catalog_number(const char *name); /* -1: no lab of the catalog is called so */

/* A lab to begin one's own with, for `zerolab lab new`: labs/skeleton.md, whose title is NAME. */
extern const char lab_skeleton[];

/* A name of the catalog, NAME of labs/NAME/lab.md, a folder with a lab.md in it, or such a file. STATUS_USAGE: no such lab
 * (the nearest is named), or what lab_read() says; STATUS_INPUT: it cannot be read. */
int lab_open(struct lab **out, const char *name, struct error *err);

/* Whether labs/NAME/lab.md of the current folder is another text than the lab of that name that comes with the program. */
bool lab_hides_own(const char *name);

#endif
