/* Advice as a page of at most 80 columns, and as JSON; the setup that is taken as a file for DeepSpeed and as calls for FSDP2. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/advise/advice.h"

static const char *gigabytes(char out[32], double bytes)
{
    snprintf(out, 32, "%.*f GB", bytes < 1e10 ? 2 : 1, bytes / 1e9);
    return out;
}

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
static void print_fsdp2(FILE *out, const struct config *config)
{
    const struct config_zero *zero = &config->zero;
    const int ranks = config->topology.ranks, shards = zero->shard_ranks > 0 && zero->shard_ranks < ranks ? zero->shard_ranks : ranks;
    const bool nvme = zero->offload_optimizer == OFFLOAD_NVME || zero->offload_param == OFFLOAD_NVME;
    if (nvme) {
        fputs("# FSDP2 has no NVMe tier.\n", out);
        return;
    }
    if (zero->stage <= 1) {
        fputs("from torch.nn.parallel import DistributedDataParallel\nmodel = DistributedDataParallel(model)\n", out);
        if (zero->stage == 1)
            fputs("# It gives each whole tensor to one rank; ZeRO cuts all tensors into slices.\n"
                  "from torch.distributed.optim import ZeroRedundancyOptimizer\n"
                  "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)\n", out);
        return;
    }
    fputs("from torch.distributed.fsdp import fully_shard", out);
    if (config->dtype != DTYPE_F32) fputs(", MixedPrecisionPolicy", out);
    if (zero->offload_param) fputs(", CPUOffloadPolicy", out);
    fputs("\nfrom torch.distributed.device_mesh import init_device_mesh\n", out);
    if (shards < ranks)
        fprintf(out, "mesh = init_device_mesh(\"cuda\", (%d, %d),\n                        mesh_dim_names=(\"replicate\", \"shard\"))\n",
                ranks / shards, shards);
    else fprintf(out, "mesh = init_device_mesh(\"cuda\", (%d,))\n", ranks);
    fputs("options = dict(mesh=mesh, reshard_after_forward=", out);
    if (zero->stage == 3 && zero->hpz_partition > 1) fprintf(out, "%d", zero->hpz_partition);
    else fputs(zero->stage == 3 ? "True" : "False", out);
    if (config->dtype != DTYPE_F32)
        fprintf(out, ",\n               mp_policy=MixedPrecisionPolicy(param_dtype=torch.%s)", config->dtype == DTYPE_BF16 ? "bfloat16" : "float16");
    if (zero->offload_param) fputs(",\n               offload_policy=CPUOffloadPolicy()", out);
    fputs(")\nfor block in model.blocks:  # as your model names them\n", out);
    if (zero->recompute == RECOMPUTE_FULL)
        fputs("    torch.distributed._composable.checkpoint(block)  # recomputes it in backward\n", out);
    fputs("    fully_shard(block, **options)\nfully_shard(model, **options)\n", out);
    if (zero->stage == 2) fputs("# FSDP2 keeps gathered parameters until backward; stage 2 keeps them always.\n", out);
    if (zero->offload_optimizer && !zero->offload_param) fputs("# FSDP2 offloads parameters and optimizer states together, or neither.\n", out);
}

/* ---- text ---- */

static void print_taken(FILE *out, const char *name, const struct advised *advised)
{
    char setup[160], bytes[32];
    const struct fit_plan *plan = &advised->candidate.plan;
    const int column = fprintf(out, "%s ", name);
    words_print(out, column, 6, fit_setup_text(setup, &advised->candidate.setup));
    fprintf(out, "      a step %.4g s (SIMULATED), %.4g tokens/s, MFU %.1f %%\n", advised->step_s,
            advised->rates.tokens_per_s, 100 * advised->rates.mfu);
    fprintf(out, "      device %s a rank, most of it %s", gigabytes(bytes, (double)plan->need[FIT_DEVICE].bytes),
            category_name(plan->need[FIT_DEVICE].most));
    if (plan->need[FIT_HOST].bytes) fprintf(out, "; host %s", gigabytes(bytes, (double)plan->need[FIT_HOST].bytes));
    if (plan->need[FIT_NVME].bytes) fprintf(out, "; NVMe %s", gigabytes(bytes, (double)plan->need[FIT_NVME].bytes));
    fputc('\n', out);
}

