/* Names and folders of checkpoints on disk, and the renames that make a save atomic. */
#pragma once

#include "engine/checkpoint/format.h"
#include "engine/config/command.h"

enum { PATH_BYTES = CHECKPOINT_FOLDER_BYTES + 256 };

void folder_partial(char path[PATH_BYTES], const struct checkpoint_target *target); /* DIR/.TAG.partial */

/* The path of shard `shard` of `shards`; suffix: "" (complete), ".writing" or ".failed". */
void folder_shard(char path[PATH_BYTES], const char *folder, int shard, int shards, const char *suffix);

int folder_make(const char *path, struct error *err); /* also makes the folders above; no error if it exists */
int folder_sync(const char *path, struct error *err);
int folder_write(const char *path, const char *text, struct error *err); /* writes and syncs a small file */

/* Reads a text file of at most `most` bytes; the caller frees. NULL: STATUS_INPUT in err. */
char *folder_read(const char *path, size_t most, struct error *err);

/* Removes zerolab's files from a folder, then the folder if it is empty. Removes a path that is not a folder. */
void folder_remove(const char *path);

/* Cleans DIR after killed saves: removes partial folders, and restores the name of a folder that was being replaced. */
void folder_sweep(const char *dir);

/* Renames the partial folder to DIR/TAG and replaces an existing one. The caller syncs DIR. */
int folder_promote(const struct checkpoint_target *target, struct error *err);

/* `latest` changes in two steps. folder_write_latest() writes it beside the old one, so that a full disk is found before the
 * checkpoint gets its name. Afterwards folder_use_latest() replaces the old one, or folder_drop_latest() removes the new one. */
int folder_write_latest(const char *dir, const char *tag, struct error *err);
int folder_use_latest(const char *dir, struct error *err);
void folder_drop_latest(const char *dir);

/* Removes the oldest "step-N" checkpoints until `keep` are left (0: removes none). Never removes the one that `latest`
 * names. */
void folder_prune(const char *dir, int keep);
