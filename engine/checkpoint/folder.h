/* Names and folders of checkpoints on disk: what makes a save atomic. */
#ifndef ENGINE_CHECKPOINT_FOLDER_H
#define ENGINE_CHECKPOINT_FOLDER_H

#include "engine/checkpoint/format.h"

enum { PATH_BYTES = CHECKPOINT_FOLDER_BYTES + 256 };

void folder_partial(char path[PATH_BYTES], const struct checkpoint_target *target); /* DIR/.TAG.partial */

/* In a folder: how shard `shard` of so many is called; suffix "" when whole, ".writing", ".failed". */
void folder_shard(char path[PATH_BYTES], const char *folder, int shard, int shards, const char *suffix);

int folder_make(const char *path, struct error *err); /* with those above it; may be there */
int folder_sync(const char *path, struct error *err);
int folder_write(const char *path, const char *text, struct error *err); /* a small file, and sees it onto the disk */

/* A whole small file as text, at most `most` bytes; NULL and an error (STATUS_INPUT). The caller frees. */
char *folder_read(const char *path, size_t most, struct error *err);

/* Removes our files from a folder, then the folder if nothing else is in it. */
void folder_remove(const char *path);

/* What killed saves left in DIR: partial folders go, one that was being replaced gets its name back. */
void folder_sweep(const char *dir);

/* The partial folder becomes DIR/TAG, also where that stands already. The caller syncs DIR. */
int folder_promote(const struct checkpoint_target *target, struct error *err);

/* `latest` in two steps. The first writes it beside the old one: a full disk is found before a checkpoint stands that no `latest`
 * names. The second, once the checkpoint stands, puts it in the place of the old one; or it is dropped. */
int folder_write_latest(const char *dir, const char *tag, struct error *err);
int folder_use_latest(const char *dir, struct error *err);
void folder_drop_latest(const char *dir);

/* Removes the oldest named "step-N" until `keep` are left; the newest, and the one that `latest` names, stay. */
void folder_prune(const char *dir, int keep);

#endif
