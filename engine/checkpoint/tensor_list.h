/* The headers of safetensors files as a list of named tensors, in one file or several.
 *
 *     file     8 bytes with the header's length; the header, JSON {"name": {"dtype", "shape", "data_offsets"}, ...} and
 *              "__metadata__" with text only; then the tensors, one after the other without holes
 *     index    JSON beside several such files: {"metadata": ..., "weight_map": {"name": "file", ...}}
 *
 * Errors are STATUS_INPUT and name file and tensor. */
#pragma once

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
    cJSON **headers;              /* one for each file; they own the names */
    char **files;                 /* paths of the files; NULL: one file, without an index */
    int file_count;
    struct tensor_entry *entries; /* sorted by name */
    int count;
    uint64_t bytes, header_bytes; /* of all files */
};

/* Reads the header of one open file of `bytes` bytes. */
int tensor_list_read(struct tensor_list *list, int fd, uint64_t bytes, struct error *err);

/* Reads an open index and the headers of all files that it names. Checks that each file exists and has exactly the
 * tensors that the index gives it. */
int tensor_list_read_index(struct tensor_list *list, int fd, uint64_t bytes, const char *path, struct error *err);

void tensor_list_release(struct tensor_list *list);

/* Finds a tensor by name, also with the prefix "transformer.": GPT2LMHeadModel has "transformer.wte.weight", GPT2Model
 * and the file on the hub "wte.weight". NULL: not found. */
struct tensor_entry *tensor_list_find(const struct tensor_list *list, const char *name);
