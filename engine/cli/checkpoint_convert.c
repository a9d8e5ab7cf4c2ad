/* `zerolab checkpoint convert` and `export`: converts a model to another format, and prints the cost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/json.h"
#include "engine/checkpoint/convert.h"
#include "engine/checkpoint/format.h"
#include "engine/cli/files.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"
#include "engine/train/save_claims.h"

/* ---- where to ---- */

struct destination {
    bool checkpoint;
    enum weights_format format;
    enum dtype dtype;
    char file[4096];        /* where weights go */
    char config_file[4096]; /* what transformers wants beside it; "": nothing */
};

static int choose_dtype(struct destination *to, const struct cli *cli, struct error *err)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    to->dtype = DTYPE_F32;
    for (int d = 0; cli->dtype && d < 3; d++)
        if (strcmp(cli->dtype, dtype_name(dtypes[d])) == 0) return to->dtype = dtypes[d], STATUS_OK;
    return cli->dtype ? error_set(err, STATUS_USAGE, "--dtype %s: give fp32, bf16 or fp16", cli->dtype) : STATUS_OK;
}

/* By --to, else by the name: FILE.safetensors, FILE.bin, and all else is a folder of checkpoints (of export: a folder for
 * transformers). */
static int choose_format(struct destination *to, const struct cli *cli, struct error *err)
{
    const bool export = cli->verb == VERB_CHECKPOINT_EXPORT;
    if (cli->to_form && strcmp(cli->to_form, "checkpoint") == 0 && !export) return to->checkpoint = true, STATUS_OK;
    if (cli->to_form)
        return weights_format_named(cli->to_form, &to->format)
                   ? STATUS_OK
                   : error_set(err, STATUS_USAGE, "--to %s: give safetensors%s", cli->to_form,
                               export ? " or llmc" : ", llmc or checkpoint");
    if (weights_format_of_path(cli->into, &to->format)) return STATUS_OK;
    to->checkpoint = !export;
    return STATUS_OK;
}

/* A folder gets the files that transformers' from_pretrained() opens. */
static void choose_file(struct destination *to, const char *into)
{
    struct stat about;
    size_t length = strlen(into);
    const bool folder = to->format == WEIGHTS_SAFETENSORS &&
                        ((stat(into, &about) == 0 && S_ISDIR(about.st_mode)) || into[length - 1] == '/');
    while (folder && length > 0 && into[length - 1] == '/') length--; /* one is enough */
    if (length > 4000) length = 4000;
    snprintf(to->file, sizeof to->file, "%.*s%s", (int)length, into, folder ? "/model.safetensors" : "");
    snprintf(to->config_file, sizeof to->config_file, "%.*s%s", folder ? (int)length : 0, into, folder ? "/config.json" : "");
    if (folder) mkdir(into, 0777); /* what hinders it, the file says better */
}

static int shards_of(const struct cli *cli)
{
    return cli->shards > 0 ? (int)cli->shards : 1;
}

static int choose(struct destination *to, const struct cli *cli, struct error *err)
{
    *to = (struct destination){0};
    if (!cli->into || !*cli->into) return error_set(err, STATUS_USAGE, "give -o, where it is to go");
    int status = choose_dtype(to, cli, err);
    if (!status) status = choose_format(to, cli, err);
    if (!status && to->checkpoint && cli->dtype)
        status = error_set(err, STATUS_USAGE, "--dtype %s: a checkpoint holds fp32 always", cli->dtype);
    if (!status && !to->checkpoint && cli->shards > 0)
        status = error_set(err, STATUS_USAGE, "--shards is for checkpoints; a file of weights is one");
    if (!status && cli->shards > SHARDS_MAX)
        status = error_set(err, STATUS_USAGE, "--shards %lld: at most %d", (long long)cli->shards, SHARDS_MAX);
    if (!status && !to->checkpoint) choose_file(to, cli->into);
    return status;
}

static bool say_or_stop(void *user, uint64_t done_bytes, uint64_t all_bytes)
{
    progress_say(user, done_bytes, all_bytes);
    return interrupt_asked();
}

static int write_weights(const struct destination *to, const struct origin *origin, void *buffers,
                         struct progress *progress, struct error *err)
{
    const struct weights_target target = {to->file, to->format, to->dtype, buffers};
    int status = weights_write(&target, &origin->model, &origin->source, say_or_stop, progress, err);
    if (status || !*to->config_file) return status;
    return front_give(to->config_file, weights_config_json(&origin->model.shape, to->dtype), err);
}

/* configs/nano.json, which is in fp32, with the sizes of the model, and what the user sets. */
static int config_of(char **json, const struct cli *cli, const struct config_model *shape, struct error *err)
{
    struct config config;
    char sizes[6][48];
    const char *sets[TEXT_LIST_MAX + 7];
    int count = 0;
    snprintf(sizes[0], sizeof *sizes, "model.layers=%d", shape->layers);
    snprintf(sizes[1], sizeof *sizes, "model.hidden=%d", shape->hidden);
    snprintf(sizes[2], sizeof *sizes, "model.heads=%d", shape->heads);
    snprintf(sizes[3], sizeof *sizes, "model.context=%d", shape->context);
    snprintf(sizes[4], sizeof *sizes, "model.vocabulary=%d", shape->vocabulary);
    snprintf(sizes[5], sizeof *sizes, "data.sequence_length=%d", shape->context);
    sets[count++] = sizes[5];
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    for (int i = 0; i < 5; i++) sets[count++] = sizes[i];
    sets[count++] = "model.mlp_tiles=1"; /* as the file has it; a run may read it in others */
    int status = config_load_text(&config, config_nano, sets, count, err);
    if (status) return status;
    *json = config_to_json(&config);
    config_release(&config);
    return *json ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a configuration");
}

