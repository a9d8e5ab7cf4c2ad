#include "engine/advise/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/plan/checker.h"
#include "engine/plan/footprint.h"
#include "engine/plan/paced.h"
#include "engine/plan/schedule_io.h"

int plan_checked_setup(struct setup *setup, const struct config *config, struct error *err)
{
    int status = setup_init(setup, config, err);
    if (status) return status;
    status = schedule_check(&setup->schedule, &setup->model, err);
    if (status) setup_release(setup);
    return status;
}

/* ---- traffic ---- */

const struct config_link *plan_pace_of(const struct config *config, enum traffic kind)
{
    const int per_node = config->topology.ranks_per_node;
    const bool known = traffic_is_copy(kind) || per_node == 0 || per_node == config->topology.ranks;
    const struct config_link *pace = &config->topology.links[traffic_link(kind)];
    return known && (pace->bandwidth_bytes_per_s > 0 || pace->latency_s > 0) ? pace : NULL;
}

static void print_traffic_row(FILE *out, const struct traffic_sum *sum, enum traffic kind, const struct config *config)
{
    const struct config_link *pace = plan_pace_of(config, kind);
    char a[32];
    fprintf(out, "  %-16s %5d operations %16s", traffic_name(kind), sum->count, grouped(a, sum->sent_bytes));
    if (pace) fprintf(out, "  %8.3f ms at %s's pace", 1e3 * traffic_seconds(sum, pace), link_name(traffic_link(kind)));
    fputc('\n', out);
}

static void print_theory(FILE *out, const struct setup *setup, int64_t sent)
{
    const struct schedule *schedule = &setup->schedule;
    const struct volume volume = traffic_theory_volume(schedule);
    char a[32], b[32], formula[96];
    if (setup->model.wire == setup->model.dtype)
        snprintf(formula, sizeof formula, "%d x e Psi (N-1)/N", volume.gradients + volume.parameters);
    else
        snprintf(formula, sizeof formula, "(%d x %d + %d x e) Psi (N-1)/N, gradients in %s", volume.gradients,
                 dtype_bytes(setup->model.wire), volume.parameters, dtype_name(setup->model.wire));
    double theory = traffic_theory_bytes(&setup->model, schedule);
    fprintf(out, "  the paper's: %s = %s; difference %s\n", formula, grouped(a, (int64_t)(theory + 0.5)),
            grouped(b, sent - (int64_t)(theory + 0.5)));
}

/* What a rank moves between its tiers: the two ways of a link each have a lane, so that their times run beside each other. */
static void print_copies(FILE *out, const struct traffic_sum sums[TRAFFIC_KINDS], const struct config *config)
{
    bool any = false;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (!traffic_is_copy((enum traffic)kind) || sums[kind].count == 0) continue;
        if (!any) fputs("\nTraffic between the tiers of rank 0 in a step, bytes\n", out);
        any = true;
        print_traffic_row(out, &sums[kind], (enum traffic)kind, config);
    }
}

static void print_traffic(FILE *out, const struct setup *setup, const struct config *config)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    char a[32];
    const int64_t sent = setup_sent_bytes(setup, 0);
    traffic_of(sums, &setup->schedule, &setup->model, 0);
    fprintf(out, "\nTraffic from rank 0 to others in a step (bytes sent, as a ring would)\n");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (sums[kind].count && !traffic_is_copy((enum traffic)kind))
            print_traffic_row(out, &sums[kind], (enum traffic)kind, config);
    fprintf(out, "  %-16s %5s            %16s\n", "all", "", grouped(a, sent));
    print_theory(out, setup, sent);
    print_copies(out, sums, config);
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
        fprintf(out, "  %-10s %13s %8lld %13s %13s %13s\n", unit->name, grouped(a, unit->elems),
                (long long)(shard_elems(unit->elems, schedule->ranks) * schedule->ranks - unit->elems),
                grouped(b, moved[0]), grouped(c, moved[1]), grouped(d, moved[2]));
    }
    if (schedule->stage == 3)
        fprintf(out, "  (%s is used twice: embedding and output layer are tied)\n", setup->model.units[0].name);
}

/* DeepSpeed's default sizes are meant for billions of parameters: a small model never lets anything go. */
void plan_notes(FILE *out, const char *prefix, const struct model *model, const struct config_zero *zero)
{
    if (zero->stage == 3 && zero->max_reuse_distance >= 2 * model->elems)
        fprintf(out,
                "%snothing is released, because stage3_max_reuse_distance (%" PRId64
                ") is longer than the whole step\n",
                prefix, zero->max_reuse_distance);
    if (zero->stage == 3 && persistent_from(model, zero, model_block(model, model->shape.layers - 1)) == 0)
        fprintf(
            out,
            "%sblocks stay gathered, because no tensor of theirs is over stage3_param_persistence_threshold (%" PRId64
            ")\n",
            prefix, zero->param_persistence_threshold);
    if (zero->stage == 3 && model_tiled(model) &&
        persistent_from(model, zero, model_mlp(model, model->shape.layers - 1, model->mlp_tiles - 1)) == 0)
        fprintf(out,
                "%stiles of MLPs stay gathered, because no tensor of theirs is over "
                "stage3_param_persistence_threshold (%" PRId64 ")\n",
                prefix, zero->param_persistence_threshold);
    if (zero->stage >= 1 && zero->reduce_bucket_elems >= model->elems)
        fprintf(out, "%sone bucket holds all gradients, because reduce_bucket_size (%" PRId64 ") is not below Psi\n",
                prefix, zero->reduce_bucket_elems);
}

static int print_pace(FILE *out, const struct setup *setup, const struct config *config, struct error *err)
{
    const double seconds = paced_seconds(setup, config);
    if (isnan(seconds)) return error_set(err, STATUS_RUN, "no memory to follow a step");
    if (seconds > 0) fprintf(out, "\nTime of a step by pace alone (links, device, slow motion): %.4f s\n", seconds);
    return STATUS_OK;
}

int plan_print(FILE *out, const struct config *config, bool with_schedule, struct error *err)
{
    struct setup setup;
    int status = plan_checked_setup(&setup, config, err);
    if (status) return status;
    plan_print_head(out, &setup, config);
    plan_notes(out, "note: ", &setup.model, &config->zero);
    plan_print_memory(out, &setup, config);
    print_traffic(out, &setup, config);
    print_units(out, &setup);
    status = print_pace(out, &setup, config, err);
    if (!status && with_schedule) {
        fputs("\nOperations of a step\n", out);
        schedule_print(out, &setup.schedule, &setup.model);
    }
    setup_release(&setup);
    return status;
}
