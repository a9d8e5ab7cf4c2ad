#include "engine/data/bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cjson/cJSON.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

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

/* What follows a word may change where it ends: a space, if a letter comes after it. So much has to be seen of it. */
enum { LOOK_AHEAD = 8 };

/* The end of the word that begins at `at`; bytes that are no UTF-8 are passed over by PCRE2, and are a word. False: no memory. */
static bool find_end(const struct bpe *bpe, pcre2_match_data *match, const char *text, size_t bytes, size_t at,
                     size_t *end)
{
    int found = pcre2_match(bpe->words, (PCRE2_SPTR)text, bytes, at, 0, match, NULL);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) return false;
    const size_t *range = pcre2_get_ovector_pointer(match);
    *end = found < 0 ? bytes : range[0] > at ? range[0] : range[1];
    return true;
}

/* ---- merging one word ---- */

/* The slot of a pair: its merge, or the empty slot for it. */
static struct bpe_merge *merge_of(const struct bpe *bpe, int32_t left, int32_t right)
{
    uint32_t at = ((uint32_t)left * 0x9e3779b1u ^ (uint32_t)right) * 0x85ebca6bu;
    for (at ^= at >> 15;; at++) {
        struct bpe_merge *merge = &bpe->merges[at & bpe->merge_mask];
        if (merge->result < 0 || (merge->left == left && merge->right == right)) return merge;
    }
}

struct symbol { int32_t token; uint32_t before, after; }; /* token -1: merged away */

/* A word as a linked list of symbols. The heap holds possible merges as rank * 2^32 + place, so its least element is the first in
 * merges.txt and, of equals, the first in the word. */
struct merging {
    const struct bpe *bpe;
    struct symbol *symbols;
    uint64_t *heap;
    size_t heaped, room;
    uint32_t length;
};

static bool make_room(struct merging *merging, size_t length)
{
    if (length <= merging->room) return true;
    if (length > UINT32_MAX / 4) return false;
    free(merging->symbols), free(merging->heap);
    merging->symbols = malloc(length * sizeof *merging->symbols);
    merging->heap = malloc(3 * length * sizeof *merging->heap); /* a pair at first, and two new ones for each merge */
    bool good = merging->symbols && merging->heap;
    merging->room = good ? length : 0;
    return good;
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
    const struct symbol *symbol = &merging->symbols[i];
    if (symbol->token < 0 || symbol->after >= merging->length) return NULL;
    const struct bpe_merge *merge = merge_of(merging->bpe, symbol->token, merging->symbols[symbol->after].token);
    return merge->result < 0 ? NULL : merge;
}

/* Puts the merge at a place into the heap, if there is one. */
static void consider(struct merging *merging, uint32_t place)
{
    const struct bpe_merge *merge = merge_at(merging, place);
    if (!merge) return;
    const uint64_t item = (uint64_t)(uint32_t)merge->rank << 32 | place;
    size_t i = merging->heaped++;
    for (; i > 0 && merging->heap[(i - 1) / 2] > item; i = (i - 1) / 2) merging->heap[i] = merging->heap[(i - 1) / 2];
    merging->heap[i] = item;
}

static void merge_all(struct merging *merging)
{
    for (uint32_t i = 0; i < merging->length; i++) consider(merging, i);
    while (merging->heaped > 0) {
        const uint64_t item = heap_pop(merging);
        const uint32_t i = (uint32_t)item;
        const struct bpe_merge *merge = merge_at(merging, i);
        if (!merge || (uint32_t)merge->rank != item >> 32) continue; /* its symbols have become others */
        struct symbol *symbols = merging->symbols;
        const uint32_t gone = symbols[i].after, next = symbols[gone].after;
        symbols[i].token = merge->result;
        symbols[gone].token = -1;
        symbols[i].after = next;
        if (next < merging->length) symbols[next].before = i;
        if (i > 0) consider(merging, symbols[i].before);
        consider(merging, i);
    }
}

