/* Byte-pair encoding as GPT-2 has it (Radford et al. 2019), by the two files that belong to such a model:
 *
 *     vocab.json   {"token": number, ...}
 *     merges.txt   a pair of tokens a line, those that were merged first standing first
 *
 * A text is cut into words by a regular expression (PCRE2's; Unicode letters, digits, spaces). A word is its UTF-8 bytes,
 * each of which has a token; then, again and again, the pair of neighbours that stands highest in merges.txt becomes one
 * token. So every text has an encoding, and bytes that are no UTF-8 have one too: they are words of their own. In the
 * files a byte is written as a character that can be seen: itself if it is printable Latin-1, else U+0100 and up. */
#ifndef ENGINE_DATA_BPE_H
#define ENGINE_DATA_BPE_H

#include "engine/base/bytes.h"
#include "engine/base/error.h"

struct bpe;

/* STATUS_INPUT: a file is missing or not what it should be (the text names it, and its line), or the two do not belong
 * together. */
int bpe_open(struct bpe **out, const char *vocabulary_file, const char *merges_file, struct error *err);
void bpe_close(struct bpe *bpe);

int bpe_vocabulary(const struct bpe *bpe);  /* one more than the highest token */
int bpe_end_of_text(const struct bpe *bpe); /* the token "<|endoftext|>", or -1 */

/* As tokenizer_encode() and tokenizer_decode(). "<|endoftext|>" in a text is text like any other: no text can forge the
 * token. Takes n log n of the length of the longest word. */
int64_t bpe_encode(const struct bpe *bpe, const char *text, size_t bytes, bool last, struct bytes *tokens);
bool bpe_decode(const struct bpe *bpe, int32_t token, struct bytes *text);

#endif
