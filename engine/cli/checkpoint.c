/* `zerolab checkpoint inspect`: what a checkpoint or a file of weights holds, and whether every byte of it is good. `convert` and
 * `export`: converts a model to another format, and prints the cost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/base/json.h"
#include "engine/checkpoint/convert.h"
#include "engine/checkpoint/format.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"
#include "engine/train/save_claims.h"

enum { TAGS_SHOWN = 32 };

struct findings {
    const struct checkpoint_info *info;
    struct config config;
    struct checkpoint_tag tags[TAGS_SHOWN];
    int tag_count; /* all there are */
    char latest[CHECKPOINT_TAG_BYTES];
    struct error damage; /* status 0: every byte was read and is good */
};

static void add_model(cJSON *facts, const struct config_model *shape, int64_t elems)
{
    json_put(cJSON_AddObjectToObject(facts, "model"), TEXT("name", shape->name), NUMBER("parameters", elems),
             NUMBER("layers", shape->layers), NUMBER("hidden", shape->hidden),
             NUMBER_IF("heads", shape->heads > 0, shape->heads), NUMBER("context", shape->context),
             NUMBER("vocabulary", shape->vocabulary));
}

static void add_tags(cJSON *facts, const struct findings *findings)
{
    const int shown = findings->tag_count < TAGS_SHOWN ? findings->tag_count : TAGS_SHOWN;
    cJSON *names = cJSON_AddArrayToObject(facts, "tags"), *tags = cJSON_AddArrayToObject(facts, ".tags");
    for (int t = 0; t < shown; t++) {
        const char *tag = findings->tags[t].tag;
        const time_t saved = (time_t)(findings->tags[t].saved_ns / 1000000000);
        struct tm local;
        char moment[32];
        strftime(moment, sizeof moment, "%Y-%m-%d %H:%M:%S", localtime_r(&saved, &local));
        cJSON_AddItemToArray(names, cJSON_CreateString(tag));
        json_put(json_item(tags), TEXT("word", t == 0 ? "tags" : ""), TEXT("tag", tag), TEXT("moment", moment),
                 TRUTH("latest", strcmp(tag, findings->latest) == 0));
    }
    json_put(facts, NUMBER(".older", findings->tag_count - shown));
}

static cJSON *checkpoint_facts(const struct findings *findings)
{
    const struct checkpoint_info *info = findings->info;
    const struct config *config = &findings->config;
    const int arrays = info->has[STATE_1] + info->has[STATE_2];
    cJSON *facts = cJSON_CreateObject();
    add_tags(facts, findings);
    json_put(facts, TEXT("latest", findings->latest), TEXT("kind", "checkpoint"), TEXT("tag", info->tag),
             TEXT("folder", info->folder));
    add_model(facts, &info->model.shape, info->model.elems);
    json_put(facts, NUMBER("step", info->progress.steps_done), NUMBER("updates", info->progress.updates),
             NUMBER("samples", info->progress.samples), NUMBER("optimizer_states", arrays),
             TEXT("precision", dtype_name(info->model.dtype)), NUMBER("stage", info->stage),
             NUMBER("ranks", info->ranks), NUMBER("threads_per_rank", info->threads), TEXT("isa", info->isa),
             NUMBER("shards", info->shards), NUMBER("bytes", info->bytes),
             TRUTH(".pending", info->has[STATE_PENDING]), TRUTH(".converted", strcmp(info->isa, CONVERTED_ISA) == 0),
             TEXT(".optimizer", config->optimizer.type), NUMBER(".batch", config->train_batch_size),
             NUMBER(".tokens", config->data.sequence_length));
    cJSON_AddRawToObject(facts, "config", info->config_json);
    json_put(facts, TEXT_IF("damage", findings->damage.status ? findings->damage.text : NULL));
    return facts;
}

#define MODEL                                                                                                          \
    "model       {model.name}, {model.parameters} parameters: {model.layers} layers, hidden {model.hidden}, "          \
    "{?model.heads}{model.heads} heads, {/}context {model.context}, vocabulary {model.vocabulary}\n"
static const char checkpoint_page[] =
    "{#.tags}{word:-11|} {tag:-20} {moment}{?latest}  latest{/}\n{/}{+.older}            ... and {.older} older\n{/}"
    "checkpoint  {folder}\n" MODEL
    "progress    {step} steps, {updates} updates, {samples} samples\n"
    "holds       fp32 weights{-optimizer_states} alone{/}{+optimizer_states} and {optimizer_states} optimizer state{optimizer_states:s}{/}"
    "{?.pending}, and the gradients of a delayed update{/}\n"
    "training    {precision}, {.optimizer}, global batch {.batch} of {.tokens} tokens\n"
    "{?.converted}saved by    checkpoint convert, from a file of weights; begin with train --resume --weights-only\n{/}"
    "{!.converted}saved by    stage {stage}, {ranks} rank{ranks:s} of {threads_per_rank} thread{threads_per_rank:s}, {isa}; "
    "loads at any stage and number of ranks\n{/}"
    "size        {shards} shard{shards:s}, {bytes} bytes\n"
    "checked     {damage|every byte is what was written}\n";

