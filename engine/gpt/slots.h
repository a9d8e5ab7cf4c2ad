/* Where the pieces of a part lie in its buffer. */
#ifndef ENGINE_GPT_SLOTS_H
#define ENGINE_GPT_SLOTS_H

#include "engine/gpt/gpt.h"

struct slots { char *base; struct activation_layout layout; };

static inline struct slots slots_of(const struct gpt *gpt, enum activation_part part, void *saved)
{
    struct slots slots = {.base = saved};
    activation_layout(&slots.layout, gpt->model, part, gpt->B, gpt->T);
    return slots;
}

static inline void *slot(const struct slots *slots, int number)
{
    return slots->base + slots->layout.offset[number];
}

#endif
