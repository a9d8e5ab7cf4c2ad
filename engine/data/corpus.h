/* A corpus: the tokens of one file, of all files of a folder one after another, or of the default text, as one range. A
 * token is a byte of a text, or a number of a token shard (shard.h). Files are memory-mapped, so a corpus may be larger
 * than memory. */
#ifndef ENGINE_DATA_CORPUS_H
#define ENGINE_DATA_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/config/config.h"

struct corpus_file {
    const uint8_t *tokens;  /* little-endian, of the corpus' width */
    uint64_t first, length; /* place in the corpus */
    void *map;              /* NULL: not ours to unmap */
    size_t map_bytes;
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
 * names end in ".bin". A file must not be cut short while it is open. STATUS_INPUT: what is wrong, and with which
 * file of a folder. */
int corpus_open(struct corpus *corpus, const char *path, enum data_format format, struct error *err);
void corpus_close(struct corpus *corpus);

/* Tokens [first, first + count), which must lie inside. */
void corpus_read(const struct corpus *corpus, uint64_t first, size_t count, int32_t *out);

/* Adds how often each token occurs among [0, end) to counts, which has room for all that the width can say (256, 65,536). */
void corpus_count(const struct corpus *corpus, uint64_t end, uint64_t *counts);

#endif
