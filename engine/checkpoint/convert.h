/* From one form of a model to another: a checkpoint of ours, or a file of weights, is an *origin*; what is made of it is a
 * file of weights (weights_write()), or a checkpoint with as many shards as one likes. Both stream, through buffers that the
 * caller brings: whatever the model, there is nothing else in memory but the tables of both files, some bytes for each tensor,
 * range and block. */
#ifndef ENGINE_CHECKPOINT_CONVERT_H
#define ENGINE_CHECKPOINT_CONVERT_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/weights.h"

struct convert_buffers { void *in, *out; }; /* STATE_BUFFERS_BYTES each, at a multiple of 4096 */

struct origin {
    struct checkpoint *checkpoint; /* one of these two; the other is NULL */
    struct weights_file *file;
    struct model model;            /* what it holds */
    struct state_source source;
};

/* path: a folder of checkpoints (tag NULL: the latest), one of them, or a file or folder of weights. heads: how many
 * attention heads a file has that does not say it; 0: not known. buffers: what it is read through, until its release.
 * STATUS_USAGE: the heads must be known; or a tag was given that there is no use for. */
int origin_open(struct origin *origin, const char *path, const char *tag, int heads, void *buffers, struct error *err);
void origin_release(struct origin *origin);

struct convert_target {
    const char *dir, *tag;  /* tag NULL: that of the origin, or step-0 */
    int shards;
    void *buffers;           /* STATE_BUFFERS_BYTES, at a multiple of 4096 */
    const char *config_json; /* of a checkpoint that is made of a file; of another origin its own is taken */
};

/* checkpoint_info.isa of what was made of a file: no processor trained it. */
#define CONVERTED_ISA "none"

/* Weights, and what states the origin has. */
int convert_to_checkpoint(const struct origin *origin, const struct convert_target *target, weights_progress *progress,
                          void *user, struct error *err);

/* The weights of DIR/TAG beside its shards, in the type that the model trains in, as transformers opens them:
 * model.safetensors and config.json. The checkpoint stands whatever becomes of them. */
int convert_beside(const char *dir, const char *tag, const struct convert_buffers *buffers, struct error *err);

#endif
