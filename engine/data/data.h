/* Training data: tokens of a text or of token shards (corpus.h), or synthetic tokens. A sample is a pure function of
 * (seed, global sample index), so any number of ranks reads the same stream without communication. */
#pragma once

#include "engine/config/config.h"
#include "engine/data/tokenizer.h"

struct data;

enum data_split { DATA_TRAIN, DATA_VALIDATION };

/* STATUS_INPUT: the data is missing, empty, or shorter than one sample; STATUS_USAGE: the model's vocabulary is too small. Only the
 * first 32 million tokens of token shards are checked here; a later token that is too large is found when it is read. */
int data_open(struct data **out, const struct config *config, struct error *err);
void data_close(struct data *data);

/* Fills tokens and targets, both [B, T]; targets[t] is the token after tokens[t]. Row b is sample first_sample + b of
 * the stream. DATA_VALIDATION samples follow each other in the held-out slice, and wrap around. STATUS_USAGE: a token
 * is not in the model's vocabulary; STATUS_INPUT: a file can no longer be read, or became shorter. */
int data_batch(const struct data *data, enum data_split split, int64_t first_sample, int B, int T, int32_t *tokens,
               int32_t *targets, struct error *err);

/* Whole samples of T tokens in the held-out slice (0: there is none). */
int64_t data_validation_samples(const struct data *data, int T);

/* Entropy of single tokens in the first 64 MiB of the training slice, in nats: the loss of a model that knows only frequencies. */
double data_unigram_entropy(const struct data *data);
double data_entropy(const uint64_t *counts, int vocabulary); /* from the counts of all tokens, in nats */

uint64_t data_tokens(const struct data *data); /* 0: synthetic */
uint64_t data_bytes(const struct data *data);  /* in its files */

/* A fingerprint of the data, by which a resumed run notices changed data: size, time of the last change, and a hash of 64 evenly
 * spaced blocks of 4,096 tokens. A corpus of at most 64 blocks is hashed as a whole. */
struct data_fingerprint {
    bool known;        /* false: the checkpoint has none, e.g. because an older program wrote it */
    char path[200];    /* data.path; "": the default text, or synthetic tokens */
    uint64_t bytes;    /* 0: synthetic tokens */
    int64_t changed_s; /* time of the newest file's last change, seconds since 1970; 0: no file */
    uint64_t hash;
};

/* How `now` differs from `saved`; both must be known. `text` (may be NULL) gets a line that names both. */
enum data_change {
    DATA_SAME,
    DATA_TOUCHED, /* only the time differs, but the hash does not cover all tokens */
    DATA_CHANGED,
};
enum data_change data_fingerprint_compare(const struct data_fingerprint *saved, const struct data_fingerprint *now,
                                          char *text, size_t room);

/* The fingerprint at the time of data_open(). */
const struct data_fingerprint *data_fingerprint(const struct data *data);

/* The tokenizer that the tokens come from; `data` owns it. */
const struct tokenizer *data_tokenizer(const struct data *data);
