#include "engine/data/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/rng.h"
#include "engine/data/corpus.h"
#include "engine/data/shard.h"

/* Streams of the generator, apart from those of initial weights, which are small numbers. */
enum { STREAM_OFFSETS = 0x64617461, STREAM_MADE_UP = 0x746f6b65, STREAM_MADE_UP_HELD_OUT = 0x68656c64 };

/* So many tokens are looked at before a run, to refuse what does not fit; and so many bytes counted for the entropy. */
enum { LOOKED_AT_BYTES = 64 << 20 };

struct data {
    struct corpus corpus;  /* empty for the synthetic source */
    char *path;            /* as it was given */
    struct data_fingerprint fingerprint;
    uint64_t train_tokens; /* the rest is held out */
    uint64_t seed;
    int vocabulary;
    bool synthetic;
    struct tokenizer *tokenizer;
};

static uint64_t looked_at(const struct data *data, uint64_t tokens)
{
    const uint64_t most = LOOKED_AT_BYTES / (uint64_t)data->corpus.width;
    return tokens < most ? tokens : most;
}

static int outside(int32_t token, int vocabulary, struct error *err)
{
    return error_set(err, STATUS_USAGE, "token %d is not in model.vocabulary, which is %d; set it to at least %d",
                     token, vocabulary, token + 1);
}

static int check_tokens(const struct data *data, struct error *err)
{
    uint64_t *counts = calloc(SHARD_VOCABULARY_MAX, sizeof *counts);
    int32_t highest = SHARD_VOCABULARY_MAX - 1;
    if (!counts) return error_set(err, STATUS_RUN, "no memory to look at the data");
    int status = corpus_count(&data->corpus, looked_at(data, data->corpus.length), counts, err);
    while (highest > 0 && !counts[highest]) highest--;
    free(counts);
    if (status) return status;
    return highest < data->vocabulary ? STATUS_OK : outside(highest, data->vocabulary, err);
}

enum { FINGERPRINT_BLOCKS = 64, FINGERPRINT_BLOCK_TOKENS = 4096 };

