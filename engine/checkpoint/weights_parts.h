/* Internals that the formats of weights share; only weights*.c, the formats and tensor_list.c include this file. */
#pragma once

#include <cjson/cJSON.h>

#include "engine/base/bytes.h"
#include "engine/checkpoint/weights.h"
#include "engine/plan/gpt2.h"

struct weights_place {
    bool transposed;  /* the file's [columns, rows] is our [rows, columns] */
    enum dtype dtype;
    int file;         /* index in the layout's files */
    uint64_t offset;  /* in the file */
};

/* The place of every tensor. places: [unit][enum tensor_id]. */
struct weights_layout {
    struct model model; /* of the file's sizes */
    struct weights_place *places;
    char **files;       /* paths; NULL: only the opened file */
    int file_count;
    uint64_t bytes;     /* of all files */
};

/* Sets layout->model and allocates the places, but not the files. shape->heads 0: not known. STATUS_INPUT: zerolab permits no model of
 * these sizes. STATUS_RUN: no memory. */
int weights_layout_init(struct weights_layout *layout, const struct config_model *shape, enum dtype dtype, struct error *err);
void weights_layout_release(struct weights_layout *layout);
struct weights_place *weights_place(const struct weights_layout *layout, int unit, int id);

/* The rows of weights.def, in its order; id: enum tensor_id. */
struct weight_row { int id; const char *name; bool transposed; };
enum weight_row_number {
#define WEIGHT(ID, name, transposed) WEIGHT_##ID,
#include "engine/checkpoint/weights.def"
#undef WEIGHT
    WEIGHT_ROWS
};
extern const struct weight_row weight_rows[WEIGHT_ROWS];

/* The lent buffers, divided into three: `raw`, elements as they are in the file; `line`, the same elements in fp32;
 * `strip`, rows of a tensor in fp32. Of a transposed tensor the strip holds as many of our rows as fit. A row of the file is then one
 * of our columns. `line` takes as many elements of it as the strip has rows, and becomes one column of the strip. */
enum { LINE_ELEMS = 32 << 10, STRIP_ELEMS = STATE_BUFFERS_BYTES / 4 - 2 * LINE_ELEMS };
struct weights_buffers { float *raw, *line, *strip; };
void weights_divide(struct weights_buffers *buffers, void *lent);
/* How many rows of `tensor` from first_row on are handled at a time: as many as the strip holds, LINE_ELEMS at most, or
 * all that are left. */
int64_t weights_strip_rows(const struct tensor *tensor, int64_t first_row);

struct weights_format_info {
    const char *name, *ending;
    unsigned dtypes; /* 1 << enum dtype */
    /* Whether a file of `bytes` bytes may have this format, by its name and its first 16 bytes. */
    bool (*is)(const char *path, const uint8_t first[16], uint64_t bytes);
    /* Reads the head into a layout. path: of the file, to find the files beside it. */
    int (*read)(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
    /* Makes the head's bytes for a layout with a model, and sets the places of all tensors. */
    int (*compose)(struct weights_layout *layout, struct bytes *head, struct error *err);
};
extern const struct weights_format_info weights_formats[WEIGHTS_FORMATS];

bool safetensors_is(const char *path, const uint8_t first[16], uint64_t bytes);
int safetensors_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
int safetensors_compose(struct weights_layout *layout, struct bytes *head, struct error *err);
bool llmc_is(const char *path, const uint8_t first[16], uint64_t bytes);
int llmc_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
int llmc_compose(struct weights_layout *layout, struct bytes *head, struct error *err);

/* Opens a file for reading and sets *bytes to its size; returns the descriptor, or -1 with STATUS_INPUT in err; the text does not name
 * the file. */
int weights_open_file(const char *path, uint64_t *bytes, struct error *err);

/* ---- tensor_list.c: the headers of safetensors files as a list of named tensors, in one file or several.
 *
 *     file     8 bytes with the header's length; the header, JSON {"name": {"dtype", "shape", "data_offsets"}, ...} and
 *              "__metadata__" with text only; then the tensors, one after the other without holes
 *     index    JSON beside several such files: {"metadata": ..., "weight_map": {"name": "file", ...}}
 *
 * STATUS_INPUT: the text names the tensor at fault, if there is one, but not the file or index that the caller opened. STATUS_RUN: no
 * memory. ---- */

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