/* A damaged checkpoint is still described; its damage is the last line, and the exit status. */
static int inspect_checkpoint(const struct cli *cli, struct error *err)
{
    struct findings findings = {.tag_count = 0};
    struct progress progress = progress_of("checking");
    struct checkpoint *checkpoint;
    struct io_buffers buffers;
    int status = checkpoint_open(&checkpoint, cli->operand, cli->tag, err);
    if (status) return status;
    findings.info = checkpoint_info(checkpoint);
    findings.tag_count = checkpoint_tags(cli->operand, findings.tags, TAGS_SHOWN);
    checkpoint_latest(cli->operand, findings.latest);
    status = config_load_text(&findings.config, findings.info->config_json, NULL, 0, err);
    if (!status && (status = io_buffers_open(&buffers, 1, err))) config_release(&findings.config);
    if (!status) {
        checkpoint_lend(checkpoint, buffers.lot[0]);
        findings.damage.status = checkpoint_verify(checkpoint, progress_say, &progress, &findings.damage);
        progress_end(&progress);
        checkpoint_lend(checkpoint, NULL);
        io_buffers_close(&buffers);
        status = front_answer(cli, checkpoint_page, checkpoint_facts(&findings), err);
        config_release(&findings.config);
    }
    if (!status && findings.damage.status) *err = findings.damage, status = err->status;
    checkpoint_close(checkpoint);
    return status;
}

static const char weights_page[] =
    "weights     {kind}, {file}\n" MODEL
    "holds       {precision} weights, {tensors} tensors{?.several} in {files} files{/}\n"
    "size        {bytes} bytes; this format has no checksums\n";

static int inspect_weights(const struct cli *cli, struct error *err)
{
    struct weights_file *file;
    int status = weights_open(&file, cli->operand, err);
    if (status) return status;
    const struct weights_info *info = weights_info(file);
    cJSON *facts = json_object(TEXT("kind", weights_format_name(info->format)), TEXT("file", info->path));
    add_model(facts, &info->shape, info->elems);
    json_put(facts, TEXT("precision", dtype_name(info->dtype)), NUMBER("tensors", info->tensors),
             NUMBER("files", info->files), NUMBER("bytes", info->bytes), TRUTH(".several", info->files > 1));
    status = front_answer(cli, weights_page, facts, err);
    weights_close(file);
    return status;
}

int front_checkpoint_inspect(const struct cli *cli, struct error *err)
{
    return weights_is(cli->operand) ? inspect_weights(cli, err) : inspect_checkpoint(cli, err);
}

/* ---- converting: where to ---- */

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

/* ---- what was done, and what it took ---- */

static const char conversion_page[] =
    "{parameters} parameters, {?.checkpoint}{shards} shard{shards:s}{/}{!.checkpoint}{kind} in {precision}{/}: {path}; "
    "memory {memory.peak_bytes/.mib:.1} MiB: {memory.read_buffers_bytes/.mib:.1} to read, "
    "{memory.write_buffers_bytes/.mib:.1} to write\n";

static cJSON *conversion_facts(const struct cli *cli, const struct destination *to, int64_t elems, uint64_t peak_bytes)
{
    cJSON *facts = json_object(TEXT("kind", to->checkpoint ? "checkpoint" : weights_format_name(to->format)),
                               TEXT("path", to->checkpoint ? cli->into : to->file),
                               TEXT("precision", to->checkpoint ? "fp32" : dtype_name(to->dtype)),
                               NUMBER("parameters", elems), NUMBER("shards", shards_of(cli)),
                               TRUTH(".checkpoint", to->checkpoint), NUMBER(".mib", 1 << 20));
    json_put(cJSON_AddObjectToObject(facts, "memory"), NUMBER("peak_bytes", peak_bytes),
             NUMBER("read_buffers_bytes", STATE_BUFFERS_BYTES), NUMBER("write_buffers_bytes", STATE_BUFFERS_BYTES));
    return facts;
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
    int heads = 0; /* the one thing that a file of weights may leave open */
    for (int i = 0; i < cli->sets.count; i++) sscanf(cli->sets.at[i], "model.heads=%d", &heads);
    int status = choose(&to, cli, err);
    if (!status) status = origin_open(&origin, cli->operand, cli->tag, heads, buffers->lot[0], err);
    if (status) return status;
    status = to.checkpoint ? save_claims_check_others(NULL, cli->into, err) : check_place(&to, &origin, err);
    if (status) return origin_release(&origin), status;
    status = to.checkpoint ? write_checkpoint(cli, &origin, buffers->lot[1], &progress, err)
                           : write_weights(&to, &origin, buffers->lot[1], &progress, err);
    progress_end(&progress);
    cJSON *facts = status ? NULL : conversion_facts(cli, &to, origin.model.elems, io_buffers_peak_bytes(buffers));
    if (facts) status = front_answer(cli, conversion_page, facts, err);
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