static uint64_t fnv1a(uint64_t hash, int32_t token, int width)
{
    for (int byte = 0; byte < width; byte++) hash = (hash ^ (token >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static int hash_blocks(uint64_t *hash, const struct corpus *corpus, struct error *err)
{
    const uint64_t whole = (uint64_t)FINGERPRINT_BLOCKS * FINGERPRINT_BLOCK_TOKENS;
    const uint64_t last = corpus->length > FINGERPRINT_BLOCK_TOKENS ? corpus->length - FINGERPRINT_BLOCK_TOKENS : 0;
    int32_t tokens[FINGERPRINT_BLOCK_TOKENS];
    *hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t b = 0; b < FINGERPRINT_BLOCKS; b++) {
        const uint64_t at = corpus->length > whole ? last / (FINGERPRINT_BLOCKS - 1) * b : b * FINGERPRINT_BLOCK_TOKENS;
        if (at >= corpus->length) break;
        const uint64_t left = corpus->length - at;
        const size_t count = left < FINGERPRINT_BLOCK_TOKENS ? (size_t)left : FINGERPRINT_BLOCK_TOKENS;
        int status = corpus_read(corpus, at, count, tokens, err);
        if (status) return status;
        for (size_t i = 0; i < count; i++) *hash = fnv1a(*hash, tokens[i], corpus->width);
    }
    return STATUS_OK;
}

static int take_fingerprint(struct data_fingerprint *out, const struct corpus *corpus, const char *path,
                            struct error *err)
{
    struct stat about;
    *out = (struct data_fingerprint){.known = true, .bytes = corpus->length * (uint64_t)corpus->width};
    snprintf(out->path, sizeof out->path, "%.199s", path);
    for (size_t f = 0; f < corpus->count; f++)
        if (corpus->files[f].fd >= 0 && fstat(corpus->files[f].fd, &about) == 0 && about.st_mtime > out->changed_s)
            out->changed_s = about.st_mtime;
    return hash_blocks(&out->hash, corpus, err);
}

static int open_corpus(struct data *data, const struct config *config, struct error *err)
{
    const bool text = config->data.format == DATA_BYTES;
    int status = corpus_open(&data->corpus, config->data.path, config->data.format, err);
    if (!status && !text) status = check_tokens(data, err);
    if (!status) status = take_fingerprint(&data->fingerprint, &data->corpus, config->data.path, err);
    if (status) return *config->data.path ? error_prefix(err, "data.path %s", config->data.path) : status;
    const int T = config->data.sequence_length;
    uint64_t held_out = (uint64_t)((double)data->corpus.length * config->data.validation_fraction);
    data->train_tokens = data->corpus.length - held_out;
    if (data->train_tokens < (uint64_t)T + 1)
        return error_set(err, STATUS_INPUT,
                         "data.path %s: %llu %s to train on (%llu held out) are less than one sample of %d tokens "
                         "and the next; use more text or a smaller data.sequence_length",
                         config->data.path, (unsigned long long)data->train_tokens, text ? "bytes" : "tokens",
                         (unsigned long long)held_out, T);
    return STATUS_OK;
}

static int open_source(struct data *data, const struct config *config, struct error *err)
{
    data->fingerprint.known = true;
    if (config->data.synthetic) return STATUS_OK;
    if (config->data.format == DATA_BYTES && config->model.vocabulary < 256)
        return error_set(err, STATUS_USAGE,
                         "model.vocabulary = %d: must be at least 256 to train on text, whose tokens are bytes",
                         config->model.vocabulary);
    return open_corpus(data, config, err);
}

int data_open(struct data **out, const struct config *config, struct error *err)
{
    struct data *data = calloc(1, sizeof *data);
    *out = data;
    if (!data) return error_set(err, STATUS_RUN, "no memory to open the data");
    data->seed = config->data.seed;
    data->vocabulary = config->model.vocabulary;
    data->synthetic = config->data.synthetic;
    data->corpus.width = 1;
    data->path = strdup(config->data.path);
    int status = data->path ? open_source(data, config, err) : error_set(err, STATUS_RUN, "no memory to open the data");
    if (!status) status = tokenizer_open(&data->tokenizer, config, err);
    if (status) data_close(data), *out = NULL;
    return status;
}

void data_close(struct data *data)
{
    if (!data) return;
    corpus_close(&data->corpus);
    tokenizer_close(data->tokenizer);
    free(data->path);
    free(data);
}

/* Where sample number `sample` begins: anywhere in what is trained on; in the held-out slice one after another. */
static uint64_t sample_offset(const struct data *data, enum data_split split, uint64_t sample, int T)
{
    if (split == DATA_TRAIN) return rng_u64(data->seed, STREAM_OFFSETS, sample) % (data->train_tokens - (uint64_t)T);
    return data->train_tokens + sample % (uint64_t)data_validation_samples(data, T) * (uint64_t)T;
}

/* Targets are read first: they have all tokens but the first. */
static int read_sample(const struct data *data, uint64_t offset, int T, int32_t *tokens, int32_t *targets,
                       struct error *err)
{
    int status = corpus_read(&data->corpus, offset, 1, tokens, err);
    if (!status) status = corpus_read(&data->corpus, offset + 1, (size_t)T, targets, err);
    if (status) return error_prefix(err, "data.path %s", data->path);
    memcpy(tokens + 1, targets, (size_t)(T - 1) * sizeof *tokens);
    int32_t highest = tokens[0];
    for (int t = 0; t < T; t++)
        if (targets[t] > highest) highest = targets[t];
    return highest < data->vocabulary ? STATUS_OK : outside(highest, data->vocabulary, err);
}

static void make_up(const struct data *data, enum data_split split, uint64_t sample, int T, int32_t *tokens,
                    int32_t *targets)
{
    uint64_t stream = split == DATA_TRAIN ? STREAM_MADE_UP : STREAM_MADE_UP_HELD_OUT;
    uint64_t of_sample = rng_u64(data->seed, stream, sample);
    for (int t = 0; t <= T; t++) {
        int32_t token = (int32_t)(rng_u64(of_sample, 0, (uint64_t)t) % (uint64_t)data->vocabulary);
        if (t < T) tokens[t] = token;
        if (t > 0) targets[t - 1] = token;
    }
}

int data_batch(const struct data *data, enum data_split split, int64_t first_sample, int B, int T, int32_t *tokens,
               int32_t *targets, struct error *err)
{
    int status = STATUS_OK;
    for (int b = 0; b < B && !status; b++, tokens += T, targets += T) {
        uint64_t sample = (uint64_t)first_sample + (uint64_t)b;
        if (data->synthetic) make_up(data, split, sample, T, tokens, targets);
        else status = read_sample(data, sample_offset(data, split, sample, T), T, tokens, targets, err);
    }
    return status;
}

int64_t data_validation_samples(const struct data *data, int T)
{
    uint64_t held_out = data->corpus.length - data->train_tokens;
    return held_out > (uint64_t)T ? (int64_t)((held_out - 1) / (uint64_t)T) : 0;
}

double data_entropy(const uint64_t *counts, int vocabulary)
{
    double entropy = 0, all = 0;
    for (int token = 0; token < vocabulary; token++) all += (double)counts[token];
    for (int token = 0; token < vocabulary; token++) {
        double share = all > 0 ? (double)counts[token] / all : 0;
        if (share > 0) entropy -= share * log(share);
    }
    return entropy;
}

double data_unigram_entropy(const struct data *data)
{
    if (data->synthetic) return log(data->vocabulary);
    uint64_t *counts = calloc(SHARD_VOCABULARY_MAX, sizeof *counts);
    if (!counts) return NAN;
    const bool counted = !corpus_count(&data->corpus, looked_at(data, data->train_tokens), counts, NULL);
    const double entropy = counted ? data_entropy(counts, SHARD_VOCABULARY_MAX) : NAN;
    free(counts);
    return entropy;
}

static void describe(const struct data_fingerprint *data, char *out, size_t room)
{
    char when[40] = "";
    struct tm utc;
    const time_t changed = (time_t)data->changed_s;
    if (changed && gmtime_r(&changed, &utc)) strftime(when, sizeof when, ", changed %F %T UTC", &utc);
    if (!data->bytes) snprintf(out, room, "made-up tokens");
    else
        snprintf(out, room, "%s (%llu bytes%s, hash %016llx)", *data->path ? data->path : "the built-in text",
                 (unsigned long long)data->bytes, when, (unsigned long long)data->hash);
}

enum data_change data_fingerprint_compare(const struct data_fingerprint *saved, const struct data_fingerprint *now,
                                          char *text, size_t room)
{
    char was[320], is[320];
    const bool same = saved->bytes == now->bytes && saved->hash == now->hash;
    const bool covered = now->bytes <= (uint64_t)FINGERPRINT_BLOCKS * FINGERPRINT_BLOCK_TOKENS;
    if (same && (covered || saved->changed_s == now->changed_s)) return DATA_SAME;
    describe(saved, was, sizeof was);
    describe(now, is, sizeof is);
    if (text)
        snprintf(text, room, same ? "the data were written to since the checkpoint, though size and hash are the same: %s; now %s"
                                  : "the data are not those of the checkpoint: it was trained on %s; now %s", was, is);
    return same ? DATA_TOUCHED : DATA_CHANGED;
}

const struct data_fingerprint *data_fingerprint(const struct data *data)
{
    return &data->fingerprint;
}

uint64_t data_tokens(const struct data *data)
{
    return data->corpus.length;
}

uint64_t data_bytes(const struct data *data)
{
    return data->corpus.length * (uint64_t)data->corpus.width;
}

const struct tokenizer *data_tokenizer(const struct data *data)
{
    return data->tokenizer;
}
