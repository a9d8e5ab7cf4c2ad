/* The engine's side of a relaunch: a command that only a new start can obey (`ranks`, or `set` of a key that is not live).
 *
 *     relaunch_apply()        every rank: would it work? then saves the state into the run's folder; rank->leaves is set
 *     relaunch_hand_over()   rank 0, when all have come that far: writes down how it goes on, gives socket and viewers to the
 *                         front end (relauncher.h), which starts the next engine when this one has ended
 *     leave_opened()      every rank of that next engine, when it has the state: what was saved for it goes
 *     leave_go_back()     rank 0, if it could not begin: has the front end start what there was before
 *
 * The state is in a checkpoint (engine/checkpoint), so it does not matter how many ranks read it. */
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
