/* The sizes of zero_optimization, scaled to a model. DeepSpeed's defaults are meant for billions of parameters: at stage 3 they
 * keep a smaller model gathered from its forward to its backward, and one bucket holds all of its gradients. */
#pragma once

#include "engine/config/config.h"

/* As they are; buckets and prefetch of a block, and nothing kept gathered, as in our own configurations; and the least that
 * is of use: buckets of hidden x hidden, nothing gathered ahead. */
enum sizes { SIZES_GIVEN, SIZES_BLOCK, SIZES_LEAST, SIZES };

static inline const char *sizes_name(enum sizes sizes)
{
    static const char *const names[] = {"given", "block", "least"};
    return names[sizes];
}

/* The keys that are changed. */
enum { SIZES_KEYS = 6 };
extern const char *const sizes_keys[SIZES_KEYS];

/* Lowers what is larger than that, and raises nothing. False: no size is. */
bool sizes_lower(struct config *config, enum sizes sizes);

/* As in our own configurations, all that nobody gave. */
void sizes_default(struct config *config);

/* A block's, whatever they were; with buffers for what is read from NVMe that hold the largest unit. */
void sizes_scale(struct config *config);
