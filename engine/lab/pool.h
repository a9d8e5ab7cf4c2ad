/* Memory pool of a lab's reader, freed as a whole. */
#ifndef ENGINE_LAB_POOL_H
#define ENGINE_LAB_POOL_H

#include <stddef.h>

struct expression;
struct lab_pool;

struct lab_pool *pool_new(void);              /* NULL: no memory (so do the functions below) */
void pool_free(struct lab_pool *pool);
void *pool_take(struct lab_pool *pool, size_t bytes); /* zeroed */
char *pool_text(struct lab_pool *pool, const char *text, size_t length);
/* The pool frees the expression; false: no memory, and it has been freed. */
int pool_owns(struct lab_pool *pool, struct expression *expression);

#endif
