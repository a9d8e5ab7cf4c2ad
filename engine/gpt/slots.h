/* Where the pieces of one use lie in its activation buffer. */
#ifndef ENGINE_GPT_SLOTS_H
#define ENGINE_GPT_SLOTS_H

#include "engine/gpt/gpt.h"

struct slots { char *base; struct activation_layout layout; };

static inline struct slots slots_of(const struct gpt *gpt, enum use forward_use, void *activation)
{
    struct slots slots = {.base = activation};
    activation_layout(&slots.layout, gpt->model, forward_use, gpt->B, gpt->T);
    return slots;
}

static inline void *slot(const struct slots *slots, int number)
{
    return slots->base + slots->layout.offset[number];
}

#endif
