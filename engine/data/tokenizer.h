/* Converts between text and tokens. Three kinds: a token is a byte; a token is a piece of text, by a byte-pair encoding with the
 * user's vocabulary and merges (bpe.h); or the meaning of tokens is not known, and they are shown as numbers. */
#pragma once

#include "engine/base/bytes.h"
#include "engine/config/config.h"

struct tokenizer;

/* Opens the tokenizer for data.format, data.vocabulary_file and data.merges_file. STATUS_INPUT: the files are missing,
 * damaged or do not belong together; STATUS_USAGE: their tokens do not fit model.vocabulary. */
int tokenizer_open(struct tokenizer **out, const struct config *config, struct error *err);
/* Opens a tokenizer for the two files alone; both NULL: tokens are bytes. */
int tokenizer_open_files(struct tokenizer **out, const char *vocabulary_file, const char *merges_file, struct error *err);
void tokenizer_close(struct tokenizer *tokenizer);

/* The highest token + 1; 0: not known. */
int tokenizer_vocabulary(const struct tokenizer *tokenizer);

/* The token between texts ("<|endoftext|>"), or -1. tokenizer_encode() never produces it. */
int tokenizer_end_of_text(const struct tokenizer *tokenizer);

/* Appends the tokens of a text, each an int32_t, to `tokens`. A text may be passed in parts: except for the `last` part, bytes at
 * the end whose tokens depend on later text are left over. Returns the number of bytes consumed; -1: no memory. */
int64_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool last, struct bytes *tokens);

/* Appends the text of one token; a token's bytes may be a part of a character. False: no memory. */
bool tokenizer_decode(const struct tokenizer *tokenizer, int32_t token, struct bytes *text);
