/* manifest.json: what stands beside the shards. Its last line is the checksum of all text before that line. */
#ifndef ENGINE_CHECKPOINT_MANIFEST_H
#define ENGINE_CHECKPOINT_MANIFEST_H

#include "engine/checkpoint/format.h"

struct manifest_shard { uint64_t bytes; uint32_t crc; /* of its head */ };

/* The text; the caller frees. NULL: no memory. */
char *manifest_print(const struct checkpoint_info *info, const struct manifest_shard *shards);

/* Sets of info all but folder, model and has; config_json and *shards are the caller's to free, also after an error.
 * STATUS_INPUT, without the file's name. */
int manifest_parse(struct checkpoint_info *info, struct manifest_shard **shards, const char *text, struct error *err);

#endif
