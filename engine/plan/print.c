#include "engine/plan/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/plan/checker.h"
#include "engine/plan/flops.h"
#include "engine/plan/print_parts.h"
#include "engine/plan/schedule_io.h"

/* A plan is only shown of a schedule that an engine would run. */
static int checked_setup(struct setup *setup, const struct config *config, struct error *err)
{
    int status = setup_init(setup, config, err);
    if (status) return status;
    status = schedule_check(&setup->schedule, &setup->model, err);
    if (status) setup_release(setup);
    return status;
}

enum { COLUMNS = 80 };

void plan_print_words(FILE *out, int column, int hang, const char *text)
{
    bool first = true;
    while (*(text += strspn(text, " "))) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > COLUMNS) {
            fprintf(out, "\n%*s", hang, "");
            column = hang;
            first = true;
        }
        column += fprintf(out, "%s%.*s", first ? "" : " ", length, text);
        text += length;
        first = false;
    }
    fputc('\n', out);
}

/* ---- traffic ---- */

static void print_traffic(FILE *out, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    int64_t sent = 0;
    struct traffic_sum sums[TRAFFIC_KINDS];
    char a[32], b[32];
    traffic_of(sums, schedule, &setup->model, 0);
    fprintf(out, "\nTraffic of rank 0 in a step (bytes sent, as a ring would)\n");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (sums[kind].count == 0) continue;
        fprintf(out, "  %-16s %5d operations %16s\n", traffic_name((enum traffic)kind), sums[kind].count,
                grouped(a, sums[kind].sent_bytes));
        if (!traffic_is_copy((enum traffic)kind)) sent += sums[kind].sent_bytes;
    }
    const struct volume volume = traffic_theory_volume(schedule);
    char formula[96];
    if (setup->model.wire == setup->model.dtype)
        snprintf(formula, sizeof formula, "%d x e Psi (N-1)/N", volume.gradients + volume.parameters);
    else
        snprintf(formula, sizeof formula, "(%d x %d + %d x e) Psi (N-1)/N, gradients in %s", volume.gradients,
                 dtype_bytes(setup->model.wire), volume.parameters, dtype_name(setup->model.wire));
    double theory = traffic_theory_bytes(&setup->model, schedule);
    fprintf(out, "  %-16s %5s            %16s\n", "all", "", grouped(a, sent));
    fprintf(out, "  the paper's: %s = %s; difference %s\n", formula, grouped(a, (int64_t)(theory + 0.5)),
            grouped(b, sent - (int64_t)(theory + 0.5)));
}

/* How often each unit's elements move, so that any difference from the paper has a name. */
static void print_units(FILE *out, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    char a[32], b[32], c[32], d[32];
    fprintf(out, "\nUnits (elements moved in a step)\n  %-10s %13s %8s %13s %13s %13s\n", "", "elements", "padding",
            "gathered", "reduced", "refreshed");
    for (int u = 0; u < setup->model.unit_count; u++) {
        int64_t moved[3] = {0};
        for (int i = 0; i < schedule->op_count; i++) {
            const struct op *op = &schedule->ops[i];
            int column = op->kind == OP_GATHER ? 0 : op->kind == OP_REFRESH ? 2 : 1;
            for (int p = 0; op->lane == LANE_COMM && p < op->piece_count; p++)
                if (schedule->pieces[op->first_piece + p].unit == u)
                    moved[column] += schedule->pieces[op->first_piece + p].elems;
        }
        const struct unit *unit = &setup->model.units[u];
        fprintf(out, "  %-10s %13s %8lld %13s %13s %13s%s\n", unit->name, grouped(a, unit->elems),
                (long long)(shard_elems(unit->elems, schedule->ranks) * schedule->ranks - unit->elems),
                grouped(b, moved[0]), grouped(c, moved[1]), grouped(d, moved[2]),
                u == 0 && moved[0] ? "  tied: embedding and output" : "");
    }
}

