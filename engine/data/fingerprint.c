#include "engine/data/fingerprint.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static uint64_t fnv1a(uint64_t hash, int32_t token, int width)
{
    for (int byte = 0; byte < width; byte++) hash = (hash ^ (token >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static int hash_blocks(uint64_t *hash, const struct corpus *corpus, struct error *err)
{
    const uint64_t whole = (uint64_t)FINGERPRINT_BLOCKS * FINGERPRINT_BLOCK_TOKENS;
    const uint64_t last = corpus->length > FINGERPRINT_BLOCK_TOKENS ? corpus->length - FINGERPRINT_BLOCK_TOKENS : 0;
    int32_t tokens[FINGERPRINT_BLOCK_TOKENS];
    *hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t b = 0; b < FINGERPRINT_BLOCKS; b++) {
        const uint64_t at = corpus->length > whole ? last / (FINGERPRINT_BLOCKS - 1) * b : b * FINGERPRINT_BLOCK_TOKENS;
        if (at >= corpus->length) break;
        const uint64_t left = corpus->length - at;
        const size_t count = left < FINGERPRINT_BLOCK_TOKENS ? (size_t)left : FINGERPRINT_BLOCK_TOKENS;
        int status = corpus_read(corpus, at, count, tokens, err);
        if (status) return status;
        for (size_t i = 0; i < count; i++) *hash = fnv1a(*hash, tokens[i], corpus->width);
    }
    return STATUS_OK;
}

int data_fingerprint_take(struct data_fingerprint *out, const struct corpus *corpus, const char *path, struct error *err)
{
    struct stat about;
    *out = (struct data_fingerprint){.known = true, .bytes = corpus->length * (uint64_t)corpus->width};
    snprintf(out->path, sizeof out->path, "%s", path);
    for (size_t f = 0; f < corpus->count; f++)
        if (corpus->files[f].fd >= 0 && fstat(corpus->files[f].fd, &about) == 0 && about.st_mtime > out->changed_s)
            out->changed_s = about.st_mtime;
    return hash_blocks(&out->hash, corpus, err);
}

static void describe(const struct data_fingerprint *data, char *out, size_t room)
{
    char when[40] = "";
    struct tm utc;
    const time_t changed = (time_t)data->changed_s;
    if (changed && gmtime_r(&changed, &utc)) strftime(when, sizeof when, ", changed %F %T UTC", &utc);
    if (!data->bytes) snprintf(out, room, "made-up tokens");
    else
        snprintf(out, room, "%s (%llu bytes%s, hash %016llx)", *data->path ? data->path : "the built-in text",
                 (unsigned long long)data->bytes, when, (unsigned long long)data->hash);
}

enum data_change data_fingerprint_compare(const struct data_fingerprint *saved, const struct data_fingerprint *now,
                                          char *text, size_t room)
{
    char was[320], is[320];
    const bool same = saved->bytes == now->bytes && saved->hash == now->hash;
    const bool covered = now->bytes <= (uint64_t)FINGERPRINT_BLOCKS * FINGERPRINT_BLOCK_TOKENS;
    if (same && (covered || saved->changed_s == now->changed_s)) return DATA_SAME;
    describe(saved, was, sizeof was);
    describe(now, is, sizeof is);
    if (text)
        snprintf(text, room, same ? "the data were written to since the checkpoint, though size and hash are the same: %s; now %s"
                                  : "the data are not those of the checkpoint: it was trained on %s; now %s", was, is);
    return same ? DATA_TOUCHED : DATA_CHANGED;
}
