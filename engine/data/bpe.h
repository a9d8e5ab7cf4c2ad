/* GPT-2's byte-pair encoding (Radford et al. 2019), from the two files of such a model:
 *
 *     vocab.json   {"token": number, ...}
 *     merges.txt   a pair of tokens in each line, in the order of merging
 *
 * A regular expression (PCRE2; Unicode letters, digits, spaces) cuts a text into words. Each UTF-8 byte of a word is a
 * token at first; then, repeatedly, the neighbours whose pair comes first in merges.txt become one token. So every text
 * has an encoding, also bytes that are not UTF-8, which are words of their own. The files write each byte as a visible
 * character: itself if it is printable Latin-1, else U+0100 and up. */
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/error.h"

struct bpe;

/* STATUS_INPUT: a file is missing or malformed (the text names the file and line), or the two do not belong together.
 * STATUS_RUN: no memory. */
int bpe_open(struct bpe **out, const char *vocabulary_file, const char *merges_file, struct error *err);
void bpe_close(struct bpe *bpe);

int bpe_vocabulary(const struct bpe *bpe);  /* highest token + 1 */
int bpe_end_of_text(const struct bpe *bpe); /* the token "<|endoftext|>", or -1 */

/* Like tokenizer_encode() and tokenizer_decode(). "<|endoftext|>" in a text is ordinary text, so no text can forge that
 * token. Encoding a word of n bytes takes O(n log n) time. */
int64_t bpe_encode(const struct bpe *bpe, const char *text, size_t bytes, bool last, struct bytes *tokens);
bool bpe_decode(const struct bpe *bpe, int32_t token, struct bytes *text);
