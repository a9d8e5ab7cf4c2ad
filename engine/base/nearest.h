/* "Did you mean": the known names nearest to a mistyped one. */
#pragma once

/* Finds the names at the smallest edit distance (insert, delete, replace, swap of neighbours) if it is at most a third of the
 * longer name's length, or 1. A name that begins with `typed` ranks between distances 1 and 2, a name that has it as a word
 * between 2 and 3. Returns how many names are equally near, at most `most`, in their order and without duplicates. */
int nearest_names(const char *typed, const char *const *names, int count, const char **nearest, int most);

/* The first name that nearest_names() finds, or NULL. */
const char *nearest_name(const char *typed, const char *const *names, int count);
