/* `zerolab checkpoint inspect`, `convert` and `export`. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "engine/checkpoint/convert.h"
#include "engine/run/front.h"
#include "engine/run/progress.h"

static void say_progress(void *user, uint64_t done_bytes, uint64_t all_bytes)
{
    struct progress *progress = user;
    if (progress_due(progress))
        fprintf(stderr, "\r%s %3.0f %% of %.1f MB ", progress->what,
                100.0 * (double)done_bytes / (double)(all_bytes ? all_bytes : 1), (double)all_bytes / 1e6);
}

/* ---- inspect ---- */

enum { TAGS_SHOWN = 32 };

struct findings {
    const char *path;
    const struct checkpoint_info *info;
    struct config config;
    struct checkpoint_tag tags[TAGS_SHOWN];
    int tag_count; /* all there are */
    char latest[CHECKPOINT_TAG_BYTES];
    struct error damage; /* status 0: every byte was read and is good */
};

static void print_model(FILE *out, const struct config_model *shape, int64_t elems)
{
    fprintf(out, "model       %s, %lld parameters: %d layers, hidden %d, ", shape->name, (long long)elems,
            shape->layers, shape->hidden);
    if (shape->heads) fprintf(out, "%d heads, ", shape->heads);
    fprintf(out, "context %d, vocabulary %d\n", shape->context, shape->vocabulary);
}

static void print_tags(FILE *out, const struct findings *findings)
{
    char moment[32];
    const int shown = findings->tag_count < TAGS_SHOWN ? findings->tag_count : TAGS_SHOWN;
    for (int t = 0; t < shown; t++) {
        const time_t saved = (time_t)(findings->tags[t].saved_ns / 1000000000);
        struct tm local;
        strftime(moment, sizeof moment, "%Y-%m-%d %H:%M:%S", localtime_r(&saved, &local));
        fprintf(out, "%-11s %-20s %s%s\n", t == 0 ? "tags" : "", findings->tags[t].tag, moment,
                strcmp(findings->tags[t].tag, findings->latest) == 0 ? "  latest" : "");
    }
    if (findings->tag_count > shown) fprintf(out, "%-11s ... and %d older\n", "", findings->tag_count - shown);
}

static void print_saver(FILE *out, const struct checkpoint_info *info)
{
    if (strcmp(info->isa, CONVERTED_ISA) == 0)
        fputs("saved by    checkpoint convert, from a file of weights; begin with train --resume --weights-only\n",
              out);
    else
        fprintf(out, "saved by    stage %d, %d rank%s of %d thread%s, %s; loads at any stage and number of ranks\n",
                info->stage, info->ranks, info->ranks == 1 ? "" : "s", info->threads, info->threads == 1 ? "" : "s",
                info->isa);
}

static void print_findings(FILE *out, const struct findings *findings)
{
    const struct checkpoint_info *info = findings->info;
    const struct config *config = &findings->config;
    const int arrays = info->has[STATE_1] + info->has[STATE_2];
    print_tags(out, findings);
    fprintf(out, "checkpoint  %s\n", info->folder);
    print_model(out, &info->model.shape, info->model.elems);
    fprintf(out, "progress    %lld steps, %lld updates, %lld samples\n", (long long)info->progress.steps_done,
            (long long)info->progress.updates, (long long)info->progress.samples);
    fprintf(out, "holds       fp32 weights%s%s\n",
            arrays == 0   ? " alone"
            : arrays == 1 ? " and 1 optimizer state"
                          : " and 2 optimizer states",
            info->has[STATE_PENDING] ? ", and the gradients of a delayed update" : "");
    fprintf(out, "training    %s, %s, global batch %d of %d tokens\n", dtype_name(info->model.dtype),
            config->optimizer.type, config->train_batch_size, config->data.sequence_length);
    print_saver(out, info);
    fprintf(out, "size        %d shard%s, %llu bytes\n", info->shards, info->shards == 1 ? "" : "s",
            (unsigned long long)info->bytes);
    fprintf(out, "checked     %s\n",
            findings->damage.status ? findings->damage.text : "every byte is what was written");
}

static cJSON *model_json(const struct config_model *shape, int64_t elems)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", shape->name);
    cJSON_AddNumberToObject(json, "parameters", (double)elems);
    cJSON_AddNumberToObject(json, "layers", shape->layers);
    cJSON_AddNumberToObject(json, "hidden", shape->hidden);
    if (shape->heads) cJSON_AddNumberToObject(json, "heads", shape->heads);
    else cJSON_AddNullToObject(json, "heads");
    cJSON_AddNumberToObject(json, "context", shape->context);
    cJSON_AddNumberToObject(json, "vocabulary", shape->vocabulary);
    return json;
}

