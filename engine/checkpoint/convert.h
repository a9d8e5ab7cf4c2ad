/* Converts models between forms. The *origin* is a checkpoint of zerolab or a file of weights. The result is a file of
 * weights (weights_write()) or a checkpoint with any number of shards. Both stream through the caller's buffers.
 * Apart from the buffers, only the tables of both files are in memory: some bytes for each tensor, range and block. */
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/weights.h"
#include "engine/memory/memory.h"

struct convert_buffers { void *in, *out; }; /* STATE_BUFFERS_BYTES each, at a multiple of 4096 */

struct origin {
    struct checkpoint *checkpoint; /* exactly one of these two is not NULL */
    struct weights_file *file;
    struct model model;            /* the model of the origin */
    struct state_source source;
    char *config_json; /* owned: goes into a checkpoint made from `file`; one made from `checkpoint` gets that one's config */
};

/* path: a folder of checkpoints (tag NULL: the latest), a checkpoint, or a file or folder of weights. heads: the number
 * of attention heads, for a file that does not state it; 0: not known. buffers: lent for reading until
 * origin_release(). STATUS_USAGE: the number of heads is needed, or a tag was given for an origin without tags. */
int origin_open(struct origin *origin, const char *path, const char *tag, int heads, void *buffers, struct error *err);
void origin_release(struct origin *origin);

/* checkpoint_info.isa of a checkpoint that was made from a file of weights, because no run of zerolab trained it. */
#define CONVERTED_ISA "none"

/* Writes a checkpoint with the origin's weights and, if the origin has them, its optimizer states. target->dir must hold no checkpoint.
 * target->tag NULL: the origin's tag; "step-0" if the origin is a file. */
int convert_to_checkpoint(const struct origin *origin, const struct checkpoint_target *target, weights_progress *progress,
                          void *user, struct error *err);

/* Writes the weights of DIR/TAG beside its shards, in the type that the model trains in, for transformers:
 * model.safetensors and config.json. An error leaves the checkpoint itself intact. */
int convert_beside(const char *dir, const char *tag, const struct convert_buffers *buffers, struct error *err);

/* ---- buffers of offline commands (load, check, convert), STATE_BUFFERS_BYTES each. They have a tier allocator of their own, so the
 * command's memory is counted like a rank's (host tier, staging) ---- */

enum { IO_BUFFERS_MOST = 2 }; /* one to read through, one to write through */

struct io_buffers {
    struct memory *memory;
    void *lot[IO_BUFFERS_MOST];
    int count;
};

int io_buffers_open(struct io_buffers *buffers, int count, struct error *err);
void io_buffers_close(struct io_buffers *buffers); /* accepts a zeroed struct */
uint64_t io_buffers_peak_bytes(const struct io_buffers *buffers); /* the allocator's peak */