static void print_reasons(FILE *out, const struct advice *advice)
{
    char line[400] = "", setup[160], bytes[32];
    const struct fit_plan *best = &advice->best.candidate.plan, *next = &advice->next.candidate.plan;
    text_append(line, sizeof line, "%d setup%s fit%s; this one is the fastest", advice->fitting, plural(advice->fitting),
                advice->fitting == 1 ? "s" : "");
    if (advice->next.step_s > 0) {
        text_append(line, sizeof line, ", by %.1f %%: the next", 100 * (advice->next.step_s / advice->best.step_s - 1));
        const struct { const char *what; double more; } costs[] = {
            {"sends", (double)(next->sent_bytes - best->sent_bytes)},
            {"moves over the bus", (double)(next->bus_bytes - best->bus_bytes)},
            {"moves over NVMe", (double)(next->nvme_bytes - best->nvme_bytes)},
        };
        const char *between = " ";
        for (size_t c = 0; c < sizeof costs / sizeof *costs; c++)
            if (fabs(costs[c].more) >= 1) {
                text_append(line, sizeof line, "%s%s %s %s", between, costs[c].what, gigabytes(bytes, fabs(costs[c].more)),
                            costs[c].more > 0 ? "more" : "less");
                between = ", ";
            }
        const double again = (next->flops.recomputed - best->flops.recomputed) / (best->flops.forward + best->flops.backward);
        if (fabs(again) > 5e-4)
            text_append(line, sizeof line, "%srecomputes %.1f %% %s", between, 100 * fabs(again), again > 0 ? "more" : "less"), between = ", ";
        if (*between == ' ') text_append(line, sizeof line, " one schedules the same work in another order");
    }
    fputs("  why ", out);
    words_print(out, 6, 6, line);
    if (!advice->has_lacking) return;
    const enum fit_limit stop = fit_stop(&advice->cheaper.plan, &advice->limits);
    snprintf(line, sizeof line, "%s moves less and does not fit: it lacks %s of %s", fit_setup_text(setup, &advice->cheaper.setup),
             gigabytes(bytes, (double)fit_short(&advice->cheaper.plan, &advice->limits, stop)), fit_limit_name(stop));
    fputs("      ", out);
    words_print(out, 6, 6, line);
}

static void print_tuned(FILE *out, const struct advice *advice)
{
    char bytes[32];
    fputs("\nFaster still, by simulation, one change at a time\n", out);
    if (!advice->tuned_count) fputs("  none of the changes that zerolab knows against waits\n", out);
    for (int t = 0; t < advice->tuned_count; t++) {
        const struct tuned *tuned = &advice->tuned[t];
        const int column = fprintf(out, "  %8.4g s %+6.1f %%  device %9s%s  ", tuned->step_s, 100 * (tuned->step_s / advice->best.step_s - 1),
                                   gigabytes(bytes, (double)tuned->peak_bytes), tuned->fits ? "" : " DOES NOT FIT");
        words_print(out, column, column, tuned->change.text);
    }
}

static void print_head(FILE *out, const struct advice *advice, const struct config *config)
{
    char bytes[32], room[32], line[300];
    snprintf(line, sizeof line, "%s, %s, %s, %d rank%s, %d a node, micro-batch %d x %d tokens, accumulation %d, on %s (%s a device)",
             config->model.name, dtype_name(config->dtype), config->optimizer.type, config->topology.ranks, plural(config->topology.ranks),
             advice->per_node, config->micro_batch_size, config->data.sequence_length, config->accumulation_steps, advice->hardware->name,
             gigabytes(bytes, (double)advice->hardware->memory_bytes));
    words_print(out, 0, 2, line);
    fprintf(out, "room on a device: %s%s\n", gigabytes(room, (double)advice->limits.bytes[FIT_DEVICE]),
            config->budget_bytes[TIER_DEVICE] ? " (memory.device_budget)"
                                              : ", 90 % of it (assumed: the rest is for the context,\nlibraries and fragments; memory.device_budget says another)");
    if (!advice->limits.bytes[FIT_HOST]) fputs("room on the host: no limit; memory.host_budget sets one\n", out);
}

