/* Checkpoints: the state of a run between two steps, on disk, in a form that knows neither stage nor number of ranks.
 *
 *     DIR/latest              a line: the newest tag (DeepSpeed's name for it)
 *     DIR/TAG/manifest.json   what was trained and how far: version, resolved config, model, threads, instruction set,
 *                             step, updates, loss scale, and of each shard its file, bytes and checksum
 *     DIR/TAG/shard-0-of-4    of each rank that saved: a table of ranges (unit, array, first element, count, type) and their
 *                             values, in blocks, each with its CRC-32C
 *
 * A range says which elements of which unit it holds, so a shard of four ranks and a whole file are the same thing, and a
 * reader asks for elements and not for shards: that is why a checkpoint loads at any stage, any number of ranks and any
 * offload choice (DeepSpeed calls such a one universal). Only fp32 values are kept: master weights (the weights themselves
 * in fp32 training) and what state the optimizer keeps. 16-bit parameters are always their master weights rounded, so they
 * are made again, bit for bit.
 *
 * A checkpoint is written into DIR/.TAG.partial and gets its name when all is on the disk; then `latest` changes. Whatever
 * dies in between, what stood before still stands. All ranks see the same DIR.
 *
 * Errors: STATUS_INPUT what is read is missing, damaged or of another kind (the text names file and block); STATUS_USAGE it
 * does not fit the model that asks; STATUS_RUN the disk or memory does not let us. */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_H
#define ENGINE_CHECKPOINT_CHECKPOINT_H

#include "engine/plan/model.h"
#include "engine/zero/state.h"

/* ---- reading: any process, any number of them ---- */

struct checkpoint;

struct checkpoint_info {
    char tag[64], folder[4096]; /* DIR/TAG */
    char *config_json;          /* as resolved when it was saved; of the checkpoint */
    struct model model;         /* what it holds; its config is config_json's */
    struct zero_progress progress;
    int ranks, stage, threads;  /* of the run that saved; nothing depends on them but that equal ones repeat bits */
    char isa[32];
    int shards;
    uint64_t bytes;             /* of all its files */
};

/* tag NULL: DIR/latest. DIR may also be DIR/TAG itself. Opens the manifest and the tables of all shards. */
int checkpoint_open(struct checkpoint **out, const char *dir, const char *tag, struct error *err);
void checkpoint_close(struct checkpoint *checkpoint);
const struct checkpoint_info *checkpoint_info(const struct checkpoint *checkpoint);

/* Elements [first, first + elems) of an array of a unit, unsharded and unpadded. Every block touched is checked. */
int checkpoint_read(struct checkpoint *checkpoint, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);

/* As where a rank's state comes from (struct zero_options). STATUS_USAGE: another model or optimizer, and which. The
 * checkpoint must stay open as long as the source is used. */
int checkpoint_source(struct state_source *source, struct checkpoint *checkpoint, const struct model *model, struct error *err);

/* Reads everything once; `progress` (may be NULL) is told how far it is. STATUS_INPUT: the first damage found. */
int checkpoint_verify(struct checkpoint *checkpoint, void (*progress)(void *user, uint64_t done_bytes, uint64_t all_bytes), void *user, struct error *err);

/* ---- writing ---- */

/* Who writes a checkpoint from anywhere: one per shard file. Of the engine's ranks each writes its own; a converter writes
 * shard 0 of 1. Ranges are put in any order, each once; together the shards hold every element of every array. */
struct checkpoint_writer;

struct checkpoint_target {
    const char *dir, *tag; /* tag NULL: "step-N" */
    int shard, shards;
    int keep;              /* this many checkpoints stay in DIR, the newest; 0: all. Those with a tag of their own always stay */
};

int checkpoint_writer_open(struct checkpoint_writer **out, const struct checkpoint_target *target, struct error *err);
int checkpoint_writer_put(struct checkpoint_writer *writer, int unit, enum state_array array, int64_t first, int64_t elems, const float *values, struct error *err);
/* Everything is on the disk; the file has its name in the partial folder. */
int checkpoint_writer_end(struct checkpoint_writer *writer, struct error *err);
/* Frees; removes the file if it was not ended. */
void checkpoint_writer_close(struct checkpoint_writer *writer);

/* By one process, when all shards have ended: the manifest, the name, `latest`, and the removal of what `keep` leaves out. */
int checkpoint_commit(const struct checkpoint_target *target, const struct checkpoint_info *info, struct error *err);

#endif
