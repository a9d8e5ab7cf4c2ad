#include "engine/data/bpe_parts.h"

#include <stdlib.h>

/* ---- words ---- */

/* What follows a word may change where it ends: a space, if a letter comes after it. So much has to be seen of it. */
enum { LOOK_AHEAD = 8 };

struct word {
    size_t from, end;
};

/* The word that begins at `at`; bytes that are no UTF-8 are passed over by PCRE2, and are a word. False: no memory. */
static bool next_word(const struct bpe *bpe, pcre2_match_data *match, const char *text, size_t bytes, size_t at,
                      struct word *word)
{
    int found = pcre2_match(bpe->words, (PCRE2_SPTR)text, bytes, at, 0, match, NULL);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) return false;
    const size_t *range = pcre2_get_ovector_pointer(match);
    if (found < 0) *word = (struct word){at, bytes};
    else if (range[0] > at) *word = (struct word){at, range[0]};
    else *word = (struct word){at, range[1]};
    return true;
}

/* ---- merging one word ---- */

/* A word as a linked list: symbol i is token[i] (-1: merged away), with links to both neighbours. The heap holds possible merges as
 * rank * 2^32 + place, so its least element is the first in merges.txt and, of equals, the first in the word. */
struct merging {
    const struct bpe *bpe;
    int32_t *token;
    uint32_t *before, *after;
    uint64_t *heap;
    size_t heaped, room;
    uint32_t length;
};

static bool make_room(struct merging *merging, size_t length)
{
    if (length <= merging->room) return true;
    if (length > UINT32_MAX / 4) return false;
    free(merging->token), free(merging->before), free(merging->after), free(merging->heap);
    merging->token = malloc(length * sizeof *merging->token);
    merging->before = malloc(length * sizeof *merging->before);
    merging->after = malloc(length * sizeof *merging->after);
    merging->heap = malloc(3 * length * sizeof *merging->heap); /* a pair at first, and two new ones for each merge */
    bool good = merging->token && merging->before && merging->after && merging->heap;
    merging->room = good ? length : 0;
    return good;
}

static void heap_push(struct merging *merging, uint64_t item)
{
    size_t i = merging->heaped++;
    for (; i > 0 && merging->heap[(i - 1) / 2] > item; i = (i - 1) / 2) merging->heap[i] = merging->heap[(i - 1) / 2];
    merging->heap[i] = item;
}

static uint64_t heap_pop(struct merging *merging)
{
    uint64_t *heap = merging->heap, least = heap[0], last = heap[--merging->heaped];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < merging->heaped; i = child) {
        if (child + 1 < merging->heaped && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return least;
}

static const struct bpe_merge *merge_at(const struct merging *merging, uint32_t i)
{
    if (merging->token[i] < 0 || merging->after[i] >= merging->length) return NULL;
    const struct bpe_merge *merge = bpe_merge_of(merging->bpe, merging->token[i], merging->token[merging->after[i]]);
    return merge->result < 0 ? NULL : merge;
}

static void consider(struct merging *merging, uint32_t i)
{
    const struct bpe_merge *merge = merge_at(merging, i);
    if (merge) heap_push(merging, (uint64_t)(uint32_t)merge->rank << 32 | i);
}

static void merge_all(struct merging *merging)
{
    for (uint32_t i = 0; i < merging->length; i++) consider(merging, i);
    while (merging->heaped > 0) {
        const uint64_t item = heap_pop(merging);
        const uint32_t i = (uint32_t)item;
        const struct bpe_merge *merge = merge_at(merging, i);
        if (!merge || (uint32_t)merge->rank != item >> 32) continue; /* its symbols have become others */
        const uint32_t gone = merging->after[i], next = merging->after[gone];
        merging->token[i] = merge->result;
        merging->token[gone] = -1;
        merging->after[i] = next;
        if (next < merging->length) merging->before[next] = i;
        if (i > 0) consider(merging, merging->before[i]);
        consider(merging, i);
    }
}

static bool encode_word(struct merging *merging, const char *text, size_t bytes, struct bytes *tokens)
{
    if (!make_room(merging, bytes) || !bytes_reserve(tokens, bytes * sizeof(int32_t))) return false;
    merging->length = (uint32_t)bytes;
    for (uint32_t i = 0; i < bytes; i++) {
        merging->token[i] = merging->bpe->byte_token[(unsigned char)text[i]];
        merging->before[i] = i - 1;
        merging->after[i] = i + 1;
    }
    merge_all(merging);
    for (uint32_t i = 0; i < bytes; i = merging->after[i])
        bytes_append(tokens, &merging->token[i], sizeof merging->token[i]);
    return true;
}

/* ---- texts ---- */

int64_t bpe_encode(const struct bpe *bpe, const char *text, size_t bytes, bool last, struct bytes *tokens)
{
    struct merging merging = {.bpe = bpe};
    struct word word;
    size_t at = 0;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    bool good = match != NULL;
    while (good && at < bytes && (good = next_word(bpe, match, text, bytes, at, &word))) {
        if (!last && word.end + LOOK_AHEAD > bytes) break;
        good = encode_word(&merging, text + word.from, word.end - word.from, tokens);
        at = word.end;
    }
    pcre2_match_data_free(match);
    free(merging.token), free(merging.before), free(merging.after), free(merging.heap);
    return good ? (int64_t)at : -1;
}

bool bpe_decode(const struct bpe *bpe, int32_t token, struct bytes *text)
{
    const struct bpe_piece *piece = &bpe->pieces[token];
    return bytes_append(text, bpe->text.at + piece->at, piece->length);
}

int bpe_vocabulary(const struct bpe *bpe)
{
    return bpe->vocabulary;
}

int bpe_end_of_text(const struct bpe *bpe)
{
    return bpe->end_of_text;
}
