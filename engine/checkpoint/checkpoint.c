/* Opens and reads a checkpoint: the manifest, the tables of all shards, and values by their common index. Also makes a
 * checkpoint the source of a rank's state. */
#include "engine/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/wire.h"
#include "engine/base/words.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/retile.h"

enum { MANIFEST_MOST_BYTES = 16 << 20 };

/* ---- the index: the ranges of all shards, sorted by unit, array and first element. Elements are found by binary search, and holes or
 * overlaps are found before training begins. ---- */

struct index_piece { struct shard_range range; int shard; };
struct index { struct index_piece *pieces; size_t count; };

static bool range_is_good(const struct model *model, const struct shard_head *head, const struct shard_range *range)
{
    if (range->unit >= (uint32_t)model->unit_count || range->array >= STATE_ARRAYS) return false;
    const int64_t elems = model->units[range->unit].elems;
    return range->first >= 0 && range->elems > 0 && range->first < elems && range->elems <= elems - range->first &&
           range->offset % sizeof(float) == 0 && range->offset <= head->value_bytes &&
           (uint64_t)range->elems <= (head->value_bytes - range->offset) / sizeof(float);
}

/* Adds the ranges of a shard's table. STATUS_INPUT: a range is outside the model or the shard; the text does not name the file. */
static int index_add(struct index *index, const struct model *model, int shard, const struct shard_head *head,
                     const uint8_t *table, struct error *err)
{
    if (head->ranges == 0) return STATUS_OK;
    struct index_piece *pieces = realloc(index->pieces, (index->count + head->ranges) * sizeof *pieces);
    if (!pieces) return error_set(err, STATUS_RUN, "no memory for the ranges of a checkpoint");
    index->pieces = pieces;
    for (uint32_t r = 0; r < head->ranges; r++) {
        struct index_piece *piece = &pieces[index->count++];
        piece->shard = shard;
        shard_range_read(&piece->range, table + (size_t)r * RANGE_BYTES);
        if (!range_is_good(model, head, &piece->range))
            return error_set(err, STATUS_INPUT, "a range in its table is not of this model");
    }
    return STATUS_OK;
}

/* ---- order ---- */

static int compare(const struct shard_range *a, uint32_t unit, uint32_t array, int64_t first)
{
    if (a->unit != unit) return a->unit < unit ? -1 : 1;
    if (a->array != array) return a->array < array ? -1 : 1;
    return a->first < first ? -1 : a->first > first;
}

static int by_place(const void *a, const void *b)
{
    const struct shard_range *first = &((const struct index_piece *)a)->range,
                             *second = &((const struct index_piece *)b)->range;
    return compare(first, second->unit, second->array, second->first);
}

/* The last piece that begins at or before an element; -1: none does. */
static ssize_t piece_at(const struct index *index, int unit, enum state_array array, int64_t first)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&index->pieces[middle].range, (uint32_t)unit, array, first) <= 0) low = middle + 1;
        else high = middle;
    }
    return (ssize_t)low - 1;
}

/* The piece that holds an element of a complete index. The next pieces hold the elements after it. */
static const struct index_piece *index_find(const struct index *index, int unit, enum state_array array, int64_t first)
{
    return &index->pieces[piece_at(index, unit, array, first)];
}

/* ---- is all there? ---- */

static const char *array_name(const struct model *model, enum state_array array)
{
    if (array == STATE_WEIGHTS) return "weights";
    return array == STATE_PENDING ? "pending gradients" : optimizer_table[model->optimizer].state[array - STATE_1];
}

static int check_array(const struct index *index, const struct checkpoint_info *info, int unit, enum state_array array,
                       struct error *err)
{
    const struct unit *of = &info->model.units[unit];
    int64_t next = 0;
    for (size_t p = (size_t)(piece_at(index, unit, array, -1) + 1); next < of->elems; p++) {
        const struct shard_range *range = p < index->count ? &index->pieces[p].range : NULL;
        const bool there = range && range->unit == (uint32_t)unit && range->array == array;
        const bool twice = there && range->first < next;
        if (!there || range->first != next)
            return error_set(err, STATUS_INPUT, "%.300s: element %lld of the %s of %s is in %s", info->folder,
                             (long long)(twice ? range->first : next), array_name(&info->model, array), of->name,
                             twice ? "two shards" : "no shard");
        next += range->elems;
    }
    return STATUS_OK;
}