static bool encode_word(struct merging *merging, const char *text, size_t bytes, struct bytes *tokens)
{
    if (!make_room(merging, bytes) || !bytes_reserve(tokens, bytes * sizeof(int32_t))) return false;
    merging->length = (uint32_t)bytes;
    for (uint32_t i = 0; i < bytes; i++)
        merging->symbols[i] = (struct symbol){merging->bpe->byte_token[(unsigned char)text[i]], i - 1, i + 1};
    merge_all(merging);
    for (uint32_t i = 0; i < bytes; i = merging->symbols[i].after)
        bytes_append(tokens, &merging->symbols[i].token, sizeof(int32_t));
    return true;
}

int64_t bpe_encode(const struct bpe *bpe, const char *text, size_t bytes, bool last, struct bytes *tokens)
{
    struct merging merging = {.bpe = bpe};
    size_t at = 0, end;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    bool good = match != NULL;
    while (good && at < bytes && (good = find_end(bpe, match, text, bytes, at, &end))) {
        if (!last && end + LOOK_AHEAD > bytes) break;
        good = encode_word(&merging, text + at, end - at, tokens);
        at = end;
    }
    pcre2_match_data_free(match);
    free(merging.symbols), free(merging.heap);
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

/* ---- reading vocab.json and merges.txt: both may come from anywhere, so everything in them is checked ---- */

enum { FILE_BYTES_MAX = 64 << 20, TOKENS_MAX = 1 << 20, TOKEN_BYTES_MAX = 1 << 16 };

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RUN, "no memory for a vocabulary");
}

/* ---- bytes as characters that can be seen ---- */

static bool is_seen(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The byte that a character stands for, or -1. Those that cannot be seen are U+0100, U+0101 ... in their order. */
static int byte_of(uint32_t character)
{
    if (character < 256) return is_seen((int)character) ? (int)character : -1;
    uint32_t unseen = 256;
    for (int byte = 0; byte < 256; byte++)
        if (!is_seen(byte) && unseen++ == character) return byte;
    return -1;
}

/* The bytes that UTF-8 of one or two bytes a character stands for, in `out`; -1: it stands for none, or is too long. */
static int bytes_of(const char *text, size_t length, uint8_t out[TOKEN_BYTES_MAX])
{
    int count = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t character = (unsigned char)text[i];
        if (character >= 0xc2 && character < 0xe0 && i + 1 < length && ((unsigned char)text[i + 1] & 0xc0) == 0x80)
            character = (character & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f);
        else if (character >= 0x80) return -1;
        int byte = byte_of(character);
        if (byte < 0 || count == TOKEN_BYTES_MAX) return -1;
        out[count++] = (uint8_t)byte;
    }
    return count;
}

/* ---- tokens by their bytes: needed while the merges are read ---- */

struct index {
    int32_t *slots;
    uint32_t mask;
    uint8_t *bytes; /* of the token in hand */
};

static uint32_t slots_for(size_t items)
{
    uint32_t slots = 1024;
    while (slots < 2 * items) slots *= 2;
    return slots;
}

static int32_t *slot_of(const struct index *index, const struct bpe *bpe, const uint8_t *bytes, uint32_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (uint32_t i = 0; i < length; i++) hash = (hash ^ bytes[i]) * 16777619u;
    for (uint32_t at = hash & index->mask;; at = (at + 1) & index->mask) {
        int32_t token = index->slots[at];
        if (token < 0) return &index->slots[at];
        const struct bpe_piece *piece = &bpe->pieces[token];
        if (piece->length == length && memcmp(bpe->text.at + piece->at, bytes, length) == 0) return &index->slots[at];
    }
}

/* ---- vocab.json ---- */

