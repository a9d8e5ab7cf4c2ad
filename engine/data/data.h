/* Training data: byte-level text from a file or a folder (memory-mapped), or a synthetic source. A sample is a pure
 * function of (seed, global sample index), so any number of ranks reads the same stream without talking. */
#ifndef ENGINE_DATA_DATA_H
#define ENGINE_DATA_DATA_H

#include "engine/config/config.h"

struct data;

enum data_split { DATA_TRAIN, DATA_VALIDATION };

/* STATUS_INPUT: missing, empty, or shorter than one sample; STATUS_USAGE: the model's vocabulary is too small. */
int data_open(struct data **out, const struct config *config, struct error *err);
void data_close(struct data *data);

/* tokens and targets: [B, T]; targets are the tokens one place on. Sample b is number first_sample + b of the stream. For
 * DATA_VALIDATION samples walk the held-out slice in order, and wrap. */
void data_batch(const struct data *data, enum data_split split, int64_t first_sample, int B, int T, int32_t *tokens, int32_t *targets);

/* Whole samples of T tokens in the held-out slice (0: there is none). */
int64_t data_validation_samples(const struct data *data, int T);

/* Entropy of single bytes of the training slice (of its first 64 MiB), in nats: what a model that learned only frequencies would reach. */
double data_unigram_entropy(const struct data *data);

uint64_t data_bytes(const struct data *data);

#endif
