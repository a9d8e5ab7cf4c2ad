/* A corpus: the bytes of one file, of all files of a folder one after another, or of the default text, as one range. */
#ifndef ENGINE_DATA_CORPUS_H
#define ENGINE_DATA_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

struct corpus_file {
    const uint8_t *bytes;
    uint64_t first, length; /* place in the corpus */
};

struct corpus {
    struct corpus_file *files;
    size_t count;
    uint64_t length;
};

/* path "": the default text. A folder's regular files are taken in sorted order of their paths; names that begin with a
 * dot and empty files are passed over, links inside it are not followed. A file must not be cut short while it is open. */
int corpus_open(struct corpus *corpus, const char *path, struct error *err);
void corpus_close(struct corpus *corpus);

/* Bytes [first, first + count), which must lie inside. */
void corpus_read(const struct corpus *corpus, uint64_t first, size_t count, uint8_t *out);

#endif
