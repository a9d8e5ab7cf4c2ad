/* What the headers of safetensors files say: a list of named tensors, of one file or of several.
 *
 *     header   8 bytes, its length; then JSON, {"name": {"dtype", "shape", "data_offsets"}, ...} and "__metadata__", which has
 *              text only; then the tensors, one after the other without holes
 *     index    JSON beside several such files: {"metadata": ..., "weight_map": {"name": "file", ...}}
 *
 * Errors are STATUS_INPUT and name file and tensor. */
#ifndef ENGINE_CHECKPOINT_TENSOR_LIST_H
#define ENGINE_CHECKPOINT_TENSOR_LIST_H

#include <cjson/cJSON.h>

#include "engine/checkpoint/weights_parts.h"

extern const char *const safetensors_dtypes[3]; /* by enum dtype */

struct tensor_entry {
    const char *name;
    enum dtype dtype;
    bool known_dtype, indexed, used;
    int file, dimensions;
    int64_t shape[4];
    uint64_t begin, end; /* in the file */
};

struct tensor_list {
    cJSON **headers;              /* of each file; they own the names */
    char **files;                 /* their paths; NULL: one file, without an index */
    int file_count;
    struct tensor_entry *entries; /* by name */
    int count;
    uint64_t bytes, header_bytes; /* of all files */
};

/* Of one file that is open. */
int tensor_list_read(struct tensor_list *list, int fd, uint64_t bytes, struct error *err);

/* Of an index that is open, and all files that it names: each is there, and has those tensors that the index says, no more
 * and no less; none is in two of them. */
int tensor_list_read_index(struct tensor_list *list, int fd, uint64_t bytes, const char *path, struct error *err);

void tensor_list_release(struct tensor_list *list);

/* By its own name or behind "transformer.": GPT2LMHeadModel says "transformer.wte.weight", GPT2Model and the file on the hub
 * "wte.weight". NULL: there is none. */
struct tensor_entry *tensor_list_find(const struct tensor_list *list, const char *name);

#endif
