/* Checkpoints: the state of a run between two steps, on disk, in a form that does not depend on stage or number of ranks.
 *
 *     DIR/latest              one line: the newest tag (DeepSpeed's name for this file)
 *     DIR/TAG/manifest.json   the run and its progress: version, resolved config, threads, instruction set, step, updates,
 *                             loss scale, the bytes and checksum of each shard, and a checksum of the text itself
 *     DIR/TAG/shard-0-of-4    one for each rank that saved: fp32 values in blocks, the CRC-32C of each block, and a table that
 *                             says which elements the values are: ranges of unit, array, first element, count (format.h)
 *
 * Each range names its unit and elements, and a reader asks for elements, not for shards. So a checkpoint loads at any stage,
 * number of ranks, offload choice and number of MLP tiles (retile.h); DeepSpeed calls such a checkpoint universal. Only fp32
 * values are kept: master weights (in fp32 training the weights themselves), the optimizer's states, and pending gradients.
 * 16-bit parameters are always the rounded master weights, so they are computed again, bit for bit.
 *
 * A checkpoint is written into DIR/.TAG.partial, which is renamed when all files are on the disk; then `latest`
 * changes. A crash at any time leaves the earlier checkpoints intact. All ranks must see the same DIR.
 *
 * Errors: STATUS_INPUT: a file is missing, damaged or of another kind (the text names file, block and bytes);
 * STATUS_USAGE: the checkpoint does not fit the caller's model; STATUS_RUN: the disk or memory fails. */
#pragma once

#include "engine/config/command.h"
#include "engine/data/data.h"
#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum { CHECKPOINT_TAG_BYTES = COMMAND_TAG_BYTES, CHECKPOINT_FOLDER_BYTES = 4096 };

/* ---- reading: any number of processes; one thread at a time for each struct ---- */

/* Keeps the tables in memory: 4 bytes for each block of 256 KiB and 40 bytes for each range. Reads through buffers of the caller. */
struct checkpoint;

struct checkpoint_info {
    char tag[CHECKPOINT_TAG_BYTES], folder[CHECKPOINT_FOLDER_BYTES]; /* DIR/TAG */
    char *config_json;          /* the resolved configuration at the time of the save; the checkpoint owns it */
    struct model model;         /* the model of config_json */
    bool has[STATE_ARRAYS];     /* the weights: always true; the optimizer's states: all or none */
    struct zero_progress progress;
    int ranks, stage, threads;  /* of the run that saved; only needed to repeat its bits */
    char isa[32];
    struct data_fingerprint data; /* of the training data; not written if data.known is false */
    int shards;
    uint64_t bytes;             /* size of all files */
};

/* Opens a checkpoint: reads the manifest and the tables of all shards, and checks that no element is missing. tag NULL:
 * the tag in DIR/latest. `dir` may also be DIR/TAG itself. */
int checkpoint_open(struct checkpoint **out, const char *dir, const char *tag, struct error *err);
void checkpoint_close(struct checkpoint *checkpoint);
const struct checkpoint_info *checkpoint_info(const struct checkpoint *checkpoint);

/* Reads elements [first, first + elems) of an array of a unit, unsharded and unpadded, and checks each block that it
 * reads. Reads in ascending order are prefetched from the disk. */
int checkpoint_read(struct checkpoint *checkpoint, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);

/* Lends the checkpoint STATE_BUFFERS_BYTES, used as two buffers to read ahead; NULL takes them back. Call it before the
 * first read. */
void checkpoint_lend(struct checkpoint *checkpoint, void *buffers);

/* Makes the checkpoint the source of a rank's state (struct zero_options). STATUS_USAGE: the model, precision or
 * optimizer differs; the text says which. weights_only permits another precision and optimizer: states begin at zero
 * and the run at step 1 (DeepSpeed's load_module_only). The number of MLP tiles may differ. The checkpoint must stay
 * open, and the model valid, as long as the source is used. */
int checkpoint_source(struct state_source *source, struct checkpoint *checkpoint, const struct model *model, bool weights_only, struct error *err);

/* Reads and checks all values once, and reports to `progress` (may be NULL). STATUS_INPUT: the first damage found. */
int checkpoint_verify(struct checkpoint *checkpoint, void (*progress)(void *user, uint64_t done_bytes, uint64_t all_bytes), void *user, struct error *err);

