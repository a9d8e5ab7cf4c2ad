#include "engine/plan/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/plan/checker.h"
#include "engine/plan/footprint.h"
#include "engine/plan/schedule_io.h"

struct setup {
    struct model model;
    struct schedule schedule;
    struct footprint footprint;
};

static int setup_init(struct setup *setup, const struct config *config, struct error *err)
{
    int status = model_of(&setup->model, config, err);
    if (status) return status;
    struct schedule_input input = {&setup->model,
                                   &config->zero,
                                   PURPOSE_TRAIN,
                                   config->topology.ranks,
                                   config->accumulation_steps,
                                   config->micro_batch_size,
                                   config->data.sequence_length,
                                   config->topology.threads_per_rank};
    status = schedule_build(&setup->schedule, &input, err);
    if (status == STATUS_OK) status = schedule_check(&setup->schedule, &setup->model, err);
    if (status) model_release(&setup->model);
    else footprint_of(&setup->footprint, &setup->schedule);
    return status;
}

static void setup_release(struct setup *setup)
{
    schedule_release(&setup->schedule);
    model_release(&setup->model);
}

static int64_t padded_elems(const struct setup *setup)
{
    int64_t padded = 0;
    for (int u = 0; u < setup->model.unit_count; u++)
        padded += shard_elems(setup->model.units[u].elems, setup->schedule.ranks) * setup->schedule.ranks;
    return padded;
}

/* ---- memory ---- */

static void print_categories(FILE *out, const struct setup *setup)
{
    char a[32], b[32], c[32];
    const struct footprint *footprint = &setup->footprint;
    fprintf(out, "\nMemory of each rank, device tier, bytes\n");
    fprintf(out, "  %-14s %16s %16s %16s\n", "category", "between steps", "own peak", "at the peak");
    for (int k = 0; k < CATEGORIES; k++) {
        if (footprint->category[TIER_DEVICE][k].peak_bytes == 0) continue;
        fprintf(out, "  %c %-12s %16s %16s %16s\n", category_letter((enum category)k), category_name((enum category)k),
                grouped(a, footprint->category[TIER_DEVICE][k].resting_bytes),
                grouped(b, footprint->category[TIER_DEVICE][k].peak_bytes),
                grouped(c, footprint->category[TIER_DEVICE][k].at_peak_bytes));
    }
    const char *where = footprint->peak_op[TIER_DEVICE] < 0
                            ? "between steps"
                            : op_name(setup->schedule.ops[footprint->peak_op[TIER_DEVICE]].kind);
    fprintf(out, "  %-14s %16s %16s %16s  at operation %d (%s)\n", "all",
            grouped(a, footprint->resting_bytes[TIER_DEVICE]), "", grouped(c, footprint->peak_bytes[TIER_DEVICE]),
            footprint->peak_op[TIER_DEVICE], where);
}

static int64_t model_state_bytes(const struct footprint *footprint)
{
    return footprint->category[TIER_DEVICE][CATEGORY_PARAMETERS].peak_bytes +
           footprint->category[TIER_DEVICE][CATEGORY_GRADIENTS].peak_bytes +
           footprint->category[TIER_DEVICE][CATEGORY_OPTIMIZER].peak_bytes;
}

/* ZeRO section 5: parameters p, gradients g, optimizer k bytes an element; a stage divides some of them by N. */
static void print_model_states(FILE *out, const struct setup *setup)
{
    const int N = setup->schedule.ranks, stage = setup->schedule.stage, e = dtype_bytes(setup->model.dtype);
    const int k = 4 * optimizer_table[setup->model.optimizer].states + (setup->model.dtype == DTYPE_F32 ? 0 : 4);
    const int whole[] = {2 * e + k, 2 * e, e, 0};
    const int sharded = 2 * e + k - whole[stage];
    const int64_t psi = setup->model.elems, padding = padded_elems(setup) - psi;
    char a[32], b[32], c[32], formula[64];
    if (stage == 0) snprintf(formula, sizeof formula, "%d Psi", whole[0]);
    else if (stage == 3) snprintf(formula, sizeof formula, "%d Psi/N", sharded);
    else snprintf(formula, sizeof formula, "%d Psi + %d Psi/N", whole[stage], sharded);
    const int64_t paper = whole[stage] * psi + sharded * psi / N, states = model_state_bytes(&setup->footprint);
    fprintf(out, "\nModel states (P + G + O): %s bytes = %s = %s, and %s for padding\n", grouped(a, states), formula,
            grouped(b, paper), grouped(c, states - paper));
    fprintf(out, "  padding: %s elements over all units, so that every unit cuts into %d shards of a multiple of %d\n",
            grouped(a, padding), N, SHARD_ALIGN_ELEMS);
}

