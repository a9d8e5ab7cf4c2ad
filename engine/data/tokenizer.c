#include "engine/data/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/data/bpe.h"

enum kind { KIND_BYTES, KIND_NUMBERS, KIND_BPE };

struct tokenizer {
    enum kind kind;
    struct bpe *bpe;
};

static int open_kind(struct tokenizer **out, enum kind kind, struct error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return error_set(err, STATUS_RUN, "no memory for a tokenizer");
    (*out)->kind = kind;
    return STATUS_OK;
}

int tokenizer_open_files(struct tokenizer **out, const char *vocabulary_file, const char *merges_file,
                         struct error *err)
{
    int status = open_kind(out, vocabulary_file ? KIND_BPE : KIND_BYTES, err);
    if (!status && vocabulary_file) status = bpe_open(&(*out)->bpe, vocabulary_file, merges_file, err);
    if (status) tokenizer_close(*out), *out = NULL;
    return status;
}

int tokenizer_open(struct tokenizer **out, const struct config *config, struct error *err)
{
    const int vocabulary = config->model.vocabulary;
    *out = NULL;
    if (!config->data.vocabulary_file[0]) {
        bool bytes = config->data.format == DATA_BYTES || vocabulary <= 256;
        return open_kind(out, bytes ? KIND_BYTES : KIND_NUMBERS, err);
    }
    int status = tokenizer_open_files(out, config->data.vocabulary_file, config->data.merges_file, err);
    if (status || bpe_vocabulary((*out)->bpe) <= vocabulary) return status;
    status = error_set(err, STATUS_USAGE,
                       "data.vocabulary_file %.200s has %d tokens, model.vocabulary is %d; set it to at least that",
                       config->data.vocabulary_file, bpe_vocabulary((*out)->bpe), vocabulary);
    tokenizer_close(*out), *out = NULL;
    return status;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer) return;
    bpe_close(tokenizer->bpe);
    free(tokenizer);
}

int tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    if (tokenizer->kind == KIND_BPE) return bpe_vocabulary(tokenizer->bpe);
    return tokenizer->kind == KIND_BYTES ? 256 : 0;
}

int tokenizer_end_of_text(const struct tokenizer *tokenizer)
{
    return tokenizer->kind == KIND_BPE ? bpe_end_of_text(tokenizer->bpe) : -1;
}

int64_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool last,
                         struct bytes *tokens)
{
    if (tokenizer->kind == KIND_BPE) return bpe_encode(tokenizer->bpe, text, bytes, last, tokens);
    for (size_t i = 0; i < bytes; i++) {
        int32_t token = (unsigned char)text[i];
        if (!bytes_append(tokens, &token, sizeof token)) return -1;
    }
    return (int64_t)bytes;
}

bool tokenizer_decode(const struct tokenizer *tokenizer, int32_t token, struct bytes *text)
{
    char number[16];
    const uint8_t byte = (uint8_t)token;
    if (tokenizer->kind == KIND_BPE && token >= 0 && token < bpe_vocabulary(tokenizer->bpe))
        return bpe_decode(tokenizer->bpe, token, text);
    if (tokenizer->kind == KIND_BYTES && token >= 0 && token < 256) return bytes_append(text, &byte, 1);
    return bytes_append(text, number, (size_t)snprintf(number, sizeof number, "<%d>", token));
}