/* Call it after all shards are added: sorts the ranges and sets info->has. STATUS_INPUT: the weights or some of the
 * optimizer's states are missing, or an array does not have every element exactly once. */
static int index_complete(struct index *index, struct checkpoint_info *info, struct error *err)
{
    const struct optimizer_info *optimizer = &optimizer_table[info->model.optimizer];
    if (index->count) qsort(index->pieces, index->count, sizeof *index->pieces, by_place);
    info->has[STATE_WEIGHTS] = true;
    for (size_t p = 0; p < index->count; p++) info->has[index->pieces[p].range.array] = true;
    for (int a = STATE_1; a < STATE_ARRAYS; a++)
        if (info->has[a] !=
            (a == STATE_PENDING ? info->progress.pending : info->has[STATE_1] && a - STATE_1 < optimizer->states))
            return error_set(err, STATUS_INPUT, "%.300s: its arrays are not those that %s keeps", info->folder,
                             optimizer->name);
    for (int u = 0; u < info->model.unit_count; u++)
        for (int a = 0; a < STATE_ARRAYS; a++) {
            int status = info->has[a] ? check_array(index, info, u, (enum state_array)a, err) : STATUS_OK;
            if (status) return status;
        }
    return STATUS_OK;
}

/* Describes the contents of a block of a shard for the user: its first range ("weights of block 3"), and "and more" if needed. */
enum { INDEX_NAME_BYTES = 80 };
static void index_name_block(const struct index *index, const struct model *model, int shard, int64_t block,
                             char text[INDEX_NAME_BYTES])
{
    const uint64_t from = (uint64_t)block * BLOCK_BYTES;
    int found = 0;
    strcpy(text, "nothing but padding");
    for (size_t p = 0; p < index->count && found < 2; p++) {
        const struct shard_range *range = &index->pieces[p].range;
        const uint64_t end = range->offset + (uint64_t)range->elems * sizeof(float);
        if (index->pieces[p].shard != shard || end <= from || range->offset >= from + BLOCK_BYTES) continue;
        if (found++) strcat(text, " and more");
        else
            snprintf(text, INDEX_NAME_BYTES - 10, "%s of %s", array_name(model, (enum state_array)range->array),
                     model->units[range->unit].name);
    }
}

/* ---- one of them ---- */

struct checkpoint {
    struct checkpoint_info info;
    struct config config; /* the model's */
    struct manifest_shard *expected;
    struct shard_table *shards;
    struct index index;
    struct reader reader;
    struct retile retile; /* of its source */
    bool weights_only;    /* its source gives no states */
};

/* ---- which one ---- */

static bool is_one_itself(const char *path)
{
    char manifest[PATH_BYTES];
    snprintf(manifest, sizeof manifest, "%.4200s/manifest.json", path);
    return access(manifest, F_OK) == 0;
}

/* "; there are step-10, step-20", or "". */
static const char *those_that_stand(char text[200], const char *dir)
{
    struct checkpoint_tag tags[4];
    int count = checkpoint_tags(dir, tags, 4);
    *text = '\0';
    for (int i = 0; i < count; i++) text_append(text, 200, "%s%.40s", i ? ", " : "; there are ", tags[i].tag);
    return text;
}

