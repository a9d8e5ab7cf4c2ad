/* The engine's side of a relaunch: applies a command that needs a new engine (`ranks`, or `set` of a key that is not live).
 *
 *     relaunch_apply()       every rank: checks the change, saves the state into the run's folder, and sets rank->leaves
 *     relaunch_hand_over()   rank 0, when all ranks have saved: writes run.json of the next engine, and gives socket and viewers to
 *                            the front end (relauncher.h), which starts that engine when this one has ended
 *     relaunch_opened()      every rank of the next engine, when it has loaded the state: removes what was saved
 *     relaunch_go_back()     rank 0 of the next engine, when it cannot begin: asks the front end to start the engine before it
 *
 * The state is a checkpoint (engine/checkpoint), so any number of ranks can load it. */
#ifndef ENGINE_TRAIN_RELAUNCH_H
#define ENGINE_TRAIN_RELAUNCH_H

#include "engine/train/rank.h"

/* Rank 0, before anything is done: STATUS_USAGE or STATUS_RUN, and why the change cannot be (relaunch_check.c). */
int relaunch_check(struct rank *rank, const char *key, const char *value, struct error *err);

/* As rank_apply(), collective. If the state could not be saved, the run goes on as it was, and the log says so. */
int relaunch_apply(struct rank *rank, const struct command *command, struct error *err);

/* The caller's writer is stopped by this. */
void relaunch_hand_over(struct rank *rank);

void relaunch_watch_loading(struct rank *rank); /* what is read from rank->source from here on is told as progress */
void relaunch_opened(struct rank *rank);        /* after the state was made, if it was; again and again does no harm */

/* False: there is no way back. Else as relaunch_hand_over(). */
bool relaunch_go_back(struct rank *rank, const char *why);

#endif
