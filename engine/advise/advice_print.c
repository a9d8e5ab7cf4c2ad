/* Advice as JSON, and as a page of at most 80 columns, with the setup that is taken as a file for DeepSpeed and as calls for FSDP2. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/advice.h"
#include "engine/base/template.h"

/* ---- DeepSpeed ---- */

static bool is_off(const cJSON *item)
{
    return cJSON_IsFalse(item) || cJSON_IsNull(item) || (cJSON_IsString(item) && (!*item->valuestring || !strcmp(item->valuestring, "none")));
}

/* Of a resolved configuration what DeepSpeed reads and this setup uses. */
static cJSON *deepspeed_file(const struct config *config)
{
    static const char *const sections[] = {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping", "bf16", "fp16",
                                           "optimizer", "scheduler", "zero_optimization", "aio"};
    static const char *const ours[] = {"weight_decay_on", "check_grad_overflow", "stage3_model_persistence_threshold"};
    char *text = config_to_json(config);
    cJSON *all = text ? cJSON_Parse(text) : NULL, *file = cJSON_CreateObject();
    free(text);
    for (size_t s = 0; all && s < sizeof sections / sizeof *sections; s++) {
        cJSON *section = cJSON_DetachItemFromObjectCaseSensitive(all, sections[s]);
        if (!section) continue;
        for (size_t o = 0; o < sizeof ours / sizeof *ours; o++) cJSON_DeleteItemFromObjectCaseSensitive(section, ours[o]);
        const cJSON *enabled = cJSON_GetObjectItemCaseSensitive(section, "enabled");
        const bool unused = cJSON_IsFalse(enabled) || (!strcmp(sections[s], "aio") && config->zero.offload_optimizer != OFFLOAD_NVME &&
                                                       config->zero.offload_param != OFFLOAD_NVME);
        if (unused) cJSON_Delete(section);
        else cJSON_AddItemToObject(file, sections[s], section);
    }
    cJSON *zero = cJSON_GetObjectItemCaseSensitive(file, "zero_optimization");
    for (cJSON *item = zero ? zero->child : NULL, *next; item; item = next) {
        next = item->next;
        const bool of_stage3 = !strncmp(item->string, "stage3_", 7) || !strcmp(item->string, "sub_group_size");
        const bool neutral = (!strcmp(item->string, "mics_shard_size") && config->zero.shard_ranks <= 0) ||
                             (!strcmp(item->string, "zero_hpz_partition_size") && config->zero.hpz_partition <= 1) ||
                             (!strcmp(item->string, "zeropp_loco_param") && !config->zero.quantized_gradients);
        const cJSON *device = cJSON_GetObjectItemCaseSensitive(item, "device");
        if (device && strcmp(device->valuestring, "nvme")) cJSON_DeleteItemFromObjectCaseSensitive(item, "nvme_path");
        if ((of_stage3 && config->zero.stage != 3) || neutral || (device && is_off(device)) || (is_off(item) && strcmp(item->string, "overlap_comm")))
            cJSON_Delete(cJSON_DetachItemViaPointer(zero, item));
    }
    cJSON_Delete(all);
    return file;
}

/* ---- FSDP2 ---- */

/* docs/FSDP.md says which words of FSDP stand for which keys. */
static void add_fsdp2(cJSON *object, const struct config *config)
{
    const struct config_zero *zero = &config->zero;
    const int ranks = config->topology.ranks, shards = zero->shard_ranks > 0 && zero->shard_ranks < ranks ? zero->shard_ranks : ranks;
    char reshard[16];
    if (zero->stage == 3 && zero->hpz_partition > 1) snprintf(reshard, sizeof reshard, "%d", zero->hpz_partition);
    else snprintf(reshard, sizeof reshard, zero->stage == 3 ? "True" : "False");
    json_put(object, TRUTH("nvme", zero->offload_optimizer == OFFLOAD_NVME || zero->offload_param == OFFLOAD_NVME),
             TRUTH("whole", zero->stage <= 1), TRUTH("stage1", zero->stage == 1), TRUTH("stage2", zero->stage == 2),
             TEXT("dtype", config->dtype == DTYPE_F32 ? "" : config->dtype == DTYPE_BF16 ? "bfloat16" : "float16"),
             TRUTH("offload", zero->offload_param), TRUTH("half_offload", zero->offload_optimizer && !zero->offload_param),
             NUMBER_IF("replicas", shards < ranks, ranks / shards), NUMBER("shards", shards), TEXT("reshard", reshard),
             TRUTH("recompute", zero->recompute == RECOMPUTE_FULL));
}

