/* A small GPT-2 of made-up weights, as a source: for tests of files of weights, and tests/reference/make_weights.py. Every
 * weight has at most 8 significant bits, so that it is the same number in fp32, bf16 and fp16. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/rng.h"
#include "engine/checkpoint/weights.h"

static const struct config_model made_up_shape = {"custom", 2, 24, 3, 20, 61, .kind = KIND_GPT2};

static inline float made_up_weight(const struct tensor *tensor, int64_t i)
{
    const float whole = (float)((int64_t)(rng_u64(11, (uint64_t)tensor->global, (uint64_t)i) % 255) - 127);
    if (tensor->init == INIT_ONE) return 1 + floorf(whole / 4) / 128;
    return whole / 128 * (tensor->columns > 1 ? 0.5f : 0.25f);
}

struct made_up { const struct model *model; int reads; };

static inline int made_up_read(void *user, int u, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err)
{
    struct made_up *made_up = user;
    const struct unit *unit = &made_up->model->units[u];
    (void)array, (void)err;
    made_up->reads++;
    for (int t = 0; t < unit->tensor_count; t++)
        for (int64_t i = 0; i < unit->tensors[t].elems; i++) {
            const int64_t place = unit->tensors[t].offset + i - first;
            if (place >= 0 && place < elems) out[place] = made_up_weight(&unit->tensors[t], i);
        }
    return STATUS_OK;
}

static inline unsigned char *file_bytes(const char *path, size_t *count)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &about)) abort();
    unsigned char *bytes = malloc((size_t)about.st_size + 1);
    *count = fread(bytes, 1, (size_t)about.st_size, file);
    fclose(file);
    return bytes;
}
