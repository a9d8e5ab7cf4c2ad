/* Which labs there are. Those of labs/ are assembled into the program, so that it works from any folder; a folder labs/NAME
 * below the current one goes before them, so that a teacher's edit is seen at once. */
#ifndef ENGINE_LAB_CATALOG_H
#define ENGINE_LAB_CATALOG_H

#include "engine/lab/lab.h"

int lab_catalog_count(void);
const char *lab_catalog_name(int number);

/* A name of the catalog, a folder with a lab.md in it, or such a file. STATUS_USAGE: no such lab (the nearest is named), or
 * what lab_read() says; STATUS_INPUT: it cannot be read. */
int lab_open(struct lab **out, const char *name, struct error *err);

#endif