#define FSDP2                                                                                                          \
    "{?nvme}# FSDP2 has no NVMe tier.\n{/}{!nvme}"                                                                     \
    "{?whole}from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(model)\n{/}"       \
    "{?stage1}# It gives each whole tensor to one rank; ZeRO cuts all tensors into slices.\n"                          \
    "from torch.distributed.optim import ZeroRedundancyOptimizer\n"                                                    \
    "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)\n{/}"                                  \
    "{!whole}from torch.distributed.fsdp import fully_shard{?dtype}, MixedPrecisionPolicy{/}"                          \
    "{?offload}, CPUOffloadPolicy{/}\nfrom torch.distributed.device_mesh import init_device_mesh\n"                    \
    "{?replicas}mesh = init_device_mesh(\"cuda\", ({replicas}, {shards}),\n"                                           \
    "                        mesh_dim_names=(\"replicate\", \"shard\"))\n{/}"                                          \
    "{!replicas}mesh = init_device_mesh(\"cuda\", ({shards},))\n{/}"                                                   \
    "options = dict(mesh=mesh, reshard_after_forward={reshard}"                                                        \
    "{?dtype},\n               mp_policy=MixedPrecisionPolicy(param_dtype=torch.{dtype}){/}"                           \
    "{?offload},\n               offload_policy=CPUOffloadPolicy(){/})\n"                                              \
    "for block in model.blocks:  # as your model names them\n"                                                         \
    "{?recompute}    torch.distributed._composable.checkpoint(block)  # recomputes it in backward\n{/}"                \
    "    fully_shard(block, **options)\nfully_shard(model, **options)\n"                                               \
    "{?stage2}# FSDP2 keeps gathered parameters until backward; stage 2 keeps them always.\n{/}"                       \
    "{?half_offload}# FSDP2 offloads parameters and optimizer states together, or neither.\n{/}{/}{/}"

/* ---- the facts ---- */

static void add_advised(cJSON *object, const struct advised *advised)
{
    const struct fit_setup *setup = &advised->candidate.setup;
    const struct fit_plan *plan = &advised->candidate.plan;
    char text[160];
    json_put(object, NUMBER("stage", setup->stage), TEXT("offload_optimizer", offload_name(setup->optimizer)),
             TEXT("offload_param", offload_name(setup->param)), TEXT("recompute", recompute_name(setup->recompute)),
             NUMBER("mlp_tiles", setup->tiles), NUMBER("seconds_per_step", advised->step_s),
             NUMBER("tokens_per_second", advised->rates.tokens_per_s), NUMBER("mfu", advised->rates.mfu),
             NUMBER("device_bytes", plan->need[FIT_DEVICE].bytes), NUMBER("host_bytes", plan->need[FIT_HOST].bytes),
             NUMBER("nvme_bytes", plan->need[FIT_NVME].bytes), NUMBER("sent_bytes_per_step", plan->sent_bytes),
             NUMBER("bus_bytes_per_step", plan->bus_bytes), NUMBER("nvme_bytes_per_step", plan->nvme_bytes),
             TEXT(".setup", fit_setup_text(text, setup)), TEXT(".most", category_name(plan->need[FIT_DEVICE].most)));
}

/* What the second setup costs more, or less. */
static void add_costs(cJSON *object, const struct fit_plan *best, const struct fit_plan *next)
{
    const double again = (next->flops.recomputed - best->flops.recomputed) / (best->flops.forward + best->flops.backward);
    const struct {
        const char *what;
        double bytes;
    } costs[] = {
        {"sends", (double)(next->sent_bytes - best->sent_bytes)},
        {"moves over the bus", (double)(next->bus_bytes - best->bus_bytes)},
        {"moves over NVMe", (double)(next->nvme_bytes - best->nvme_bytes)},
    };
    const char *between = "";
    cJSON *list = cJSON_AddArrayToObject(object, ".costs");
    for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
        if (fabs(costs[c].bytes) < 1) continue;
        json_put(json_item(list), TEXT("between", between), TEXT("what", costs[c].what),
                 NUMBER("bytes", fabs(costs[c].bytes)), TRUTH("more", costs[c].bytes > 0));
        between = ",";
    }
    if (fabs(again) > 5e-4)
        json_put(json_item(list), TEXT("between", between), TEXT("what", "recomputes"), NUMBER("share", fabs(again)),
                 TRUTH("more", again > 0));
}

static void add_lacking(cJSON *facts, const char *name, const struct fit_candidate *candidate, const struct fit_limits *limits)
{
    const enum fit_limit stop = fit_stop(&candidate->plan, limits);
    char text[160];
    json_put(cJSON_AddObjectToObject(facts, name), TEXT("setup", fit_setup_text(text, &candidate->setup)),
             NUMBER("bytes", fit_short(&candidate->plan, limits, stop)), TEXT("limit", fit_limit_name(stop)));
}

