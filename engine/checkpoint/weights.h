/* Reads and writes files of weights of other programs:
 *
 *     safetensors   Hugging Face's, with the names of its GPT-2 (weights.def), fp32, fp16 or bf16; the output
 *                   layer is the embedding. Large models have several such files, and an index (model.safetensors.index.json)
 *                   with the file of each tensor
 *     llmc          llm.c's model files, magic 20240326: version 3 in fp32, 5 in bf16; the vocabulary padded to 128
 *
 * A file of either begins with a head, which gives the *layout*: the file, offset and type of each tensor, and whether it is transposed. A
 * format makes a layout from the head of a file, or from a model to write; all other code is common. A reader asks for elements of a unit,
 * as with a checkpoint. Reading and writing stream through buffers that the caller lends, for any size of model; a tensor that is
 * transposed in the file is handled in strips of rows.
 *
 * Files may come from anywhere. So the place of every tensor is checked: it lies within its file and overlaps no other. A layout is made
 * only from files that have every tensor of their model once. The only other tensors allowed are those that such files are known to have
 * and nobody needs (masks of attention, the output layer as a copy). */
#pragma once

#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum weights_format { WEIGHTS_SAFETENSORS, WEIGHTS_LLMC, WEIGHTS_FORMATS };

const char *weights_format_name(enum weights_format format);
/* Finds a format by name; false: unknown. */
bool weights_format_named(const char *name, enum weights_format *format);
/* Finds a format by the end of a file's name, ".safetensors" or ".bin". */
bool weights_format_of_path(const char *path, enum weights_format *format);

typedef bool weights_progress(void *user, uint64_t done_bytes, uint64_t all_bytes); /* true: stop (STATUS_RUN) */

/* ---- reading ---- */

struct weights_file;

struct weights_info {
    enum weights_format format;
    struct config_model shape; /* name "custom", or a built-in model of these sizes; heads 0: the file does not say */
    enum dtype dtype;          /* of the first tensor; in files that zerolab wrote, of all tensors */
    int tensors;
    int64_t elems;
    int files;                 /* number of files with tensors: more than one only with an index */
    uint64_t bytes;            /* of all files */
    char path[4096];           /* of the file or the index, also if a folder was given */
};

/* path: a file, an index, or a folder as transformers saves a model: model.safetensors, or an index and its files, and
 * config.json, which has the number of heads. STATUS_INPUT: missing, damaged, or not a GPT-2; the text names file and tensor. */
int weights_open(struct weights_file **out, const char *path, struct error *err);
void weights_close(struct weights_file *file);
const struct weights_info *weights_info(const struct weights_file *file);

const char *weights_part(const struct weights_file *file, int number); /* path of one of info.files */

/* Whether the path is a file of weights (by its first bytes; an index, by its name) or a folder of them. False for a checkpoint with
 * weights beside it. */
bool weights_is(const char *path);

/* Lends the file STATE_BUFFERS_BYTES, aligned to 4096, to read through; NULL takes them back. Call it before the first read. */
void weights_lend(struct weights_file *file, void *buffers);

/* Reads elements [first, first + elems) of a unit, unsharded and unpadded. One thread at a time; fastest in ascending order. */
int weights_read(struct weights_file *file, int unit, int64_t first, int64_t elems, float *out, struct error *err);

/* Makes the file the source of a rank's state: weights, but no optimizer states and no progress. STATUS_USAGE: the
 * file's sizes are not the model's. The file must stay open, and the model valid, as long as the source is used. The model may
 * have any number of MLP tiles. */
int weights_source(struct state_source *source, struct weights_file *file, const struct model *model, struct error *err);

/* ---- writing ---- */

struct weights_target {
    const char *path;
    enum weights_format format;
    enum dtype dtype; /* DTYPE_F32, DTYPE_BF16 or DTYPE_F16 */
    void *buffers;    /* lent: STATE_BUFFERS_BYTES, aligned to 4096 */
};

/* Writes the weights of a source into a file, which gets its name when it is complete. STATUS_USAGE: the format lacks
 * target->dtype, or the file cannot be made; STATUS_RUN: the disk failed, `progress` returned true, or a weight is too large for fp16. */
int weights_write(const struct weights_target *target, const struct model *model, const struct state_source *source,
                  weights_progress *progress, void *user, struct error *err);

/* The config.json that transformers reads beside model.safetensors; the caller frees. */
char *weights_config_json(const struct config_model *shape, enum dtype dtype);
