/* `zerolab checkpoint inspect`: what a checkpoint or a file of weights holds, and whether every byte of it is good. */
#include <string.h>
#include <time.h>

#include "engine/base/json.h"
#include "engine/checkpoint/convert.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"

enum { TAGS_SHOWN = 32 };

struct findings {
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
                info->stage, info->ranks, plural(info->ranks), info->threads, plural(info->threads), info->isa);
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
    fprintf(out, "size        %d shard%s, %llu bytes\n", info->shards, plural(info->shards),
            (unsigned long long)info->bytes);
    fprintf(out, "checked     %s\n",
            findings->damage.status ? findings->damage.text : "every byte is what was written");
}

static cJSON *model_json(const struct config_model *shape, int64_t elems)
{
    cJSON *json = cJSON_CreateObject();
    json_put(json, TEXT("name", shape->name), NUMBER("parameters", elems), NUMBER("layers", shape->layers),
             NUMBER("hidden", shape->hidden), NUMBER_IF("heads", shape->heads > 0, shape->heads),
             NUMBER("context", shape->context), NUMBER("vocabulary", shape->vocabulary));
    return json;
}

static cJSON *findings_json(const struct findings *findings)
{
    const struct checkpoint_info *info = findings->info;
    cJSON *json = cJSON_CreateObject(), *tags = cJSON_AddArrayToObject(json, "tags");
    for (int t = 0; t < findings->tag_count && t < TAGS_SHOWN; t++)
        cJSON_AddItemToArray(tags, cJSON_CreateString(findings->tags[t].tag));
    json_put(json, TEXT("latest", findings->latest), TEXT("kind", "checkpoint"), TEXT("tag", info->tag),
             TEXT("folder", info->folder));
    cJSON_AddItemToObject(json, "model", model_json(&info->model.shape, info->model.elems));
    json_put(json, NUMBER("step", info->progress.steps_done), NUMBER("updates", info->progress.updates),
             NUMBER("samples", info->progress.samples),
             NUMBER("optimizer_states", info->has[STATE_1] + info->has[STATE_2]),
             TEXT("precision", dtype_name(info->model.dtype)), NUMBER("stage", info->stage),
             NUMBER("ranks", info->ranks), NUMBER("threads_per_rank", info->threads), TEXT("isa", info->isa),
             NUMBER("shards", info->shards), NUMBER("bytes", info->bytes));
    cJSON_AddRawToObject(json, "config", info->config_json);
    if (findings->damage.status) cJSON_AddStringToObject(json, "damage", findings->damage.text);
    else cJSON_AddNullToObject(json, "damage");
    return json;
}

static int write_findings(const struct cli *cli, const struct findings *findings, struct error *err)
{
    if (cli->json) return front_give(cli->output, json_lines(findings_json(findings)), err);
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    print_findings(out, findings);
    return front_close(out, cli->output, STATUS_OK, err);
}

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
        status = write_findings(cli, &findings, err);
        config_release(&findings.config);
    }
    if (!status && findings.damage.status) *err = findings.damage, status = err->status;
    checkpoint_close(checkpoint);
    return status;
}

static void print_weights(FILE *out, const struct weights_info *info)
{
    fprintf(out, "weights     %s, %s\n", weights_format_name(info->format), info->path);
    print_model(out, &info->shape, info->elems);
    fprintf(out, "holds       %s weights, %d tensors", dtype_name(info->dtype), info->tensors);
    if (info->files > 1) fprintf(out, " in %d files", info->files);
    fputc('\n', out);
    fprintf(out, "size        %llu bytes; this format has no checksums\n", (unsigned long long)info->bytes);
}

static cJSON *weights_json(const struct weights_info *info)
{
    cJSON *json = cJSON_CreateObject();
    json_put(json, TEXT("kind", weights_format_name(info->format)), TEXT("file", info->path));
    cJSON_AddItemToObject(json, "model", model_json(&info->shape, info->elems));
    json_put(json, TEXT("precision", dtype_name(info->dtype)), NUMBER("tensors", info->tensors),
             NUMBER("files", info->files), NUMBER("bytes", info->bytes));
    return json;
}

static int write_weights(const struct cli *cli, const struct weights_info *info, struct error *err)
{
    if (cli->json) return front_give(cli->output, json_lines(weights_json(info)), err);
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    print_weights(out, info);
    return front_close(out, cli->output, STATUS_OK, err);
}

static int inspect_weights(const struct cli *cli, struct error *err)
{
    struct weights_file *file;
    int status = weights_open(&file, cli->operand, err);
    if (status) return status;
    status = write_weights(cli, weights_info(file), err);
    weights_close(file);
    return status;
}

int front_checkpoint_inspect(const struct cli *cli, struct error *err)
{
    return weights_is(cli->operand) ? inspect_weights(cli, err) : inspect_checkpoint(cli, err);
}