static int add_piece(struct bpe *bpe, struct index *index, const cJSON *item, struct error *err)
{
    const char *name = item->string;
    int length = bytes_of(name, strlen(name), index->bytes);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < TOKENS_MAX) ||
        item->valuedouble != item->valueint)
        return error_set(err, STATUS_INPUT, "token \"%.40s\" has no number from 0 to %d", name, TOKENS_MAX - 1);
    if (length < 1)
        return error_set(err, STATUS_INPUT,
                         "token \"%.40s\" stands for no bytes; is this the vocab.json of a byte-level encoding?", name);
    const int token = item->valueint;
    if (bpe->pieces[token].length) return error_set(err, STATUS_INPUT, "number %d is given to two tokens", token);
    int32_t *slot = slot_of(index, bpe, index->bytes, (uint32_t)length);
    if (*slot >= 0) return error_set(err, STATUS_INPUT, "token \"%.40s\" is there twice", name);
    bpe->pieces[token] = (struct bpe_piece){(uint32_t)bpe->text.count, (uint32_t)length};
    if (!bytes_append(&bpe->text, index->bytes, (size_t)length)) return no_memory(err);
    *slot = token;
    if (strcmp(name, "<|endoftext|>") == 0) bpe->end_of_text = token;
    if (token >= bpe->vocabulary) bpe->vocabulary = token + 1;
    return STATUS_OK;
}

static int find_bytes(struct bpe *bpe, const struct index *index, struct error *err)
{
    for (int byte = 0; byte < 256; byte++) {
        uint8_t text = (uint8_t)byte;
        bpe->byte_token[byte] = *slot_of(index, bpe, &text, 1);
        if (bpe->byte_token[byte] < 0)
            return error_set(err, STATUS_INPUT,
                             "no token for the byte 0x%02x; a byte-level vocabulary has one for each", byte);
    }
    return STATUS_OK;
}

static int read_vocabulary(struct bpe *bpe, struct index *index, const char *text, size_t length, struct error *err)
{
    cJSON *json = cJSON_ParseWithLength(text, length);
    int items = cJSON_IsObject(json) ? cJSON_GetArraySize(json) : 0, status = STATUS_OK;
    index->mask = slots_for((size_t)items) - 1;
    index->slots = malloc((index->mask + 1) * sizeof *index->slots);
    index->bytes = malloc(TOKEN_BYTES_MAX);
    bpe->pieces = calloc(TOKENS_MAX, sizeof *bpe->pieces);
    if (!index->slots || !index->bytes || !bpe->pieces) status = no_memory(err);
    else if (items == 0) status = error_set(err, STATUS_INPUT, "not a JSON object of tokens and their numbers");
    else memset(index->slots, 0xff, (index->mask + 1) * sizeof *index->slots);
    for (const cJSON *item = items ? json->child : NULL; item && !status; item = item->next)
        status = add_piece(bpe, index, item, err);
    cJSON_Delete(json);
    return status ? status : find_bytes(bpe, index, err);
}

/* ---- merges.txt ---- */

static int32_t token_of(const struct bpe *bpe, const struct index *index, const char *text, size_t length)
{
    int bytes = bytes_of(text, length, index->bytes);
    return bytes < 1 ? -1 : *slot_of(index, bpe, index->bytes, (uint32_t)bytes);
}

