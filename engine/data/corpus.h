/* A corpus: the tokens of one file, of all files of a folder one after another, or of the default text, as one range. A
 * token is a byte of a text, or a number of a token shard (shard.h). Files stay open and are read where tokens are asked
 * for, so a corpus may be larger than memory. They are not memory-mapped: a mapped file that shrinks ends the process with SIGBUS,
 * where a read says which file is too short. */
#ifndef ENGINE_DATA_CORPUS_H
#define ENGINE_DATA_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/config/config.h"

struct corpus_file {
    uint64_t first, length; /* place in the corpus, in tokens */
    uint64_t head_bytes;    /* before its tokens, which are little-endian, of the corpus' width */
    int fd;                 /* -1: the default text */
};

struct corpus {
    enum data_format format;
    int width; /* bytes of a token: 1 or 2 */
    struct corpus_file *files;
    size_t count;
    uint64_t length;
};

/* path "": the default text. A folder's regular files are taken in sorted order of their paths; names that begin with a
 * dot and empty files are passed over, links inside it are not followed. Of token shards a folder's files are those whose
 * names end in ".bin". STATUS_INPUT: what is wrong, and with which file of a folder. */
int corpus_open(struct corpus *corpus, const char *path, enum data_format format, struct error *err);
void corpus_close(struct corpus *corpus);

/* Tokens [first, first + count), which must lie inside. Any thread. STATUS_INPUT, here and below: a file cannot be read, or
 * has become shorter; the text names it. */
int corpus_read(const struct corpus *corpus, uint64_t first, size_t count, int32_t *out, struct error *err);

/* Bytes [at, at + bytes) of the tokens of one file, as they stand there. */
int corpus_bytes(const struct corpus *corpus, size_t file, uint64_t at, size_t bytes, uint8_t *out, struct error *err);

/* Adds how often each token occurs among [0, end) to counts, which has room for all that the width can say (256, 65,536). */
int corpus_count(const struct corpus *corpus, uint64_t end, uint64_t *counts, struct error *err);

#endif