int advice_print(FILE *out, const struct advice *advice, struct error *err)
{
    char setup[160], bytes[32];
    print_head(out, advice, advice->config);
    if (!advice->fitting) {
        const enum fit_limit stop = advice->has_lacking ? fit_stop(&advice->nearest.plan, &advice->limits) : FIT_LIMITS;
        char line[400] = "Nothing fits";
        if (advice->has_lacking)
            text_append(line, sizeof line, ". Nearest: %s, which lacks %s of %s", fit_setup_text(setup, &advice->nearest.setup),
                        gigabytes(bytes, (double)fit_short(&advice->nearest.plan, &advice->limits, stop)), fit_limit_name(stop));
        text_append(line, sizeof line, ". Use more ranks, or a smaller micro-batch.");
        fputc('\n', out);
        words_print(out, 0, 2, line);
        return STATUS_OK;
    }
    fputc('\n', out);
    print_taken(out, "Take ", &advice->best);
    print_reasons(out, advice);
    if (advice->next.step_s > 0) print_taken(out, "Next ", &advice->next);
    print_tuned(out, advice);
    cJSON *file = deepspeed_file(advice->config);
    char *text = file ? cJSON_Print(file) : NULL;
    cJSON_Delete(file);
    if (!text) return error_set(err, STATUS_RUN, "no memory for the file");
    fprintf(out, "\nDeepSpeed%s\n%s\n\nFSDP2\n",
            advice->config->zero.recompute ? " (recomputation is a call in the model: deepspeed.checkpointing)" : "", text);
    free(text);
    print_fsdp2(out, advice->config);
    return STATUS_OK;
}

/* ---- JSON ---- */

static cJSON *advised_object(const struct advised *advised)
{
    const struct fit_setup *setup = &advised->candidate.setup;
    const struct fit_plan *plan = &advised->candidate.plan;
    return json_object(NUMBER("stage", setup->stage), TEXT("offload_optimizer", offload_name(setup->optimizer)),
                       TEXT("offload_param", offload_name(setup->param)), TEXT("recompute", recompute_name(setup->recompute)),
                       NUMBER("mlp_tiles", setup->tiles), NUMBER("seconds_per_step", advised->step_s),
                       NUMBER("tokens_per_second", advised->rates.tokens_per_s), NUMBER("mfu", advised->rates.mfu),
                       NUMBER("device_bytes", plan->need[FIT_DEVICE].bytes), NUMBER("host_bytes", plan->need[FIT_HOST].bytes),
                       NUMBER("nvme_bytes", plan->need[FIT_NVME].bytes), NUMBER("sent_bytes_per_step", plan->sent_bytes),
                       NUMBER("bus_bytes_per_step", plan->bus_bytes), NUMBER("nvme_bytes_per_step", plan->nvme_bytes));
}

int advice_print_json(FILE *out, const struct advice *advice, struct error *err)
{
    cJSON *json = json_object(TRUTH("simulated", true), TEXT("hardware", advice->hardware->name), NUMBER("ranks_per_node", advice->per_node),
                              NUMBER("room_bytes", advice->limits.bytes[FIT_DEVICE]), NUMBER("fitting", advice->fitting));
    if (advice->fitting) {
        cJSON_AddItemToObject(json, "take", advised_object(&advice->best));
        cJSON_AddItemToObject(json, "next", advice->next.step_s > 0 ? advised_object(&advice->next) : cJSON_CreateNull());
        cJSON *tuned = cJSON_AddArrayToObject(json, "tuned");
        for (int t = 0; t < advice->tuned_count; t++)
            json_put(json_item(tuned), TEXT("command", advice->tuned[t].change.command), TEXT("text", advice->tuned[t].change.text),
                     NUMBER("seconds_per_step", advice->tuned[t].step_s), NUMBER("device_bytes", advice->tuned[t].peak_bytes),
                     TRUTH("fits", advice->tuned[t].fits));
        cJSON_AddItemToObject(json, "deepspeed", deepspeed_file(advice->config));
    }
    return json_print(out, json, err);
}
