/* A fingerprint of a corpus, by which a resumed run notices that its data changed: size, time of the last change, and a
 * hash of 64 evenly spaced blocks of 4,096 tokens. A corpus of at most 64 blocks is hashed as a whole. */
#pragma once

#include "engine/data/corpus.h"

enum { FINGERPRINT_BLOCKS = 64, FINGERPRINT_BLOCK_TOKENS = 4096 };

struct data_fingerprint {
    bool known;        /* false: the checkpoint has none, e.g. because an older program wrote it */
    char path[200];    /* data.path; "": the default text, or synthetic tokens */
    uint64_t bytes;    /* 0: synthetic tokens */
    int64_t changed_s; /* time of the newest file's last change, seconds since 1970; 0: no file */
    uint64_t hash;
};

/* `path`: the path that the corpus was opened with. STATUS_INPUT: the corpus cannot be read. */
int data_fingerprint_take(struct data_fingerprint *out, const struct corpus *corpus, const char *path, struct error *err);

/* How `now` differs from `saved`; both must be known. `text` (may be NULL) gets a line that names both. */
enum data_change {
    DATA_SAME,
    DATA_TOUCHED, /* only the time differs, and the hash does not cover all tokens */
    DATA_CHANGED,
};
enum data_change data_fingerprint_compare(const struct data_fingerprint *saved, const struct data_fingerprint *now,
                                          char *text, size_t room);
