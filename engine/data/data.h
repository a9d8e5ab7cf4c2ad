/* Training data: the tokens of text or of token shards (corpus.h), or made-up ones. A sample is a pure function of (seed,
 * global sample index), so any number of ranks reads the same stream without talking. */
#ifndef ENGINE_DATA_DATA_H
#define ENGINE_DATA_DATA_H

#include "engine/config/config.h"
#include "engine/data/fingerprint.h"
#include "engine/data/tokenizer.h"

struct data;

enum data_split { DATA_TRAIN, DATA_VALIDATION };

/* STATUS_INPUT: missing, empty, or shorter than one sample; STATUS_USAGE: the model's vocabulary is too small. Of token
 * shards the first 32 million tokens are looked at here; a later one that is too large is found when it is read. */
int data_open(struct data **out, const struct config *config, struct error *err);
void data_close(struct data *data);

/* tokens and targets: [B, T]; targets are the tokens one place on. Sample b is number first_sample + b of the stream. For
 * DATA_VALIDATION samples walk the held-out slice in order, and wrap. STATUS_USAGE: a token is not in the model's
 * vocabulary; STATUS_INPUT: a file cannot be read any more, or became shorter. */
int data_batch(const struct data *data, enum data_split split, int64_t first_sample, int B, int T, int32_t *tokens,
               int32_t *targets, struct error *err);

/* Whole samples of T tokens in the held-out slice (0: there is none). */
int64_t data_validation_samples(const struct data *data, int T);

/* Entropy of single tokens of the training slice (of its first 64 MiB), in nats: what a model that learned only frequencies would reach. */
double data_unigram_entropy(const struct data *data);
double data_entropy(const uint64_t *counts, int vocabulary); /* of tokens that occur so often */

uint64_t data_tokens(const struct data *data); /* 0: made up */
uint64_t data_bytes(const struct data *data);  /* in its files */

/* As it was when it was opened. */
const struct data_fingerprint *data_fingerprint(const struct data *data);

/* What its tokens mean. */
const struct tokenizer *data_tokenizer(const struct data *data);

#endif
