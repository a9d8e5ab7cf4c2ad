/* "Did you mean": the known names nearest to a mistyped one. */
#ifndef ENGINE_BASE_NEAREST_H
#define ENGINE_BASE_NEAREST_H

/* The names at the smallest edit distance (insert, delete, replace, swap of neighbours) if that is at most a third of the
 * longer name's letters; a name that begins with `typed` stands between distances 1 and 2, one that has it as a word
 * between 2 and 3. At most `most` of those that are equally near, in their order; equal names once. Returns how many. */
int nearest_names(const char *typed, const char *const *names, int count, const char **nearest, int most);

/* The first of them, or NULL. */
const char *nearest_name(const char *typed, const char *const *names, int count);

#endif
