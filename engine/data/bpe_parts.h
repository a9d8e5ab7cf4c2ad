/* Internals of struct bpe; only bpe*.c includes this file. */
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/data/bpe.h"

struct bpe_piece { uint32_t at, length; }; /* bytes of a token in bpe->text; length 0: there is no such token */
struct bpe_merge { int32_t left, right, result, rank; }; /* result -1: an empty slot */

struct bpe {
    struct bytes text;
    struct bpe_piece *pieces; /* by token */
    int vocabulary, end_of_text;
    int32_t byte_token[256];
    struct bpe_merge *merges; /* by hash, open addressing */
    uint32_t merge_mask;      /* slots - 1; at most half of them are taken */
    pcre2_code *words;
};

/* The slot of a pair in `merges`: its merge, or the empty slot for it. */
struct bpe_merge *bpe_merge_of(const struct bpe *bpe, int32_t left, int32_t right);
