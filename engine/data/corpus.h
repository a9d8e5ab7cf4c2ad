/* A corpus: the tokens of one file, of all files of a folder one after another, or of the default text, as one range. A
 * token is a byte of a text, or an id in a token shard (shard.h). Files stay open and only the requested tokens are
 * read, so a corpus may be larger than memory. Files are not memory-mapped: a mapped file that shrinks ends the process
 * with SIGBUS, whereas a short read gives an error that names the file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/config/config.h"

/* data/default.txt, assembled into the program. tools/freeze-text.sh makes the file and the two numbers here. Losses,
 * golden files and lab figures depend on every byte of it. */
#define DEFAULT_TEXT_BYTES 299962
#define DEFAULT_TEXT_CRC32 0x70e57b5a
extern const uint8_t default_text[], default_text_end[];

struct corpus_file {
    uint64_t first, length; /* place in the corpus, in tokens */
    uint64_t head_bytes;    /* bytes before the tokens, which are little-endian, of the corpus' width */
    int fd;                 /* -1: the default text */
};

struct corpus {
    enum data_format format;
    int width; /* bytes of a token: 1 or 2 */
    struct corpus_file *files;
    size_t count;
    uint64_t length;
};

/* path "": the default text. What a folder holds is read in the order of names; a folder in it is read whole when its name comes. Left out
 * are empty files, names that begin with a dot, links and, for token shards, files whose names do not end in ".bin". STATUS_INPUT: the text
 * says what is wrong and, if path is a folder, in which file. */
int corpus_open(struct corpus *corpus, const char *path, enum data_format format, struct error *err);
void corpus_close(struct corpus *corpus);

/* Reads tokens [first, first + count), which must be inside the corpus. Safe from any thread. STATUS_INPUT, here and
 * below: a file cannot be read or has become shorter; the text names it. */
int corpus_read(const struct corpus *corpus, uint64_t first, size_t count, int32_t *out, struct error *err);

/* Reads bytes [at, at + bytes) of the tokens of one file, unchanged. */
int corpus_bytes(const struct corpus *corpus, size_t file, uint64_t at, size_t bytes, uint8_t *out, struct error *err);

/* Adds the number of occurrences of each token in [0, end) to counts, which has 256 entries (width 1) or 65,536 (width 2). */
int corpus_count(const struct corpus *corpus, uint64_t end, uint64_t *counts, struct error *err);
