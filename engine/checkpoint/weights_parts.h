/* What the formats of weights share; for weights*.c and the formats only. */
#ifndef ENGINE_CHECKPOINT_WEIGHTS_PARTS_H
#define ENGINE_CHECKPOINT_WEIGHTS_PARTS_H

#include "engine/base/bytes.h"
#include "engine/checkpoint/weights.h"
#include "engine/plan/gpt2.h"

struct weights_place {
    bool transposed;  /* the file's [columns, rows] is our [rows, columns] */
    enum dtype dtype;
    int file;         /* of the layout's */
    uint64_t offset;  /* in the file */
};

/* Where everything stands. places: [unit][enum tensor_id]. */
struct weights_layout {
    struct model model; /* of the file's sizes */
    struct weights_place *places;
    char **files;       /* paths; NULL: one file, the one that was opened */
    int file_count;
    uint64_t bytes;     /* of all files */
};

/* Model and places; leaves the files. STATUS_INPUT: sizes that no model of ours can have. heads 0: not known. */
int weights_layout_init(struct weights_layout *layout, const struct config_model *shape, enum dtype dtype, struct error *err);
void weights_layout_release(struct weights_layout *layout);
struct weights_place *weights_place(const struct weights_layout *layout, int unit, int id);

/* weights.def as data, in its order, and by tensor. */
struct weight_row { int id; const char *name; bool transposed; };
extern const struct weight_row weight_rows[TENSOR_IDS];

/* What is lent, divided up: some bytes as they are in the file, the same elements in fp32, and a strip of rows of a tensor,
 * in fp32. Of a transposed tensor as many rows at a time as the strip has room for: `line` is then a piece of one of the
 * file's rows, which is a column of the strip. */
enum { LINE_ELEMS = 32 << 10, STRIP_ELEMS = STATE_BUFFERS_BYTES / 4 - 2 * LINE_ELEMS };
struct weights_buffers { float *raw, *line, *strip; };
void weights_divide(struct weights_buffers *buffers, void *lent);
int64_t weights_strip_rows(const struct tensor *tensor, int64_t first_row);

struct weights_format_info {
    const char *name, *ending;
    unsigned dtypes; /* 1 << enum dtype */
    /* Whether a file of `bytes` may be one, by its name and its first 16 bytes. */
    bool (*is)(const char *path, const uint8_t first[16], uint64_t bytes);
    /* Reads the head. path: of the file, for what lies beside it. */
    int (*read)(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
    /* The head's bytes, and where all else goes. */
    int (*compose)(struct weights_layout *layout, struct bytes *head, struct error *err);
};
extern const struct weights_format_info weights_formats[WEIGHTS_FORMATS];

bool safetensors_is(const char *path, const uint8_t first[16], uint64_t bytes);
int safetensors_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
int safetensors_compose(struct weights_layout *layout, struct bytes *head, struct error *err);
bool llmc_is(const char *path, const uint8_t first[16], uint64_t bytes);
int llmc_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err);
int llmc_compose(struct weights_layout *layout, struct bytes *head, struct error *err);

/* Opens a file for reading, and says how long it is; -1 and STATUS_INPUT, a clause without its name. */
int weights_open_file(const char *path, uint64_t *bytes, struct error *err);

/* All of [offset, offset + bytes), or false and errno. */
bool weights_pread(int fd, void *out, size_t bytes, uint64_t offset);
bool weights_pwrite(int fd, const void *from, size_t bytes, uint64_t offset);

#endif