static void print_offload(FILE *out, const struct config_zero *zero)
{
    static const char *const where[] = {[OFFLOAD_NONE] = "none", [OFFLOAD_CPU] = "cpu", [OFFLOAD_NVME] = "nvme"};
    const bool swaps = zero->offload_optimizer == OFFLOAD_NVME;
    if (zero->offload_optimizer) fprintf(out, ",\noffload_optimizer %s", where[zero->offload_optimizer]);
    if (swaps) fprintf(out, ", pipeline_read %s", zero->pipeline_read ? "true" : "false");
    if (swaps) fprintf(out, ", pipeline_write %s", zero->pipeline_write ? "true" : "false");
    if (zero->offload_optimizer && zero->offload_ratio < 1) fprintf(out, ", ratio %g", zero->offload_ratio);
    if (zero->offload_optimizer) fprintf(out, ", schedule.update_tile %" PRId64, zero->update_tile_elems);
    if (zero->delayed_update) fprintf(out, ", delayed by one step after %" PRId64, zero->delayed_update_after);
    if (zero->offload_param) fprintf(out, ",\noffload_param %s", where[zero->offload_param]);
    if (zero->offload_param == OFFLOAD_NVME)
        fprintf(out, ", max_in_cpu %" PRId64 ", buffer_count %" PRId64 " of %" PRId64, zero->max_in_cpu_elems,
                zero->param_buffers, zero->param_buffer_elems);
}

/* What few configurations set. */
static void print_own_knobs(FILE *out, const struct config_zero *zero)
{
    if (zero->stage == 3 && zero->model_persistence_threshold < INT64_MAX)
        fprintf(out, ",\nstage3_model_persistence_threshold %" PRId64, zero->model_persistence_threshold);
    if (zero->stage == 3) fprintf(out, ", sub_group_size %" PRId64, zero->sub_group_elems);
    if (zero->stage == 3 && zero->keep_last_units)
        fprintf(out, ",\nschedule.keep_last_units %d", zero->keep_last_units);
    if (zero->stage >= 2 && zero->no_sync) fputs(",\nschedule.no_sync true", out);
    print_offload(out, zero);
    if (zero->prescale_gradients) fputs(",\nprescale_gradients true", out);
    else if (zero->gradient_predivide_factor != 1)
        fprintf(out, ",\ngradient_predivide_factor %g", (double)zero->gradient_predivide_factor);
}

static void print_header(FILE *out, const struct setup *setup, const struct config *config)
{
    char a[32];
    const struct config_zero *zero = &config->zero;
    fprintf(out, "%s: %s parameters (Psi) in %d units, %s, %s, %d rank%s x %d thread%s, ZeRO stage %d\n",
            config->model.name, grouped(a, setup->model.elems), setup->model.unit_count, dtype_name(config->dtype),
            optimizer_table[setup->model.optimizer].name, config->topology.ranks,
            config->topology.ranks == 1 ? "" : "s", config->topology.threads_per_rank,
            config->topology.threads_per_rank == 1 ? "" : "s", zero->stage);
    fprintf(out, "micro-batch %d x %d tokens a rank, %d micro-step%s; %d operations, %d buffers; the checker passed\n",
            config->micro_batch_size, config->data.sequence_length, config->accumulation_steps,
            config->accumulation_steps == 1 ? "" : "s", setup->schedule.op_count, setup->schedule.buffer_count);
    fprintf(out, "reduce_bucket_size %" PRId64 ", allgather_bucket_size %" PRId64 ", overlap_comm %s",
            zero->reduce_bucket_elems, zero->allgather_bucket_elems, zero->overlap_comm ? "true" : "false");
    if (zero->stage == 3)
        fprintf(out,
                ",\nstage3_prefetch_bucket_size %" PRId64 ", stage3_max_live_parameters %" PRId64
                ",\nstage3_max_reuse_distance %" PRId64 ", stage3_param_persistence_threshold %" PRId64,
                zero->prefetch_bucket_elems, zero->max_live_parameters, zero->max_reuse_distance,
                zero->param_persistence_threshold);
    print_own_knobs(out, zero);
    static const char *const recompute[] = {"", ",\nmodel.recompute full", ",\nmodel.recompute attention"};
    fputs(recompute[zero->recompute], out);
    if (zero->recompute == RECOMPUTE_FULL)
        fprintf(out, ", model.checkpoint_every %d%s", zero->checkpoint_every,
                zero->cpu_checkpointing ? ", checkpoints in the host tier" : "");
    fputc('\n', out);
}

