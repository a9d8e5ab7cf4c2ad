/* What tells one training text from another, so that a run that resumes notices that its data changed: size, time of the last
 * change, and a hash of 64 blocks of 4,096 tokens, evenly spaced. A corpus of at most 64 blocks is hashed whole. */
#ifndef ENGINE_DATA_FINGERPRINT_H
#define ENGINE_DATA_FINGERPRINT_H

#include "engine/data/corpus.h"

enum { FINGERPRINT_BLOCKS = 64, FINGERPRINT_BLOCK_TOKENS = 4096 };

struct data_fingerprint {
    bool known;        /* false: of a checkpoint that does not say, e.g. one of an older program */
    char path[200];    /* data.path; "": the built-in text, or made-up tokens */
    uint64_t bytes;    /* 0: made up */
    int64_t changed_s; /* the newest file's, since 1970; 0: no file */
    uint64_t hash;
};

/* `path` is what the corpus was opened with. STATUS_INPUT: it cannot be read. */
int data_fingerprint_take(struct data_fingerprint *out, const struct corpus *corpus, const char *path, struct error *err);

/* How `now` differs from `saved`, which both are known; `text` (NULL where it does not matter) gets a line that names both. */
enum data_change {
    DATA_SAME,
    DATA_TOUCHED, /* only the time, and the hash does not cover all */
    DATA_CHANGED,
};
enum data_change data_fingerprint_compare(const struct data_fingerprint *saved, const struct data_fingerprint *now,
                                          char *text, size_t room);

#endif