/* "left right"; what they become is the token of both together. */
static int add_merge(struct bpe *bpe, const struct index *index, const char *line, size_t length, int rank,
                     struct error *err)
{
    const char *space = memchr(line, ' ', length);
    if (!space) return error_set(err, STATUS_INPUT, "not two tokens with a space between them");
    size_t first = (size_t)(space - line);
    int32_t left = token_of(bpe, index, line, first), right = token_of(bpe, index, space + 1, length - first - 1);
    if (left < 0 || right < 0)
        return error_set(err, STATUS_INPUT, "\"%.*s\" is not in the vocabulary; do the two files belong together?",
                         (int)(length < 80 ? length : 80), line);
    const struct bpe_piece a = bpe->pieces[left], b = bpe->pieces[right];
    if (a.length + b.length > TOKEN_BYTES_MAX)
        return error_set(err, STATUS_INPUT, "makes a token of %u bytes", a.length + b.length);
    memcpy(index->bytes, bpe->text.at + a.at, a.length);
    memcpy(index->bytes + a.length, bpe->text.at + b.at, b.length);
    int32_t result = *slot_of(index, bpe, index->bytes, a.length + b.length);
    if (result < 0)
        return error_set(err, STATUS_INPUT,
                         "what \"%.*s\" becomes is not in the vocabulary; do the two files belong together?",
                         (int)(length < 80 ? length : 80), line);
    struct bpe_merge *merge = merge_of(bpe, left, right);
    if (merge->result >= 0) return error_set(err, STATUS_INPUT, "the same pair as line %d", merge->rank + 1);
    *merge = (struct bpe_merge){left, right, result, rank};
    return STATUS_OK;
}

static int read_merges(struct bpe *bpe, struct index *index, const char *at, size_t bytes, struct error *err)
{
    const char *end = at + bytes;
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += at[i] == '\n';
    bpe->merge_mask = slots_for(lines) - 1;
    bpe->merges = malloc((bpe->merge_mask + 1) * sizeof *bpe->merges);
    if (!bpe->merges) return no_memory(err);
    for (uint32_t i = 0; i <= bpe->merge_mask; i++) bpe->merges[i].result = -1;
    for (int line = 0; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        size_t used = length && at[length - 1] == '\r' ? length - 1 : length;
        bool comment = line == 0 && used > 8 && memcmp(at, "#version", 8) == 0;
        if (used > 0 && !comment && add_merge(bpe, index, at, used, line, err))
            return error_prefix(err, "line %d", line + 1);
        at += length + 1;
    }
    return STATUS_OK;
}

/* GPT-2's words: contractions, then letters, digits or other signs with the space before them, then spaces, the last of
 * which belongs to the next word. [\t-\r\x{85}\p{Z}] is Unicode's White_Space, whatever a library's \s is. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
static const char words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

static int compile_words(struct bpe *bpe, struct error *err)
{
    int error;
    size_t place;
    PCRE2_UCHAR why[128] = "";
    bpe->words = pcre2_compile((PCRE2_SPTR)words, PCRE2_ZERO_TERMINATED,
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &place, NULL);
    if (bpe->words)
        return pcre2_jit_compile(bpe->words, PCRE2_JIT_COMPLETE), STATUS_OK; /* without it: the same, slower */
    pcre2_get_error_message(error, why, sizeof why);
    return error_set(err, STATUS_RUN, "PCRE2 does not take the words of an encoding: %s", (const char *)why);
}

int bpe_open(struct bpe **out, const char *vocabulary_file, const char *merges_file, struct error *err)
{
    const char *const files[] = {vocabulary_file, merges_file};
    struct bpe *bpe = calloc(1, sizeof *bpe);
    struct index index = {0};
    size_t length;
    char *text;
    int status = STATUS_OK;
    *out = bpe;
    if (!bpe) return no_memory(err);
    bpe->end_of_text = -1;
    for (int f = 0; f < 2 && !status; f++) {
        status = file_read(&text, &length, files[f], FILE_BYTES_MAX, true, err);
        if (!status) status = (f ? read_merges : read_vocabulary)(bpe, &index, text, length, err);
        free(text);
        if (status) error_prefix(err, "%.300s", files[f]);
    }
    free(index.slots);
    free(index.bytes);
    if (!status) status = compile_words(bpe, err);
    if (status) bpe_close(bpe), *out = NULL;
    return status;
}

void bpe_close(struct bpe *bpe)
{
    if (!bpe) return;
    bytes_release(&bpe->text);
    free(bpe->pieces);
    free(bpe->merges);
    pcre2_code_free(bpe->words);
    free(bpe);
}
