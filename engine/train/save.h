/* Saves a rank's part of checkpoints. All ranks begin a save together, between two steps. Then each writes its own
 * shard: a background thread writes a copy of the state, or the rank writes at once if there is no room for a copy.
 * Rank 0 waits in the folder for all shards and gives the checkpoint its name, so no rank waits for another rank's
 * disk.
 *
 *     saver_new()
 *     saver_save()     collective, any number of times; returns when the copy is made, or the shard is written
 *     saver_finish()   collective: waits for a save in progress
 *     saver_free()     cancels a save in progress */
#pragma once

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/rank.h"

struct saver;

/* STATUS_RUN. ring: rank 0's thread records the outcome of each save there; NULL on other ranks. rank, ring:
 * borrowed. */
int saver_new(struct saver **out, struct rank *rank, struct trace_ring *ring, struct error *err);
void saver_free(struct saver *saver); /* may be NULL */

/* tag "": the step's tag. began (may be NULL) is called when all ranks are ready to write. An error, the same on
 * every rank, says why the save could not begin; later failures are recorded in the trace. */
struct saver_request {
    const char *tag;
    bool waits;   /* wait for a save in progress; false: a save in progress is an error */
    bool at_once; /* not in the background */
    void (*began)(void *user);
    void *user;
};
int saver_save(struct saver *saver, const struct saver_request *request, struct error *err);

/* Records a save that could not begin (rank 0). tag "": the step's tag. */
void saver_failed(const struct saver *saver, const char *tag, const char *why);

/* Collective: whether the run may save into this folder (save_claims.h). */
int saver_check_folder(struct saver *saver, const char *dir, struct error *err);

/* Collective. *is_saved: whether the state after the last step has been saved. */
int saver_finish(struct saver *saver, bool *is_saved, struct error *err);

/* ---- for other code that writes the state of a rank ---- */

/* What a manifest says about the current state, without the configuration, and which arrays the state has. */
struct checkpoint_info save_info(const struct rank *rank);

/* Writes the rank's own shard from a source (the state itself, or a copy), and ends the writer. */
int save_shard(const struct rank *rank, struct checkpoint_writer *writer, const bool has[STATE_ARRAYS], const struct state_source *source, struct error *err);
