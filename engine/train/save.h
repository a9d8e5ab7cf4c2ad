/* A rank's part in saving checkpoints. All ranks decide together, between two steps; then each writes its own shard, in a
 * thread beside the training from a copy of its state, or at once where there is no room for one. Rank 0 waits for all
 * shards in the folder itself and gives the checkpoint its name, so no rank waits for another's disk.
 *
 *     saver_new()
 *     saver_save()     collective, as often as wanted; ends when the copy is made, or the shard is written
 *     saver_finish()   collective: what is under way has come to its end
 *     saver_free()     what is still under way is given up */
#ifndef ENGINE_TRAIN_SAVE_H
#define ENGINE_TRAIN_SAVE_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/rank.h"

struct saver;

/* STATUS_RUN. ring: rank 0's thread tells the trace there what became of a save; NULL on other ranks. */
int saver_new(struct saver **out, struct rank *rank, struct trace_ring *ring, struct error *err);
void saver_free(struct saver *saver); /* may be NULL */

/* tag "": of the step. began (may be NULL) is called once it is certain that it is tried. An error says why it could not be
 * begun, on every rank; what goes wrong later is told to the trace. */
struct saver_request {
    const char *tag;
    bool waits;   /* for the save before it to be completed; else that is an error */
    bool at_once; /* not in the background */
    void (*began)(void *user);
    void *user;
};
int saver_save(struct saver *saver, const struct saver_request *request, struct error *err);

/* Tells the trace of a save that could not be begun. tag "": of the step. */
void saver_failed(const struct saver *saver, const char *tag, const char *why);

/* Collective: whether the run may save into this folder (save_claims.h). */
int saver_check_folder(struct saver *saver, const char *dir, struct error *err);

/* Also tells whether the state as it is now has been saved. */
int saver_finish(struct saver *saver, bool *is_saved, struct error *err);

/* ---- for whoever else writes the state of a rank ---- */

/* What a manifest says of it as it is now, all but the configuration; and which arrays there are. */
struct checkpoint_info save_info(const struct rank *rank);

/* The rank's own shard out of a source (the state itself, or a copy), to the end of the writer. */
int save_shard(const struct rank *rank, struct checkpoint_writer *writer, const bool has[STATE_ARRAYS], const struct state_source *source, struct error *err);

#endif