static char *printed(cJSON *json)
{
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    return text;
}

static char *findings_json(const struct findings *findings)
{
    const struct checkpoint_info *info = findings->info;
    cJSON *json = cJSON_CreateObject(), *tags = cJSON_AddArrayToObject(json, "tags");
    for (int t = 0; t < findings->tag_count && t < TAGS_SHOWN; t++)
        cJSON_AddItemToArray(tags, cJSON_CreateString(findings->tags[t].tag));
    cJSON_AddStringToObject(json, "latest", findings->latest);
    cJSON_AddStringToObject(json, "kind", "checkpoint");
    cJSON_AddStringToObject(json, "tag", info->tag);
    cJSON_AddStringToObject(json, "folder", info->folder);
    cJSON_AddItemToObject(json, "model", model_json(&info->model.shape, info->model.elems));
    cJSON_AddNumberToObject(json, "step", (double)info->progress.steps_done);
    cJSON_AddNumberToObject(json, "updates", (double)info->progress.updates);
    cJSON_AddNumberToObject(json, "samples", (double)info->progress.samples);
    cJSON_AddNumberToObject(json, "optimizer_states", info->has[STATE_1] + info->has[STATE_2]);
    cJSON_AddStringToObject(json, "precision", dtype_name(info->model.dtype));
    cJSON_AddNumberToObject(json, "stage", info->stage);
    cJSON_AddNumberToObject(json, "ranks", info->ranks);
    cJSON_AddNumberToObject(json, "threads_per_rank", info->threads);
    cJSON_AddStringToObject(json, "isa", info->isa);
    cJSON_AddNumberToObject(json, "shards", info->shards);
    cJSON_AddNumberToObject(json, "bytes", (double)info->bytes);
    cJSON_AddRawToObject(json, "config", info->config_json);
    if (findings->damage.status) cJSON_AddStringToObject(json, "damage", findings->damage.text);
    else cJSON_AddNullToObject(json, "damage");
    return printed(json);
}

static char *findings_text(const struct findings *findings)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    print_findings(out, findings);
    return fclose(out) ? NULL : text;
}

static int write_text(const struct cli *cli, char *text, struct error *err)
{
    int status =
        text ? front_write(cli->output, text, err) : error_set(err, STATUS_RUN, "no memory for what was found");
    free(text);
    return status;
}

/* A damaged checkpoint is still described; its damage is the last line, and the exit status. */
static int inspect_checkpoint(const struct cli *cli, struct error *err)
{
    struct findings findings = {.path = cli->operand};
    struct progress progress = progress_of("checking");
    struct checkpoint *checkpoint;
    int status = checkpoint_open(&checkpoint, cli->operand, cli->tag, err);
    if (status) return status;
    findings.info = checkpoint_info(checkpoint);
    findings.tag_count = checkpoint_tags(cli->operand, findings.tags, TAGS_SHOWN);
    checkpoint_latest(cli->operand, findings.latest);
    status = config_load_text(&findings.config, findings.info->config_json, NULL, 0, err);
    if (!status) {
        findings.damage.status = checkpoint_verify(checkpoint, say_progress, &progress, &findings.damage);
        progress_end(&progress);
        status = write_text(cli, (cli->json ? findings_json : findings_text)(&findings), err);
        config_release(&findings.config);
    }
    if (!status && findings.damage.status) *err = findings.damage, status = err->status;
    checkpoint_close(checkpoint);
    return status;
}

static char *weights_text(const struct weights_info *info)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fprintf(out, "weights     %s, %s\n", weights_format_name(info->format), info->path);
    print_model(out, &info->shape, info->elems);
    fprintf(out, "holds       %s weights, %d tensors\n", dtype_name(info->dtype), info->tensors);
    fprintf(out, "size        %llu bytes; this format has no checksums\n", (unsigned long long)info->bytes);
    return fclose(out) ? NULL : text;
}

static char *weights_json(const struct weights_info *info)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "kind", weights_format_name(info->format));
    cJSON_AddStringToObject(json, "file", info->path);
    cJSON_AddItemToObject(json, "model", model_json(&info->shape, info->elems));
    cJSON_AddStringToObject(json, "precision", dtype_name(info->dtype));
    cJSON_AddNumberToObject(json, "tensors", info->tensors);
    cJSON_AddNumberToObject(json, "bytes", (double)info->bytes);
    return printed(json);
}

