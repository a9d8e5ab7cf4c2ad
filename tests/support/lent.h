/* Four buffers of STATE_BUFFERS_BYTES, which tests give to code that reads or writes state: one for each caller at a time. */
#pragma once

#include "engine/zero/state.h"

enum { LENT_LOTS = 4 };

static inline void *lent(int lot)
{
    static _Alignas(4096) unsigned char buffers[LENT_LOTS][STATE_BUFFERS_BYTES];
    return buffers[lot % LENT_LOTS];
}
