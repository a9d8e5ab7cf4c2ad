/* The engine's side of a relaunch: applies a command that needs a new engine (`ranks`, or `set` of a key that is not
 * live).
 *
 *     relaunch_apply()       every rank: checks the change, saves the state into the run's folder, and sets rank->relaunch.leaves
 *     relaunch_hand_over()   rank 0, when all ranks have saved: writes run.json of the next engine, and passes socket and viewers to
 *                            the front end (relauncher.h), which starts that engine when this one has ended
 *     relaunch_opened()      every rank of the next engine, when it has loaded the state: removes what was saved
 *     relaunch_go_back()     rank 0 of the next engine, when it cannot begin: asks the front end to start the engine before it
 *
 * The state is a checkpoint (engine/checkpoint), so any number of ranks can load it. */
#pragma once

#include "engine/train/rank.h"

/* Rank 0, before anything changes: STATUS_USAGE, STATUS_INPUT or STATUS_RUN, and why the change is impossible (relaunch_check.c). */
int relaunch_check(struct rank *rank, const char *key, const char *value, struct error *err);

/* As rank_apply(), collective. If the state cannot be saved, the run continues unchanged, and the log says so. */
int relaunch_apply(struct rank *rank, const struct command *command, struct error *err);

/* Describes this engine in back.json for the one that follows it, and stops rank->rank0.writer. */
void relaunch_hand_over(struct rank *rank);

void relaunch_watch_loading(struct rank *rank); /* wraps rank->source, so that reads from it are recorded as progress */
void relaunch_opened(struct rank *rank);        /* callable repeatedly; removes the saved state once it is loaded */

/* Hands over to the engine before this one, which back.json describes. False: back.json is missing or not readable, or there is no
 * writer. */
bool relaunch_go_back(struct rank *rank, const char *why);
