#include "engine/data/data.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/data/corpus.h"

/* Streams of the generator, apart from those of initial weights, which are small numbers. */
enum { STREAM_OFFSETS = 0x64617461, STREAM_MADE_UP = 0x746f6b65, STREAM_MADE_UP_HELD_OUT = 0x68656c64 };

struct data {
    struct corpus corpus; /* empty for the synthetic source */
    uint64_t train_bytes; /* the rest is held out */
    uint64_t seed;
    int vocabulary; /* of the synthetic source; 0: text */
};

static int open_text(struct data *data, const struct config *config, struct error *err)
{
    int status, T = config->data.sequence_length;
    if (config->model.vocabulary < 256)
        return error_set(err, STATUS_USAGE,
                         "model.vocabulary = %d: must be at least 256 to train on text, whose tokens are bytes",
                         config->model.vocabulary);
    if ((status = corpus_open(&data->corpus, config->data.path, err))) return status;
    uint64_t held_out = (uint64_t)((double)data->corpus.length * config->data.validation_fraction);
    data->train_bytes = data->corpus.length - held_out;
    if (data->train_bytes < (uint64_t)T + 1)
        return error_set(err, STATUS_INPUT,
                         "data.path %s: %llu bytes to train on (%llu held out) are less than one sample of %d tokens "
                         "and the next; use more text or a smaller data.sequence_length",
                         config->data.path, (unsigned long long)data->train_bytes, (unsigned long long)held_out, T);
    return STATUS_OK;
}

int data_open(struct data **out, const struct config *config, struct error *err)
{
    struct data *data = calloc(1, sizeof *data);
    if (!data) return error_set(err, STATUS_RUN, "no memory to open the data");
    data->seed = config->data.seed;
    int status = STATUS_OK;
    if (config->data.synthetic) data->vocabulary = config->model.vocabulary;
    else status = open_text(data, config, err);
    if (status) data_close(data), data = NULL;
    *out = data;
    return status;
}

void data_close(struct data *data)
{
    if (!data) return;
    corpus_close(&data->corpus);
    free(data);
}

/* Where sample number `sample` begins: anywhere in the training text; in the held-out text one after another. */
static uint64_t sample_offset(const struct data *data, enum data_split split, uint64_t sample, int T)
{
    if (split == DATA_TRAIN) return rng_u64(data->seed, STREAM_OFFSETS, sample) % (data->train_bytes - (uint64_t)T);
    return data->train_bytes + sample % (uint64_t)data_validation_samples(data, T) * (uint64_t)T;
}

static void read_text(const struct data *data, uint64_t offset, int T, int32_t *tokens, int32_t *targets)
{
    uint8_t bytes[512];
    for (int t = 0; t < T;) {
        int part = T - t < (int)sizeof bytes - 1 ? T - t : (int)sizeof bytes - 1;
        corpus_read(&data->corpus, offset + (uint64_t)t, (size_t)part + 1, bytes);
        for (int i = 0; i < part; i++, t++) tokens[t] = bytes[i], targets[t] = bytes[i + 1];
    }
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

void data_batch(const struct data *data, enum data_split split, int64_t first_sample, int B, int T, int32_t *tokens,
                int32_t *targets)
{
    for (int b = 0; b < B; b++, tokens += T, targets += T) {
        uint64_t sample = (uint64_t)first_sample + (uint64_t)b;
        if (data->vocabulary) make_up(data, split, sample, T, tokens, targets);
        else read_text(data, sample_offset(data, split, sample, T), T, tokens, targets);
    }
}

int64_t data_validation_samples(const struct data *data, int T)
{
    uint64_t held_out = data->corpus.length - data->train_bytes;
    return held_out > (uint64_t)T ? (int64_t)((held_out - 1) / (uint64_t)T) : 0;
}

double data_unigram_entropy(const struct data *data)
{
    if (data->vocabulary) return log(data->vocabulary);
    const uint64_t enough = 64u << 20, counted = data->train_bytes < enough ? data->train_bytes : enough;
    uint64_t counts[256] = {0}, left = counted;
    double entropy = 0;
    for (size_t f = 0; left > 0; f++) {
        const struct corpus_file *file = &data->corpus.files[f];
        uint64_t length = file->length < left ? file->length : left;
        for (uint64_t i = 0; i < length; i++) counts[file->bytes[i]]++;
        left -= length;
    }
    for (int byte = 0; byte < 256; byte++) {
        double share = (double)counts[byte] / (double)counted;
        if (share > 0) entropy -= share * log(share);
    }
    return entropy;
}

uint64_t data_bytes(const struct data *data)
{
    return data->corpus.length;
}
