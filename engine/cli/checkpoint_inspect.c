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

static cJSON *facts_of(const struct findings *findings)
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
static const char page[] =
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
        status = front_answer(cli, page, facts_of(&findings), err);
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

static cJSON *weights_facts(const struct weights_info *info)
{
    cJSON *facts = json_object(TEXT("kind", weights_format_name(info->format)), TEXT("file", info->path));
    add_model(facts, &info->shape, info->elems);
    return json_put(facts, TEXT("precision", dtype_name(info->dtype)), NUMBER("tensors", info->tensors),
                    NUMBER("files", info->files), NUMBER("bytes", info->bytes), TRUTH(".several", info->files > 1));
}

static int inspect_weights(const struct cli *cli, struct error *err)
{
    struct weights_file *file;
    int status = weights_open(&file, cli->operand, err);
    if (status) return status;
    status = front_answer(cli, weights_page, weights_facts(weights_info(file)), err);
    weights_close(file);
    return status;
}

int front_checkpoint_inspect(const struct cli *cli, struct error *err)
{
    return weights_is(cli->operand) ? inspect_weights(cli, err) : inspect_checkpoint(cli, err);
}