static int inspect_weights(const struct cli *cli, struct error *err)
{
    struct weights_file *file;
    int status = weights_open(&file, cli->operand, err);
    if (status) return status;
    status = write_text(cli, (cli->json ? weights_json : weights_text)(weights_info(file)), err);
    weights_close(file);
    return status;
}

int front_checkpoint_inspect(const struct cli *cli)
{
    struct error err = {0};
    int status = weights_is(cli->operand) ? inspect_weights(cli, &err) : inspect_checkpoint(cli, &err);
    return status ? front_fail(&err) : STATUS_OK;
}

/* ---- convert and export ---- */

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

/* A folder gets what transformers' from_pretrained() opens. */
static void choose_file(struct destination *to, const char *into)
{
    struct stat about;
    const size_t length = strlen(into);
    const bool folder = to->format == WEIGHTS_SAFETENSORS &&
                        ((stat(into, &about) == 0 && S_ISDIR(about.st_mode)) || into[length - 1] == '/');
    snprintf(to->file, sizeof to->file, "%.4000s%s", into, folder ? "/model.safetensors" : "");
    snprintf(to->config_file, sizeof to->config_file, "%.4000s%s", folder ? into : "", folder ? "/config.json" : "");
    if (folder) mkdir(into, 0777); /* what hinders it, the file says better */
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
    if (!status && !to->checkpoint) choose_file(to, cli->into);
    return status;
}

static int write_weights(const struct destination *to, const struct origin *origin, struct progress *progress,
                         struct error *err)
{
    int status =
        weights_write(to->file, to->format, to->dtype, &origin->model, &origin->source, say_progress, progress, err);
    if (status || !*to->config_file) return status;
    char *json = weights_config_json(&origin->model.shape, to->dtype);
    status = json ? front_write(to->config_file, json, err) : error_set(err, STATUS_RUN, "no memory for config.json");
    free(json);
    return status;
}

/* The built-in configuration with the sizes of the model, and what the user sets. */
static int config_of(char **json, const struct cli *cli, const struct config_model *shape, struct error *err)
{
    struct config config;
    char sizes[6][48];
    const char *sets[CLI_LIST_MAX + 6];
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
    int status = config_load(&config, NULL, sets, count, err);
    if (status) return status;
    *json = config_to_json(&config);
    config_release(&config);
    return *json ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a configuration");
}

static int write_checkpoint(const struct cli *cli, const struct origin *origin, struct progress *progress,
                            struct error *err)
{
    char *json = NULL;
    struct convert_target target = {.dir = cli->into, .shards = cli->shards > 0 ? (int)cli->shards : 1};
    if (cli->shards > 4096) return error_set(err, STATUS_USAGE, "--shards %lld: at most 4096", (long long)cli->shards);
    int status = origin->file ? config_of(&json, cli, &origin->model.shape, err) : STATUS_OK;
    target.config_json = json;
    if (!status) status = convert_to_checkpoint(origin, &target, say_progress, progress, err);
    free(json);
    return status;
}

/* model.heads is the one thing that a file of weights may leave open. */
static int heads_given(const struct cli *cli)
{
    int heads = 0;
    for (int i = 0; i < cli->sets.count; i++) sscanf(cli->sets.at[i], "model.heads=%d", &heads);
    return heads;
}

static int convert(const struct cli *cli, struct error *err)
{
    struct origin origin;
    struct destination to;
    struct progress progress = progress_of("writing");
    int status = choose(&to, cli, err);
    if (status) return status;
    status = origin_open(&origin, cli->operand, cli->tag, heads_given(cli), err);
    if (status) return status;
    status =
        to.checkpoint ? write_checkpoint(cli, &origin, &progress, err) : write_weights(&to, &origin, &progress, err);
    progress_end(&progress);
    if (!status && to.checkpoint)
        printf("%lld parameters, %lld shard%s: %s\n", (long long)origin.model.elems,
               (long long)(cli->shards > 0 ? cli->shards : 1), cli->shards > 1 ? "s" : "", cli->into);
    else if (!status)
        printf("%lld parameters, %s in %s: %s\n", (long long)origin.model.elems, weights_format_name(to.format),
               dtype_name(to.dtype), to.file);
    origin_release(&origin);
    return status;
}

int front_checkpoint_convert(const struct cli *cli)
{
    struct error err;
    return convert(cli, &err) ? front_fail(&err) : STATUS_OK;
}