static void add_taken(cJSON *facts, const struct advice *advice)
{
    const bool has_next = advice->next.step_s > 0;
    add_advised(cJSON_AddObjectToObject(facts, "take"), &advice->best);
    cJSON *next = has_next ? cJSON_AddObjectToObject(facts, "next") : cJSON_AddNullToObject(facts, "next");
    if (has_next) {
        add_advised(next, &advice->next);
        add_costs(next, &advice->best.candidate.plan, &advice->next.candidate.plan);
        json_put(next, NUMBER(".slower", advice->next.step_s / advice->best.step_s - 1));
    }
    if (advice->has_lacking) add_lacking(facts, ".cheaper", &advice->cheaper, &advice->limits);
    cJSON *tuned = cJSON_AddArrayToObject(facts, "tuned");
    for (int t = 0; t < advice->tuned_count; t++)
        json_put(json_item(tuned), TEXT("command", advice->tuned[t].change.command), TEXT("text", advice->tuned[t].change.text),
                 NUMBER("seconds_per_step", advice->tuned[t].step_s), NUMBER("device_bytes", advice->tuned[t].peak_bytes),
                 TRUTH("fits", advice->tuned[t].fits), NUMBER(".slower", advice->tuned[t].step_s / advice->best.step_s - 1));
    cJSON *file = deepspeed_file(advice->config);
    char *text = cJSON_Print(file);
    if (text) json_put(facts, TEXT(".file", text), TRUTH(".recompute", advice->config->zero.recompute));
    free(text);
    cJSON_AddItemToObject(facts, "deepspeed", file);
    add_fsdp2(cJSON_AddObjectToObject(facts, ".fsdp2"), advice->config);
}

/* ---- the page ---- */

#define TAKEN                                                                                                          \
    "{~:6}{.setup}{/}      a step {seconds_per_step:.4g} s (SIMULATED), {tokens_per_second:.4g} tokens/s, MFU {mfu:.1%}\n" \
    "      device {device_bytes:G} a rank, most of it {.most}{+host_bytes}; host {host_bytes:G}{/}"                    \
    "{+nvme_bytes}; NVMe {nvme_bytes:G}{/}\n"
static const char page[] =
    "{~:2}{.model}, {.dtype}, {.optimizer}, {.ranks} rank{.ranks:s}, {ranks_per_node} a node, "
    "micro-batch {.micro_batch} x {.tokens} tokens, accumulation {.accumulation}, on {hardware} ({.memory_bytes:G} a device){/}"
    "room on a device: {room_bytes:G}{?.device_budget} (memory.device_budget){/}{!.device_budget}, 90 % of it "
    "(assumed: the rest is for the context,\nlibraries and fragments; memory.device_budget says another){/}\n"
    "{!.host_limit}room on the host: no limit; memory.host_budget sets one\n{/}\n"
    "{!take}{~:2}Nothing fits{#.nearest}. Nearest: {setup}, which lacks {bytes:G} of {limit}{/}"
    ". Use more ranks, or a smaller micro-batch.{/}{/}"
    "{?take}{#take}Take  " TAKEN "{/}"
    "  why {~:6}{fitting} setup{fitting:s} fit{?.one}s{/}; this one is the fastest{#next}, by {.slower:.1%}: the next"
    "{#.costs}{between|} {what} {?bytes}{bytes:G}{/}{?share}{share:.1%}{/} {?more}more{/}{!more}less{/}{/}"
    "{!.costs} one schedules the same work in another order{/}{/}{/}"
    "{#.cheaper}      {~:6}{setup} moves less and does not fit: it lacks {bytes:G} of {limit}{/}{/}"
    "{#next}Next  " TAKEN "{/}"
    "\nFaster still, by simulation, one change at a time\n{!tuned}  none of the changes that zerolab knows against waits\n{/}"
    "{#tuned}  {seconds_per_step:8.4g} s {.slower:+8.1%}  device {device_bytes:9G}{!fits} DOES NOT FIT{/}  {~}{text}{/}{/}"
    "\nDeepSpeed{?.recompute} (recomputation is a call in the model: deepspeed.checkpointing){/}\n{.file}\n\n"
    "FSDP2\n{#.fsdp2}" FSDP2 "{/}{/}";

int advice_print(FILE *out, bool as_json, const struct advice *advice, struct error *err)
{
    const struct config *config = advice->config;
    const struct fit_limits *limits = &advice->limits;
    cJSON *facts = json_object(TRUTH("simulated", true), TEXT("hardware", advice->hardware->name),
                               NUMBER("ranks_per_node", config_per_node(advice->config)), NUMBER("room_bytes", limits->bytes[FIT_DEVICE]),
                               NUMBER("fitting", advice->fitting));
    json_put(facts, TEXT(".model", config->model.name), TEXT(".dtype", dtype_name(config->dtype)),
             TEXT(".optimizer", config->optimizer.type), NUMBER(".ranks", config->topology.ranks), NUMBER(".micro_batch", config->micro_batch_size),
             NUMBER(".tokens", config->data.sequence_length), NUMBER(".accumulation", config->accumulation_steps),
             NUMBER(".memory_bytes", advice->hardware->memory_bytes), TRUTH(".device_budget", config->budget_bytes[TIER_DEVICE]),
             TRUTH(".host_limit", limits->bytes[FIT_HOST]), TRUTH(".one", advice->fitting == 1));
    if (advice->fitting) add_taken(facts, advice);
    else if (advice->has_lacking) add_lacking(facts, ".nearest", &advice->nearest, limits);
    return template_answer(out, as_json, page, facts, err);
}