/* What each kind of buffer is made of. N = B*T rows of one micro-batch, e = bytes of an element. */
static const struct {
    const char *name, *formula;
} formulas[] = {
    {"parameters", "e x elements of the unit, padded (stage 3: / ranks)"},
    {"small tensors", "e x elements at or under the persistence threshold"},
    {"gradient", "e x elements of the unit, padded (stages 2, 3: / ranks)"},
    {"master", "4 x elements of the unit, padded (stages 1-3: / ranks)"},
    {"moment 1", "4 x elements of the unit, padded (stages 1-3: / ranks)"},
    {"moment 2", "4 x elements of the unit, padded (stages 1-3: / ranks)"},
    {"momentum", "4 x elements of the unit, padded (stages 1-3: / ranks)"},
    {"sum of squares", "4 x elements of the unit, padded (stages 1-3: / ranks)"},
    {"tokens", "2 x 4 N: tokens and targets"},
    {"embedding out", "e N C"},
    {"block activations", "16 e N C + (4 + heads) 4 N: what backward needs"},
    {"norm activations", "e N C + 2 x 4 N"},
    {"logits", "e N V + 4 N: logits, then their gradient; losses"},
    {"residual gradient", "e N C"},
    {"scratch", "what the operation's kernels ask for"},
    {"gathered", "e x elements of the unit without its small tensors"},
    {"unreduced gradient", "e x elements of the unit, until its last bucket is reduced"},
};

static const char *formula_of(const char *name)
{
    for (size_t f = 0; f < sizeof formulas / sizeof *formulas; f++)
        if (strcmp(formulas[f].name, name) == 0) return formulas[f].formula;
    return "";
}

struct kind {
    const struct buffer *first;
    int count, live, most_live;
    int64_t least, most, live_bytes, most_bytes;
    const char *taken, *given;
};

static struct kind *kind_of(struct kind *kinds, int *count, const struct buffer *buffer)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(kinds[i].first->name, buffer->name) == 0) return &kinds[i];
    kinds[*count] = (struct kind){.first = buffer, .least = buffer->bytes, .taken = "start", .given = "end of run"};
    return &kinds[(*count)++];
}

static void kind_take(struct kind *kind, int64_t bytes)
{
    kind->live_bytes += bytes;
    if (++kind->live > kind->most_live) kind->most_live = kind->live;
    if (kind->live_bytes > kind->most_bytes) kind->most_bytes = kind->live_bytes;
}

static int collect_kinds(const struct schedule *schedule, struct kind *kinds)
{
    int count = 0;
    for (int b = 0; b < schedule->buffer_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        struct kind *kind = kind_of(kinds, &count, buffer);
        kind->count++;
        if (buffer->bytes < kind->least) kind->least = buffer->bytes;
        if (buffer->bytes > kind->most) kind->most = buffer->bytes;
        if (buffer->lasting) kind_take(kind, buffer->bytes);
    }
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_take + t]];
            struct kind *kind = kind_of(kinds, &count, buffer);
            kind_take(kind, buffer->bytes);
            kind->taken = op_name(op->kind);
        }
        for (int g = 0; g < op->give_count; g++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_give + g]];
            struct kind *kind = kind_of(kinds, &count, buffer);
            kind->live--;
            kind->live_bytes -= buffer->bytes;
            kind->given = op_name(op->kind);
        }
    }
    return count;
}

