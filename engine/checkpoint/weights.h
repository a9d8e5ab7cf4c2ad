/* Files of weights that other programs read and write:
 *
 *     safetensors   Hugging Face's, with the names of its GPT-2 (weights.def), fp32, fp16 or bf16; the head is tied
 *     llmc          llm.c's model files, magic 20240326: version 3 in fp32, 5 in bf16; the vocabulary padded to 128
 *
 * Either is a head and a *layout*: where in the file each tensor stands, in which type, and whether transposed. A format
 * makes a layout of a head that it reads, or of a model that is to be written; all else is common. So a reader asks for
 * elements of a unit, like one of a checkpoint, and reading and writing stream: in memory are two buffers of
 * WEIGHTS_BUFFER_BYTES, and of the file at most one tensor, the largest that is transposed (4 C x C of a block).
 *
 * What is read comes from anywhere: sizes are held against the file, ranges against each other, and a layout is made only of
 * a file that has every tensor of its model once, and no byte that is not accounted for. */
#ifndef ENGINE_CHECKPOINT_WEIGHTS_H
#define ENGINE_CHECKPOINT_WEIGHTS_H

#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum { WEIGHTS_BUFFER_BYTES = 1 << 20 };

enum weights_format { WEIGHTS_SAFETENSORS, WEIGHTS_LLMC, WEIGHTS_FORMATS };

const char *weights_format_name(enum weights_format format);
/* False: there is none of that name. */
bool weights_format_named(const char *name, enum weights_format *format);
/* By the end of a file's name, ".safetensors" or ".bin". */
bool weights_format_of_path(const char *path, enum weights_format *format);

typedef void weights_progress(void *user, uint64_t done_bytes, uint64_t all_bytes);

/* ---- reading ---- */

struct weights_file;

struct weights_info {
    enum weights_format format;
    struct config_model shape; /* name "custom", or a built-in model of these sizes; heads 0: the file does not say */
    enum dtype dtype;          /* of the first tensor; all tensors of our own files have one type */
    int tensors;
    int64_t elems;
    uint64_t bytes;            /* of the file */
    char path[4096];           /* of the file itself, where a folder was given */
};

/* path: a file, or a folder as transformers saves a model (model.safetensors beside config.json, which says how many heads
 * there are). STATUS_INPUT: missing, damaged, or not a GPT-2; the text names the tensor. */
int weights_open(struct weights_file **out, const char *path, struct error *err);
void weights_close(struct weights_file *file);
const struct weights_info *weights_info(const struct weights_file *file);

/* Whether what lies there begins like such a file, or is such a folder, and no checkpoint of ours with one beside it. */
bool weights_is(const char *path);

/* Elements [first, first + elems) of a unit, unsharded and unpadded. One thread at a time. */
int weights_read(struct weights_file *file, int unit, int64_t first, int64_t elems, float *out, struct error *err);

/* As where a rank's state comes from: the weights of the file, no states, no progress. STATUS_USAGE: its sizes are not the
 * model's. The file must stay open as long as the source is used. */
int weights_source(struct state_source *source, struct weights_file *file, const struct model *model, struct error *err);

/* ---- writing ---- */

/* The weights of a source into a file that gets its name when it is whole. dtype: DTYPE_F32, DTYPE_BF16 or DTYPE_F16.
 * STATUS_USAGE: the format has not that type; STATUS_RUN: the disk, or a weight that fp16 cannot hold. */
int weights_write(const char *path, enum weights_format format, enum dtype dtype, const struct model *model,
                  const struct state_source *source, weights_progress *progress, void *user, struct error *err);

/* What transformers wants to find beside model.safetensors, as JSON; the caller frees. */
char *weights_config_json(const struct config_model *shape, enum dtype dtype);

#endif
