/* Checkpoints: the state of a run between two steps, on disk, in a form that knows neither stage nor number of ranks.
 *
 *     DIR/latest              a line: the newest tag (DeepSpeed's name for it)
 *     DIR/TAG/manifest.json   what was trained and how far: version, resolved config, threads, instruction set, step, updates,
 *                             loss scale, of each shard its bytes and checksum, and a checksum of all this
 *     DIR/TAG/shard-0-of-4    of each rank that saved: values, in blocks, each with its CRC-32C, and a table of the ranges
 *                             (unit, array, first element, count) that they are (format.h)
 *
 * A range says which elements of which unit it holds, so a shard of four ranks and a whole file are the same thing, and a
 * reader asks for elements and not for shards: that is why a checkpoint loads at any stage, any number of ranks, any
 * offload choice, and in other tiles (retile.h) (DeepSpeed calls such a one universal). Only fp32 values are kept: master
 * weights (the weights themselves in fp32 training) and what state the optimizer keeps. 16-bit parameters are always their
 * master weights rounded, so they are made again, bit for bit.
 *
 * A checkpoint is written into DIR/.TAG.partial and gets its name when all is on the disk; then `latest` changes. Whatever
 * dies in between, what stood before still stands. All ranks see the same DIR.
 *
 * Errors: STATUS_INPUT what is read is missing, damaged or of another kind (the text names file, block and bytes);
 * STATUS_USAGE it does not fit the model that asks; STATUS_RUN the disk or memory does not let us. */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_H
#define ENGINE_CHECKPOINT_CHECKPOINT_H

#include "engine/config/command.h"
#include "engine/data/fingerprint.h"
#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum { CHECKPOINT_TAG_BYTES = COMMAND_TAG_BYTES, CHECKPOINT_FOLDER_BYTES = 4096 };

/* ---- reading: any process, any number of them; one thread at a time ---- */

/* In memory are its tables, 4 bytes for each block of 256 KiB and 40 for each range, and what it is lent to read through. */
struct checkpoint;

struct checkpoint_info {
    char tag[CHECKPOINT_TAG_BYTES], folder[CHECKPOINT_FOLDER_BYTES]; /* DIR/TAG */
    char *config_json;          /* as resolved when it was saved; of the checkpoint */
    struct model model;         /* what it holds; its config is config_json's */
    bool has[STATE_ARRAYS];     /* the weights always; of what its optimizer keeps all or nothing */
    struct zero_progress progress;
    int ranks, stage, threads;  /* of the run that saved; nothing depends on them but that equal ones repeat bits */
    char isa[32];
    struct data_fingerprint data; /* what it was trained on; not known: none is written */
    int shards;
    uint64_t bytes;             /* of all its files */
};

/* tag NULL: DIR/latest. DIR may also be DIR/TAG itself. Opens the manifest and the tables of all shards, and checks that
 * every element is there. */
int checkpoint_open(struct checkpoint **out, const char *dir, const char *tag, struct error *err);
void checkpoint_close(struct checkpoint *checkpoint);
const struct checkpoint_info *checkpoint_info(const struct checkpoint *checkpoint);

/* Elements [first, first + elems) of an array of a unit, unsharded and unpadded. Every block touched is checked. In
 * ascending order the disk reads ahead. */
int checkpoint_read(struct checkpoint *checkpoint, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);

/* Lends it STATE_BUFFERS_BYTES (two buffers: one of them is on its way from the disk); NULL: takes them back. Before anything
 * is read. */
void checkpoint_lend(struct checkpoint *checkpoint, void *buffers);

/* As where a rank's state comes from (struct zero_options). STATUS_USAGE: another model, precision or optimizer, and which.
 * weights_only: another precision and another optimizer will do, the optimizer begins with zeros and the run at step 1 (what
 * DeepSpeed calls load_module_only). Tiles may be others. The checkpoint must stay open, and the model be there, as long as the
 * source is used. */
int checkpoint_source(struct state_source *source, struct checkpoint *checkpoint, const struct model *model, bool weights_only, struct error *err);

/* Reads everything once; `progress` (may be NULL) is told how far it is. STATUS_INPUT: the first damage found. */
int checkpoint_verify(struct checkpoint *checkpoint, void (*progress)(void *user, uint64_t done_bytes, uint64_t all_bytes), void *user, struct error *err);

