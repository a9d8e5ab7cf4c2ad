/* Files of weights that other programs read and write:
 *
 *     safetensors   Hugging Face's, with the names of its GPT-2 (weights.def), fp32, fp16 or bf16; the head is tied. Large models
 *                   are several such files, and an index (model.safetensors.index.json) that says which tensor is where
 *     llmc          llm.c's model files, magic 20240326: version 3 in fp32, 5 in bf16; the vocabulary padded to 128
 *
 * Either is a head and a *layout*: where each tensor stands, in which file and type, and whether transposed. A format makes
 * a layout of a head that it reads, or of a model that is to be written; all else is common. So a reader asks for elements
 * of a unit, like one of a checkpoint, and reading and writing stream through what the caller lends, whatever the model's
 * size: a tensor that is transposed in the file goes strip by strip.
 *
 * What is read comes from anywhere: sizes are held against the files, ranges against each other, and a layout is made only
 * of files that have every tensor of their model once, and no byte that is not accounted for. */
#ifndef ENGINE_CHECKPOINT_WEIGHTS_H
#define ENGINE_CHECKPOINT_WEIGHTS_H

#include "engine/plan/model.h"
#include "engine/zero/state.h"

enum weights_format { WEIGHTS_SAFETENSORS, WEIGHTS_LLMC, WEIGHTS_FORMATS };

const char *weights_format_name(enum weights_format format);
/* False: there is none of that name. */
bool weights_format_named(const char *name, enum weights_format *format);
/* By the end of a file's name, ".safetensors" or ".bin". */
bool weights_format_of_path(const char *path, enum weights_format *format);

typedef bool weights_progress(void *user, uint64_t done_bytes, uint64_t all_bytes); /* true: stop (STATUS_RUN) */

/* ---- reading ---- */

struct weights_file;

struct weights_info {
    enum weights_format format;
    struct config_model shape; /* name "custom", or a built-in model of these sizes; heads 0: the file does not say */
    enum dtype dtype;          /* of the first tensor; all tensors of our own files have one type */
    int tensors;
    int64_t elems;
    int files;                 /* that the tensors are in: more than one by an index only */
    uint64_t bytes;            /* of all of them */
    char path[4096];           /* of the file itself, or the index, where a folder was given */
};

/* path: a file, an index, or a folder as transformers saves a model (model.safetensors, or an index and its files, beside a
 * config.json, which says how many heads there are). STATUS_INPUT: missing, damaged, or not a GPT-2; the text names file and
 * tensor. */
int weights_open(struct weights_file **out, const char *path, struct error *err);
void weights_close(struct weights_file *file);
const struct weights_info *weights_info(const struct weights_file *file);

const char *weights_part(const struct weights_file *file, int number); /* path of one of info.files */

/* Whether what lies there begins like such a file, or is such a folder, and no checkpoint of ours with one beside it. */
bool weights_is(const char *path);

/* Lends it STATE_BUFFERS_BYTES at a multiple of 4096 to read through; NULL: takes them back. Before anything is read. */
void weights_lend(struct weights_file *file, void *buffers);

/* Elements [first, first + elems) of a unit, unsharded and unpadded. One thread at a time; fastest in ascending order. */
int weights_read(struct weights_file *file, int unit, int64_t first, int64_t elems, float *out, struct error *err);

/* As where a rank's state comes from: the weights of the file, no states, no progress. STATUS_USAGE: its sizes are not the
 * model's. The file must stay open, and the model be there, as long as the source is used. A file knows no tiles: the model may
 * have any. */
int weights_source(struct state_source *source, struct weights_file *file, const struct model *model, struct error *err);

/* ---- writing ---- */

struct weights_target {
    const char *path;
    enum weights_format format;
    enum dtype dtype; /* DTYPE_F32, DTYPE_BF16 or DTYPE_F16 */
    void *buffers;    /* lent: STATE_BUFFERS_BYTES at a multiple of 4096 */
};

/* The weights of a source into a file that gets its name when it is whole. STATUS_USAGE: the format has not that type;
 * STATUS_RUN: the disk, or a weight that fp16 cannot hold. */
int weights_write(const struct weights_target *target, const struct model *model, const struct state_source *source,
                  weights_progress *progress, void *user, struct error *err);

/* What transformers wants to find beside model.safetensors, as JSON; the caller frees. */
char *weights_config_json(const struct config_model *shape, enum dtype dtype);

#endif