/* DeepSpeed's default sizes are meant for billions of parameters: a small model never lets anything go. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero)
{
    if (zero->stage == 3 && zero->max_reuse_distance >= 2 * model->elems)
        fprintf(out,
                "%snothing is released, because stage3_max_reuse_distance (%" PRId64
                ") is longer than the whole step\n",
                prefix, zero->max_reuse_distance);
    if (zero->stage == 3 && persistent_from(model, zero, model->unit_count - 2) == 0)
        fprintf(
            out,
            "%sblocks stay gathered, because no tensor of theirs is over stage3_param_persistence_threshold (%" PRId64
            ")\n",
            prefix, zero->param_persistence_threshold);
    if (zero->stage >= 1 && zero->reduce_bucket_elems >= model->elems)
        fprintf(out, "%sone bucket holds all gradients, because reduce_bucket_size (%" PRId64 ") is not below Psi\n",
                prefix, zero->reduce_bucket_elems);
}

int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = checked_setup(&setup, config, err);
    if (status) return status;
    print_header(out, &setup, config);
    plan_notes(out, "note: ", &setup.model, &config->zero);
    plan_print_memory(out, &setup);
    print_traffic(out, &setup);
    print_units(out, &setup);
    if (with_schedule) {
        fputs("\nOperations of a step\n", out);
        schedule_print(out, &setup.schedule, &setup.model);
    }
    setup_release(&setup);
    return STATUS_OK;
}

int plan_print_json(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = checked_setup(&setup, config, err);
    if (status) return status;
    const struct footprint *footprint = &setup.footprint;
    struct traffic_sum sums[TRAFFIC_KINDS];
    const char *comma = "";
    traffic_of(sums, &setup.schedule, &setup.model, 0);
    fprintf(out,
            "{\"model\":{\"name\":\"%s\",\"parameters\":%" PRId64
            "},\"ranks\":%d,\"stage\":%d,\"precision\":\"%s\",\"memory\":[",
            config->model.name, setup.model.elems, setup.schedule.ranks, setup.schedule.stage,
            dtype_name(config->dtype));
    for (int c = 0; c < CATEGORIES; c++) {
        if (footprint->category[TIER_DEVICE][c].peak_bytes == 0) continue;
        fprintf(out,
                "%s{\"tier\":\"device\",\"category\":\"%s\",\"resting_bytes\":%" PRId64 ",\"peak_bytes\":%" PRId64
                ",\"at_peak_bytes\":%" PRId64 ",\"reserved_bytes\":%" PRIu64 "}",
                comma, category_name((enum category)c), footprint->category[TIER_DEVICE][c].resting_bytes,
                footprint->category[TIER_DEVICE][c].peak_bytes, footprint->category[TIER_DEVICE][c].at_peak_bytes,
                footprint->category[TIER_DEVICE][c].extent_bytes);
        comma = ",";
    }
    fprintf(out, "],\"peak_bytes\":%" PRId64 ",\"resting_bytes\":%" PRId64 ",\"traffic\":[",
            footprint->peak_bytes[TIER_DEVICE], footprint->resting_bytes[TIER_DEVICE]);
    comma = "";
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (sums[kind].count == 0) continue;
        fprintf(out, "%s{\"kind\":\"%s\",\"count\":%d,\"sent_bytes\":%" PRId64 "}", comma,
                traffic_name((enum traffic)kind), sums[kind].count, sums[kind].sent_bytes);
        comma = ",";
    }
    struct flops flops;
    flops_of(&flops, &setup.schedule, &setup.model);
    fprintf(out, "],\"flops\":{\"forward\":%" PRId64 ",\"backward\":%" PRId64 ",\"recomputed\":%" PRId64 "}",
            flops.forward, flops.backward, flops.recomputed);
    fprintf(out, ",\"theory_bytes\":%.0f", traffic_theory_bytes(&setup.model, &setup.schedule));
    if (with_schedule) {
        char *json = schedule_to_json(&setup.schedule);
        if (json) fprintf(out, ",\"schedule\":%s", json);
        free(json);
    }
    fputs("}\n", out);
    setup_release(&setup);
    return STATUS_OK;
}