/* Lists at most `room` checkpoints of DIR, newest first, without opening their files; returns the number. */
struct checkpoint_tag { char tag[CHECKPOINT_TAG_BYTES]; int64_t saved_ns; /* since 1970 */ };
int checkpoint_tags(const char *dir, struct checkpoint_tag *tags, int room);

/* Reads the tag in DIR/latest; false if there is none, or if its checkpoint does not exist. */
bool checkpoint_latest(const char *dir, char tag[CHECKPOINT_TAG_BYTES]);

/* One checkpoint of a folder, for messages: the latest, else the newest. False: the folder holds none. */
bool checkpoint_any(const char *dir, char tag[CHECKPOINT_TAG_BYTES]);

/* ---- writing ----
 *
 *     checkpoint_begin(&save, &target, &err)             one process
 *     checkpoint_writer_open(&writer, &target, s, ...)   the process that writes shard s
 *     checkpoint_writer_take() ...                       any ranges in any order, each element once
 *     checkpoint_writer_end(writer, &err)                the shard is on the disk
 *     checkpoint_writer_close(writer)
 *     checkpoint_gather(save, NULL, NULL, &err)          the first process waits for all shards
 *     checkpoint_commit(save, &info, &err)               ... and gives the checkpoint its name
 *     checkpoint_end(save)
 *
 * Each of the engine's ranks writes its own shard; a converter can write all of them. Together the shards hold every
 * element of the weights, and either all states or none. */

/* Checks that checkpoints can be written into DIR: makes missing folders and removes them again. STATUS_USAGE: why not.
 * A full disk is no error here, because there may be room by the time of the save. */
int checkpoint_try(const char *dir, struct error *err);

struct checkpoint_target {
    const char *dir, *tag;
    int shards;
    bool fresh;    /* the run has not saved into DIR before: refuse it if it holds checkpoints, which belong to another run */
    int keep;      /* number of newest "step-N" checkpoints to keep in DIR; 0: all. Other tags are always kept */
    void *buffers; /* lent to the shard's writer: STATE_BUFFERS_BYTES, aligned to 4096 */
};

void checkpoint_step_tag(char tag[CHECKPOINT_TAG_BYTES], int64_t step); /* "step-N" */

/* Makes DIR and the partial folder in it, removes remains of killed saves, and locks DIR against other saves until
 * checkpoint_end(). STATUS_USAGE: target->fresh, and DIR holds checkpoints. STATUS_RUN: another run is saving into DIR. */
struct checkpoint_save;
int checkpoint_begin(struct checkpoint_save **out, const struct checkpoint_target *target, struct error *err);

/* Waits until all shards are complete. STATUS_RUN: a shard has failed (the text says why), or is_over() returned true;
 * it is polled while waiting and may be NULL. */
int checkpoint_gather(struct checkpoint_save *save, bool (*is_over)(void *user), void *user, struct error *err);

/* Writes the manifest, renames the folder, updates `latest`, and removes old checkpoints (target->keep). Uses these
 * fields of info: config_json, progress, ranks, stage, threads, isa, data. */
int checkpoint_commit(struct checkpoint_save *save, const struct checkpoint_info *info, struct error *err);

/* Whether the checkpoint has its final name. Also true if the commit failed after the renaming, e.g. when it replaced `latest`. */
bool checkpoint_stands(const struct checkpoint_save *save);

/* Removes files that were not committed, unlocks DIR and frees `save`, which may be NULL. */
void checkpoint_end(struct checkpoint_save *save);

struct checkpoint_writer;
/* value_bytes: about how many bytes of values will follow. Reserves disk space for them if the file system can, so that
 * a full disk is found before anything is written (STATUS_RUN). */
int checkpoint_writer_open(struct checkpoint_writer **out, const struct checkpoint_target *target, int shard, uint64_t value_bytes, struct error *err);
/* Reads elements from a source into the writer's buffers, and writes buffers that are full. */
int checkpoint_writer_take(struct checkpoint_writer *writer, int unit, enum state_array array, int64_t first, int64_t elems, const struct state_source *source, struct error *err);
int checkpoint_writer_end(struct checkpoint_writer *writer, struct error *err);
/* Frees the writer. Removes an incomplete shard; after an error, leaves a note with the reason for checkpoint_gather(). */
void checkpoint_writer_close(struct checkpoint_writer *writer);
uint64_t checkpoint_writer_bytes(const struct checkpoint_writer *writer); /* bytes of values so far */