static void print_buffers(FILE *out, const struct setup *setup)
{
    struct kind kinds[32];
    int count = collect_kinds(&setup->schedule, kinds);
    char a[32], b[32];
    fprintf(out, "\nBuffers of this stage\n  %-20s %5s %4s %14s %14s  %s\n", "", "count", "live", "largest",
            "live, bytes", "from - to");
    for (int k = 0; k < count; k++) {
        const struct kind *kind = &kinds[k];
        char life[48];
        snprintf(life, sizeof life, "%s - %s", kind->taken, kind->given);
        fprintf(out, "  %c %-18s %5d %4d %14s %14s  %s\n", category_letter(kind->first->category), kind->first->name,
                kind->count, kind->most_live, grouped(a, kind->most), grouped(b, kind->most_bytes), life);
    }
    fputs("their sizes (N = B T rows of a micro-batch, e bytes an element, C hidden, V vocabulary)\n", out);
    for (int k = 0; k < count; k++)
        fprintf(out, "  %-20s %s\n", kinds[k].first->name, formula_of(kinds[k].first->name));
}

/* ---- traffic ---- */

static void print_traffic(FILE *out, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    const int N = schedule->ranks;
    int64_t sent = 0;
    struct traffic_sum sums[TRAFFIC_KINDS];
    char a[32], b[32];
    traffic_of(sums, schedule, &setup->model, 0);
    fprintf(out, "\nTraffic of rank 0 in a step (bytes sent, as a ring would)\n");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (sums[kind].count == 0) continue;
        fprintf(out, "  %-16s %5d operations %16s\n", traffic_name((enum traffic)kind), sums[kind].count,
                grouped(a, sums[kind].sent_bytes));
        sent += sums[kind].sent_bytes;
    }
    const int volumes[] = {2, 2, schedule->micro_steps + 1, 3 * schedule->micro_steps};
    double theory = traffic_theory_bytes(&setup->model, schedule->stage, N, schedule->micro_steps);
    fprintf(out, "  %-16s %5s            %16s\n", "all", "", grouped(a, sent));
    fprintf(out, "  the paper's: %d x e Psi (N-1)/N = %s; difference %s\n", volumes[schedule->stage],
            grouped(a, (int64_t)(theory + 0.5)), grouped(b, sent - (int64_t)(theory + 0.5)));
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
            for (int p = 0; p < op->piece_count; p++)
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
                ", stage3_max_reuse_distance %" PRId64 ", stage3_param_persistence_threshold %" PRId64,
                zero->prefetch_bucket_elems, zero->max_live_parameters, zero->max_reuse_distance,
                zero->param_persistence_threshold);
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
    if (zero->stage == 3 && unit_persistent_from(&model->units[1], zero->param_persistence_threshold) == 0)
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
    int status = setup_init(&setup, config, err);
    if (status) return status;
    print_header(out, &setup, config);
    plan_notes(out, "note: ", &setup.model, &config->zero);
    print_categories(out, &setup);
    print_model_states(out, &setup);
    print_buffers(out, &setup);
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
    int status = setup_init(&setup, config, err);
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
                ",\"at_peak_bytes\":%" PRId64 "}",
                comma, category_name((enum category)c), footprint->category[TIER_DEVICE][c].resting_bytes,
                footprint->category[TIER_DEVICE][c].peak_bytes, footprint->category[TIER_DEVICE][c].at_peak_bytes);
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
    fprintf(out, "],\"theory_bytes\":%.0f",
            traffic_theory_bytes(&setup.model, setup.schedule.stage, setup.schedule.ranks, setup.schedule.micro_steps));
    if (with_schedule) {
        char *json = schedule_to_json(&setup.schedule);
        if (json) fprintf(out, ",\"schedule\":%s", json);
        free(json);
    }
    fputs("}\n", out);
    setup_release(&setup);
    return STATUS_OK;
}