/* What stands in DIR, newest first, at most `room`; returns how many. No file of theirs but the names has been looked at. */
struct checkpoint_tag { char tag[CHECKPOINT_TAG_BYTES]; int64_t saved_ns; /* since 1970 */ };
int checkpoint_tags(const char *dir, struct checkpoint_tag *tags, int room);

/* The tag that DIR/latest names, if it stands. */
bool checkpoint_latest(const char *dir, char tag[CHECKPOINT_TAG_BYTES]);

/* What to name of a folder that holds checkpoints: its latest, else the newest that stands. False: it holds none. */
bool checkpoint_any(const char *dir, char tag[CHECKPOINT_TAG_BYTES]);

/* ---- writing ----
 *
 *     checkpoint_begin(&save, &target, &err)             one process
 *     checkpoint_writer_open(&writer, &target, s, ...)   whoever writes shard s
 *     checkpoint_writer_take() ...                       any ranges in any order, each element once
 *     checkpoint_writer_end(writer, &err)                the shard is on the disk
 *     checkpoint_writer_close(writer)
 *     checkpoint_gather(save, NULL, NULL, &err)           the one process: all shards are there
 *     checkpoint_commit(save, &info, &err)               ... and the checkpoint stands
 *     checkpoint_end(save)
 *
 * Of the engine's ranks each writes its own shard; a converter writes shard 0 of 1. Together the shards hold every element of
 * the weights, and of every state or of none. */

/* Whether checkpoints could be written into DIR; what is missing of it is made, and taken away again. STATUS_USAGE: no, and why.
 * A full disk is no reason: there may be room by then. */
int checkpoint_try(const char *dir, struct error *err);

struct checkpoint_target {
    const char *dir, *tag;
    int shards;
    bool fresh;    /* whoever saves has written nothing there yet: what stands in DIR is another's, and keeps us out */
    int keep;      /* of checkpoints named "step-N" so many stay in DIR, the newest; 0: all. Others always stay */
    void *buffers; /* lent to whoever writes a shard: STATE_BUFFERS_BYTES at a multiple of 4096 */
};

/* Whether a name can be a tag (command_check_tag()). STATUS_USAGE. */
int checkpoint_check_tag(const char *tag, struct error *err);
void checkpoint_step_tag(char tag[CHECKPOINT_TAG_BYTES], int64_t step); /* "step-N" */

/* Makes DIR and the partial folder in it; removes what killed saves left; keeps other saves out of DIR until the end.
 * STATUS_USAGE: `fresh`, and DIR holds checkpoints. */
struct checkpoint_save;
int checkpoint_begin(struct checkpoint_save **out, const struct checkpoint_target *target, struct error *err);

/* Waits until every shard has ended. STATUS_RUN: one has failed, and why; or is_over said, asked again and again, that there
 * is nothing to wait for any more (NULL: never). */
int checkpoint_gather(struct checkpoint_save *save, bool (*is_over)(void *user), void *user, struct error *err);

/* The manifest, the name, `latest`, and the removal of what `keep` leaves out. Of info: config_json, progress, ranks, stage,
 * threads, isa, data. */
int checkpoint_commit(struct checkpoint_save *save, const struct checkpoint_info *info, struct error *err);

/* Whether it has got its name: not only after a commit, but also where `latest` could not be pointed to it. */
bool checkpoint_stands(const struct checkpoint_save *save);

/* Frees; removes what was not committed. May be NULL. */
void checkpoint_end(struct checkpoint_save *save);

struct checkpoint_writer;
/* value_bytes: about how many will be put. The disk makes room for them at once, where it can do that: a full one is met before
 * anything is written (STATUS_RUN). */
int checkpoint_writer_open(struct checkpoint_writer **out, const struct checkpoint_target *target, int shard, uint64_t value_bytes, struct error *err);
/* Values from a source, straight into the writer's buffers. */
int checkpoint_writer_take(struct checkpoint_writer *writer, int unit, enum state_array array, int64_t first, int64_t elems, const struct state_source *source, struct error *err);
int checkpoint_writer_end(struct checkpoint_writer *writer, struct error *err);
/* Frees. Of a shard that has not ended nothing stays but, if something went wrong, a note for checkpoint_gather(). */
void checkpoint_writer_close(struct checkpoint_writer *writer);
uint64_t checkpoint_writer_bytes(const struct checkpoint_writer *writer); /* put so far */

#endif
