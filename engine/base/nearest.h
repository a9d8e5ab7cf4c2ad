/* "Did you mean": the known name nearest to a mistyped one. */
#ifndef ENGINE_BASE_NEAREST_H
#define ENGINE_BASE_NEAREST_H

/* The name at the smallest edit distance (insert, delete, replace, swap of neighbours) if that is at most a third of the
 * longer name's letters, or a name that begins with `typed`; else NULL. The first of equals wins. */
const char *nearest_name(const char *typed, const char *const *names, int count);

#endif
