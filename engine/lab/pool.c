#include "engine/lab/read_parts.h"

#include <stdlib.h>
#include <string.h>

/* A list of allocations; an expression is one that has parts of its own. */
struct pooled {
    struct pooled *next;
    struct expression *expression;
    max_align_t bytes[];
};

struct lab_pool {
    struct pooled *newest;
};

struct lab_pool *pool_new(void)
{
    return calloc(1, sizeof(struct lab_pool));
}

static struct pooled *add(struct lab_pool *pool, size_t bytes)
{
    struct pooled *pooled = calloc(1, sizeof *pooled + bytes);
    if (!pooled) return NULL;
    pooled->next = pool->newest;
    return pool->newest = pooled;
}

void *pool_take(struct lab_pool *pool, size_t bytes)
{
    struct pooled *pooled = add(pool, bytes);
    return pooled ? pooled->bytes : NULL;
}

char *pool_text(struct lab_pool *pool, const char *text, size_t length)
{
    char *copy = pool_take(pool, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

int pool_owns(struct lab_pool *pool, struct expression *expression)
{
    struct pooled *pooled = add(pool, 0);
    if (pooled) pooled->expression = expression;
    else expression_free(expression);
    return pooled != NULL;
}

void pool_free(struct lab_pool *pool)
{
    while (pool && pool->newest) {
        struct pooled *next = pool->newest->next;
        expression_free(pool->newest->expression);
        free(pool->newest);
        pool->newest = next;
    }
    free(pool);
}