static int write_checkpoint(const struct cli *cli, struct origin *origin, void *buffers, struct progress *progress,
                            struct error *err)
{
    const struct checkpoint_target target = {.dir = cli->into, .shards = shards_of(cli), .buffers = buffers};
    int status = origin->file ? config_of(&origin->config_json, cli, &origin->model.shape, err) : STATUS_OK;
    return status ? status : convert_to_checkpoint(origin, &target, say_or_stop, progress, err);
}

/* model.heads is the one thing that a file of weights may leave open. */
static int heads_given(const struct cli *cli)
{
    int heads = 0;
    for (int i = 0; i < cli->sets.count; i++) sscanf(cli->sets.at[i], "model.heads=%d", &heads);
    return heads;
}

/* ---- what was done, and what it took ---- */

static void print_result(const struct cli *cli, const struct destination *to, int64_t elems, uint64_t peak_bytes)
{
    const double mib = 1 << 20, lot = STATE_BUFFERS_BYTES / mib;
    printf("%lld parameters, ", (long long)elems);
    if (to->checkpoint) printf("%d shard%s: %s", shards_of(cli), plural(shards_of(cli)), cli->into);
    else printf("%s in %s: %s", weights_format_name(to->format), dtype_name(to->dtype), to->file);
    printf("; memory %.1f MiB: %.1f to read, %.1f to write\n", (double)peak_bytes / mib, lot, lot);
}

static void print_json(const struct cli *cli, const struct destination *to, int64_t elems, uint64_t peak_bytes)
{
    cJSON *json = cJSON_CreateObject();
    json_put(json, TEXT("kind", to->checkpoint ? "checkpoint" : weights_format_name(to->format)),
             TEXT("path", to->checkpoint ? cli->into : to->file),
             TEXT("precision", to->checkpoint ? "fp32" : dtype_name(to->dtype)), NUMBER("parameters", elems),
             NUMBER("shards", shards_of(cli)));
    json_put(cJSON_AddObjectToObject(json, "memory"), NUMBER("peak_bytes", peak_bytes),
             NUMBER("read_buffers_bytes", STATE_BUFFERS_BYTES), NUMBER("write_buffers_bytes", STATE_BUFFERS_BYTES));
    char *text = json_lines(json);
    if (text) puts(text);
    free(text);
}

/* The output may replace a file of weights, but neither its own input nor a file of another kind. */
static int check_place(const struct destination *to, const struct origin *origin, struct error *err)
{
    struct stat there;
    struct file_use uses[] = {{FILE_READ, "PATH", ""}, {FILE_WRITTEN, "--output", to->file}};
    int status = STATUS_OK;
    for (int part = 0; origin->file && part < weights_info(origin->file)->files && !status; part++) {
        uses[0].path = weights_part(origin->file, part);
        status = files_check(uses, 2, err);
    }
    if (status || stat(to->file, &there) != 0) return status;
    if (!S_ISREG(there.st_mode)) /* the file would take its place */
        return error_set(err, STATUS_USAGE, "cannot write %.300s: %s", to->file,
                         S_ISDIR(there.st_mode) ? strerror(EISDIR) : "it is no file");
    if (!there.st_size || weights_is(to->file)) return status;
    return error_set(err, STATUS_USAGE, "%.300s is there, and is no file of weights; give another --output", to->file);
}

static int convert_through(const struct cli *cli, struct io_buffers *buffers, struct error *err)
{
    struct origin origin;
    struct destination to;
    struct progress progress = progress_of("writing");
    int status = choose(&to, cli, err);
    if (!status) status = origin_open(&origin, cli->operand, cli->tag, heads_given(cli), buffers->lot[0], err);
    if (status) return status;
    status = to.checkpoint ? save_claims_check_others(NULL, cli->into, err) : check_place(&to, &origin, err);
    if (status) return origin_release(&origin), status;
    status = to.checkpoint ? write_checkpoint(cli, &origin, buffers->lot[1], &progress, err)
                           : write_weights(&to, &origin, buffers->lot[1], &progress, err);
    progress_end(&progress);
    if (!status) (cli->json ? print_json : print_result)(cli, &to, origin.model.elems, io_buffers_peak_bytes(buffers));
    origin_release(&origin);
    return status;
}

int front_checkpoint_convert(const struct cli *cli, struct error *err)
{
    struct io_buffers buffers;
    interrupt_watch();
    int status = io_buffers_open(&buffers, 2, err);
    if (!status) status = convert_through(cli, &buffers, err);
    io_buffers_close(&buffers);
    return status;
}
