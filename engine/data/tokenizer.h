/* What tokens mean as text, and text as tokens. Three kinds: a token is a byte; a token is a piece of text of a byte-pair
 * encoding whose vocabulary and merges the user gave (bpe.h); or nobody said what tokens mean, and they are shown as numbers. */
#ifndef ENGINE_DATA_TOKENIZER_H
#define ENGINE_DATA_TOKENIZER_H

#include "engine/base/bytes.h"
#include "engine/config/config.h"

struct tokenizer;

/* By data.format, data.vocabulary_file and data.merges_file. STATUS_INPUT: the files are missing, damaged or do not belong
 * together; STATUS_USAGE: their tokens do not fit model.vocabulary. */
int tokenizer_open(struct tokenizer **out, const struct config *config, struct error *err);
/* Of the two files alone; both NULL: bytes. */
int tokenizer_open_files(struct tokenizer **out, const char *vocabulary_file, const char *merges_file, struct error *err);
void tokenizer_close(struct tokenizer *tokenizer);

/* Tokens there may be: one more than the highest. 0: not known. */
int tokenizer_vocabulary(const struct tokenizer *tokenizer);

/* The token that stands between texts ("<|endoftext|>"), or -1. It is never made of a text. */
int tokenizer_end_of_text(const struct tokenizer *tokenizer);

/* Appends the tokens of a text, each an int32_t, to `tokens`. A text may come in parts: unless this is its `last` one, as
 * many bytes as need to see what follows them are left over. Returns how many bytes were taken, or -1: no memory. */
int64_t tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes, bool last, struct bytes *tokens);

/* Appends the text of one token; a token's bytes may be a part of a character. False: no memory. */
bool tokenizer_decode(const struct tokenizer *tokenizer, int32_t token, struct bytes *text);

#endif