static int no_checkpoints(const char *dir, struct error *err)
{
    struct stat found;
    char others[200];
    if (stat(dir, &found) != 0)
        return error_set(err, STATUS_INPUT, "%.200s: cannot be opened: %s", dir, strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return error_set(err, STATUS_INPUT, "%.200s: neither a folder of checkpoints nor weights (safetensors, llm.c)",
                         dir);
    return error_set(err, STATUS_INPUT, "there is no checkpoint in %.200s, or its `latest` names none%s", dir,
                     those_that_stand(others, dir));
}

static int find_folder(struct checkpoint_info *info, const char *dir, const char *tag, struct error *err)
{
    char latest[CHECKPOINT_TAG_BYTES], others[200];
    if (strlen(dir) + CHECKPOINT_TAG_BYTES >= sizeof info->folder)
        return error_set(err, STATUS_USAGE, "the path is too long: %.100s...", dir);
    if (!tag && is_one_itself(dir)) return snprintf(info->folder, sizeof info->folder, "%s", dir), STATUS_OK;
    if (tag && command_check_tag(tag, err)) return err ? err->status : STATUS_USAGE;
    if (!tag && !checkpoint_latest(dir, latest)) return no_checkpoints(dir, err);
    snprintf(info->folder, sizeof info->folder, "%.4000s/%s", dir, tag ? tag : latest);
    if (is_one_itself(info->folder)) return STATUS_OK;
    return error_set(err, STATUS_INPUT, "there is no checkpoint %s in %.200s%s", tag ? tag : latest, dir,
                     those_that_stand(others, dir));
}

/* ---- manifest ---- */

static int read_manifest(struct checkpoint *checkpoint, struct error *err)
{
    struct checkpoint_info *info = &checkpoint->info;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/manifest.json", info->folder);
    char *text = folder_read(path, MANIFEST_MOST_BYTES, err);
    if (!text) return err ? err->status : STATUS_INPUT;
    info->bytes = strlen(text);
    int status = manifest_parse(info, &checkpoint->expected, text, err);
    free(text);
    if (!status && (status = config_load_text(&checkpoint->config, info->config_json, NULL, 0, err)))
        status = STATUS_INPUT;
    if (!status) status = model_of(&info->model, &checkpoint->config, err);
    if (status) error_prefix(err, "%.200s", path);
    if (status && err) err->status = status;
    return status;
}

/* ---- tables ---- */

static int bad_shard(const struct shard_table *shard, const char *why, struct error *err)
{
    return error_set(err, STATUS_INPUT, "cannot use %.350s: %s", shard->path, why);
}

static int take_table(struct checkpoint *checkpoint, int s, const uint8_t *table, struct error *err)
{
    struct shard_table *shard = &checkpoint->shards[s];
    const uint8_t *at = table + (size_t)shard->head.ranges * RANGE_BYTES;
    if (crc32c(0, table, shard_table_bytes(&shard->head)) != shard->head.table_crc)
        return error_set(err, STATUS_INPUT,
                         "cannot use %.350s: its table is damaged (bytes %" PRIu64 " to the end); use another tag",
                         shard->path, shard->head.table_offset);
    shard->crcs = malloc((size_t)shard->head.blocks * sizeof *shard->crcs + 1);
    if (!shard->crcs) return error_set(err, STATUS_RUN, "no memory for the table of a shard");
    for (uint32_t b = 0; b < shard->head.blocks; b++) at = get_u32(at, &shard->crcs[b]);
    struct error why;
    int status = index_add(&checkpoint->index, &checkpoint->info.model, s, &shard->head, table, &why);
    if (status == STATUS_INPUT) return bad_shard(shard, why.text, err);
    return status ? error_set(err, status, "%s", why.text) : STATUS_OK;
}

static int read_table(struct checkpoint *checkpoint, int s, int fd, struct error *err)
{
    struct shard_table *shard = &checkpoint->shards[s];
    const struct manifest_shard *expected = &checkpoint->expected[s];
    uint8_t page[SHARD_HEAD_BYTES];
    struct stat found;
    if (fstat(fd, &found) != 0) return bad_shard(shard, strerror(errno), err);
    if (!S_ISREG(found.st_mode) || (uint64_t)found.st_size != expected->bytes)
        return error_set(err, STATUS_INPUT,
                         "cannot use %.350s: it has %lld bytes and should have %" PRIu64 "; use another tag",
                         shard->path, (long long)found.st_size, expected->bytes);
    if (pread(fd, page, sizeof page, 0) != (ssize_t)sizeof page) return bad_shard(shard, "it ends early", err);
    const char *why = shard_head_read(&shard->head, page, expected->bytes);
    if (!why && (shard->head.crc != expected->crc || shard->head.shard != (uint32_t)s ||
                 shard->head.shards != (uint32_t)checkpoint->info.shards))
        why = "it is not the shard that the manifest was written for; use another tag";
    if (why) return bad_shard(shard, why, err);
    const size_t bytes = shard_table_bytes(&shard->head);
    uint8_t *table = malloc(bytes + 1);
    if (!table) return error_set(err, STATUS_RUN, "no memory for the table of a shard");
    bool whole = pread(fd, table, bytes, (off_t)shard->head.table_offset) == (ssize_t)bytes;
    int status = whole ? take_table(checkpoint, s, table, err) : bad_shard(shard, "it ends early", err);
    free(table);
    checkpoint->info.bytes += expected->bytes;
    return status;
}

static int read_tables(struct checkpoint *checkpoint, struct error *err)
{
    const int count = checkpoint->info.shards;
    checkpoint->shards = calloc((size_t)count, sizeof *checkpoint->shards);
    int status = checkpoint->shards ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for %d shards", count);
    for (int s = 0; s < count && !status; s++) {
        struct shard_table *shard = &checkpoint->shards[s];
        snprintf(shard->path, sizeof shard->path, "%s/shard-%d-of-%d", checkpoint->info.folder, s, count);
        int fd = open(shard->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) return error_set(err, STATUS_INPUT, "cannot read %.350s: %s", shard->path, strerror(errno));
        status = read_table(checkpoint, s, fd, err);
        close(fd);
    }
    return status;
}

/* ---- the life of one ---- */

int checkpoint_open(struct checkpoint **out, const char *dir, const char *tag, struct error *err)
{
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    *out = NULL;
    if (!checkpoint) return error_set(err, STATUS_RUN, "no memory to read a checkpoint");
    checkpoint->reader.file.fd = -1;
    int status = find_folder(&checkpoint->info, dir, tag, err);
    if (!status) status = read_manifest(checkpoint, err);
    if (!status) status = read_tables(checkpoint, err);
    if (!status) status = index_complete(&checkpoint->index, &checkpoint->info, err);
    if (status) checkpoint_close(checkpoint);
    else *out = checkpoint;
    return status;
}

void checkpoint_close(struct checkpoint *checkpoint)
{
    if (!checkpoint) return;
    async_file_release(&checkpoint->reader.file);
    for (int s = 0; checkpoint->shards && s < checkpoint->info.shards; s++) free(checkpoint->shards[s].crcs);
    free(checkpoint->shards);
    free(checkpoint->expected);
    free(checkpoint->index.pieces);
    free(checkpoint->info.config_json);
    model_release(&checkpoint->info.model);
    config_release(&checkpoint->config);
    free(checkpoint);
}

const struct checkpoint_info *checkpoint_info(const struct checkpoint *checkpoint)
{
    return &checkpoint->info;
}

/* ---- values ---- */

/* After an error of the reader. */
static int explain(const struct checkpoint *checkpoint, int s, int status, struct error *err)
{
    const struct shard_table *shard = &checkpoint->shards[s];
    const int64_t block = checkpoint->reader.damaged;
    char contents[INDEX_NAME_BYTES];
    if (!status || block < 0) return status;
    const uint64_t first = SHARD_HEAD_BYTES + (uint64_t)block * BLOCK_BYTES, next = first + BLOCK_BYTES;
    const uint64_t end = next < shard->head.table_offset ? next : shard->head.table_offset;
    index_name_block(&checkpoint->index, &checkpoint->info.model, s, block, contents);
    return error_set(err, STATUS_INPUT,
                     "%.300s is damaged: block %lld (bytes %llu to %llu: %s) has a wrong checksum; use another tag",
                     shard->path, (long long)block, (unsigned long long)first, (unsigned long long)end - 1, contents);
}

int checkpoint_read(struct checkpoint *checkpoint, int unit, enum state_array array, int64_t first, int64_t elems,
                    float *out, struct error *err)
{
    const struct checkpoint_info *info = &checkpoint->info;
    if (unit < 0 || unit >= info->model.unit_count || !info->has[array] || first < 0 || elems < 0 ||
        first > info->model.units[unit].elems - elems)
        return error_set(err, STATUS_USAGE, "%.300s holds no such elements", info->folder);
    const struct index_piece *piece = index_find(&checkpoint->index, unit, array, first);
    for (int status; elems; piece++) { /* the index is whole: the next piece goes on where this one ends */
        int64_t skip = first - piece->range.first, part = piece->range.elems - skip;
        if (part > elems) part = elems;
        status = reader_get(&checkpoint->reader, &checkpoint->shards[piece->shard],
                            piece->range.offset + (uint64_t)skip * sizeof *out, (size_t)part * sizeof *out, out, err);
        if (status) return explain(checkpoint, piece->shard, status, err);
        first += part, elems -= part, out += part;
    }
    return STATUS_OK;
}

void checkpoint_lend(struct checkpoint *checkpoint, void *buffers)
{
    reader_lend(&checkpoint->reader, buffers);
}

int checkpoint_verify(struct checkpoint *checkpoint, void (*progress)(void *, uint64_t, uint64_t), void *user,
                      struct error *err)
{
    uint64_t done = 0, all = 0;
    for (int s = 0; s < checkpoint->info.shards; s++) all += checkpoint->shards[s].head.value_bytes;
    for (int s = 0; s < checkpoint->info.shards; s++) {
        const struct shard_table *shard = &checkpoint->shards[s];
        for (uint64_t at = 0; at < shard->head.value_bytes; at += BUFFER_BYTES) {
            const uint64_t left = shard->head.value_bytes - at, bytes = left < BUFFER_BYTES ? left : BUFFER_BYTES;
            int status = reader_get(&checkpoint->reader, shard, at, bytes, NULL, err);
            if (status) return explain(checkpoint, s, status, err);
            done += bytes;
            if (progress) progress(user, done, all);
        }
    }
    return STATUS_OK;
}

/* ---- as where a rank's state comes from: does it fit? ---- */

static int read_state(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                      struct error *err)
{
    struct checkpoint *checkpoint = user;
    if (array == STATE_WEIGHTS || !checkpoint->weights_only)
        return checkpoint_read(checkpoint, unit, array, first, elems, out, err);
    memset(out, 0, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

static void lend(void *user, void *buffers)
{
    checkpoint_lend(user, buffers);
}

static int check_model(const struct checkpoint_info *info, const struct model *model, struct error *err)
{
    int sizes[2];
    const char *key = model_difference(&info->model.shape, &model->shape, sizes);
    if (!key) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "%.200s holds another model (%s): its %s is %d, that of this run is %d",
                     info->folder, info->model.shape.name, key, sizes[0], sizes[1]);
}

static const char *momentum(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_MOMENTUM ? " with momentum" : "";
}

static int check_training(const struct checkpoint_info *info, const struct model *model, struct error *err)
{
    static const char *const or_else = "or take its weights alone with --weights-only";
    if (info->model.dtype != model->dtype)
        return error_set(err, STATUS_USAGE, "%.200s was trained in %s, this run is in %s; use the same, %s",
                         info->folder, dtype_name(info->model.dtype), dtype_name(model->dtype), or_else);
    if (info->model.optimizer != model->optimizer)
        return error_set(err, STATUS_USAGE, "%.200s was trained with %s%s, this run uses %s%s; use the same, %s",
                         info->folder, optimizer_table[info->model.optimizer].name, momentum(info->model.optimizer),
                         optimizer_table[model->optimizer].name, momentum(model->optimizer), or_else);
    if (optimizer_table[model->optimizer].states && !info->has[STATE_1])
        return error_set(err, STATUS_USAGE,
                         "%.200s holds weights and no optimizer states; start from it with --weights-only",
                         info->folder);
    return STATUS_OK;
}

int checkpoint_source(struct state_source *source, struct checkpoint *checkpoint, const struct model *model,
                      bool weights_only, struct error *err)
{
    const struct checkpoint_info *info = &checkpoint->info;
    int status = check_model(info, model, err);
    if (!status && !weights_only) status = check_training(info, model, err);
    checkpoint->weights_only = weights_only;
    *source = (struct state_source){.user = checkpoint, .read = read_state, .lend = lend};
    if (!weights_only) source->progress = info->progress;
    retile_source(&checkpoint->retile, source, &info->model, model);
    return status;
}
