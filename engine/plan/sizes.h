/* The sizes of zero_optimization, scaled to a model. DeepSpeed's defaults are meant for billions of parameters: at stage 3 they
 * keep a smaller model gathered from its forward to its backward, and one bucket holds all of its gradients. */
#pragma once

#include "engine/config/config.h"

/* GIVEN: as configured. BLOCK: buckets and prefetch have a block's elements, and nothing is kept gathered, as in zerolab's own
 * configurations. LEAST: the smallest useful sizes: buckets of hidden x hidden elements, nothing gathered ahead. */
enum sizes { SIZES_GIVEN, SIZES_BLOCK, SIZES_LEAST, SIZES };

static inline const char *sizes_name(enum sizes sizes)
{
    static const char *const names[] = {"given", "block", "least"};
    return names[sizes];
}

/* The keys that are changed. */
enum { SIZES_KEYS = 6 };
extern const char *const sizes_keys[SIZES_KEYS];

/* Lowers each size that is larger than in `sizes`, and raises none. False: none was larger. */
bool sizes_lower(struct config *config, enum sizes sizes);

/* Lowers the sizes that the configuration does not give to those of SIZES_BLOCK. */
void sizes_default(struct config *config);

/* Sets buckets and prefetch to a block's elements, whatever they were, and offload_param.buffer_size to those of the largest unit. */
void sizes_scale(struct config *config);
