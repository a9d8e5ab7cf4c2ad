/* The memory that a schedule takes, for `zerolab plan`: by category, against the papers' formulas, and buffer by buffer. */
#include <inttypes.h>
#include <string.h>

#include "engine/advise/print.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/plan/footprint.h"
#include "engine/plan/formula.h"

static int64_t padded_elems(const struct setup *setup)
{
    int64_t padded = 0;
    for (int u = 0; u < setup->model.unit_count; u++)
        padded += shard_elems(setup->model.units[u].elems, setup->schedule.ranks) * setup->schedule.ranks;
    return padded;
}

static void print_budget(FILE *out, uint64_t peak_bytes, uint64_t budget_bytes)
{
    char a[32], b[32];
    if (!budget_bytes) {
        fputc('\n', out);
    } else if (peak_bytes <= budget_bytes) {
        fprintf(out, ", %.0f %% of the budget of %s\n", 100 * (double)peak_bytes / (double)budget_bytes,
                grouped(a, (int64_t)budget_bytes));
    } else {
        fprintf(out, ",\n  and does not fit: %s more than the budget of %s; see --fit\n",
                grouped(a, (int64_t)(peak_bytes - budget_bytes)), grouped(b, (int64_t)budget_bytes));
    }
}

/* The last two columns are the fragmentation meter: where a category's addresses end, and how much further that is than
 * what is live at most. Addresses are fixed before the run, so what is printed is what happens. */
static void print_tier(FILE *out, const struct setup *setup, enum tier tier, uint64_t budget_bytes)
{
    const struct footprint *footprint = &setup->footprint;
    const int op = footprint->peak_op[tier];
    const struct op *ops = setup->schedule.ops;
    char a[32], b[32], c[32], d[32];
    int64_t reserved = 0;
    fprintf(out, "\nMemory of each rank, %s tier, bytes\n", tier_name(tier));
    fprintf(out, "  %-14s %13s %13s %13s %13s %6s\n", "category", "between steps", "own peak", "at the peak",
            "addresses to", "/ peak");
    for (int k = 0; k < CATEGORIES; k++) {
        const int64_t peak = footprint->category[tier][k].peak_bytes,
                      end = (int64_t)footprint->category[tier][k].extent_bytes;
        if (peak == 0) continue;
        reserved += end;
        fprintf(out, "  %c %-12s %13s %13s %13s %13s %6.2f\n", category_letter((enum category)k),
                category_name((enum category)k), grouped(a, footprint->category[tier][k].resting_bytes),
                grouped(b, peak), grouped(c, footprint->category[tier][k].at_peak_bytes), grouped(d, end),
                (double)end / (double)peak);
    }
    fprintf(out, "  %-14s %13s %13s %13s %13s %6.2f\n", "all", grouped(a, footprint->resting_bytes[tier]), "",
            grouped(c, footprint->peak_bytes[tier]), grouped(d, reserved),
            (double)reserved / (double)footprint->peak_bytes[tier]);
    if (op < 0) fputs("  as full between steps as within one", out);
    else fprintf(out, "  the peak is at operation %d (%s)", op, op_name(ops[op].kind, ops[op].use));
    print_budget(out, (uint64_t)footprint->peak_bytes[tier], budget_bytes);
}

/* ---- activations ---- */

static void print_activation_line(FILE *out, const char *what, const char *formula, int64_t bytes, int layers)
{
    char a[32], b[32];
    fprintf(out, "  %-42s %-10s %12s", what, formula, grouped(a, bytes));
    if (bytes % layers == 0) fprintf(out, " %11s\n", grouped(b, bytes / layers));
    else fprintf(out, " %11.1f\n", (double)bytes / layers);
}

/* The engine's attention recomputation has a name like Megatron's selective one, and is another. */
static void print_selective(FILE *out, const struct setup *setup)
{
    struct config_zero knobs = setup->schedule.knobs;
    struct activation_terms terms;
    char a[32], b[32], text[400];
    if (knobs.recompute != RECOMPUTE_ATTENTION) return;
    knobs.recompute = RECOMPUTE_NONE;
    activation_terms_of(&terms, &setup->model, &knobs, setup->schedule.B, setup->schedule.T);
    snprintf(text, sizeof text,
             "model.recompute attention is not Megatron's selective recomputation: it makes the whole attention half "
             "again. Selective makes only the scores again, which the kernels here never keep. It would keep 34 s b h "
             "= %s bytes by the paper, and here as much as model.recompute none: %s.",
             grouped(a, terms.flash), grouped(b, terms.kept));
    words_print(out, 0, 0, text);
}

static void print_activations(FILE *out, const struct setup *setup)
{
    const int L = setup->model.shape.layers;
    struct activation_terms terms;
    activation_terms_of(&terms, &setup->model, &setup->schedule.knobs, setup->schedule.B, setup->schedule.T);
    fprintf(out,
            "\nActivations of the blocks, kept from forward to backward (s = T, b = B, h = C)\n  %-53s %12s %11s\n", "",
            "all blocks", "a block");
    print_activation_line(out, "Korthikanti et al. 2022: sbh(34 + 5as/h)", "16 bits", terms.stored, L);
    print_activation_line(out, "... without the attention matrix", "34 s b h", terms.flash, L);
    print_activation_line(out, "... inputs of layers only", "2 s b h", terms.inputs, L);
    print_activation_line(out, "here", "", terms.kept, L);
    fputs("from the first to the last, term by term\n", out);
    for (int t = 0; t < terms.count; t++)
        print_activation_line(out, terms.difference[t].what, terms.difference[t].formula, terms.difference[t].bytes, L);
    print_selective(out, setup);
}

/* What recomputation costs: the ratio of operations is the ratio of times where products take the time. */
static void print_flops(FILE *out, const struct setup *setup)
{
    struct flops flops;
    flops_of(&flops, &setup->schedule, &setup->model);
    const double once = flops.forward + flops.backward;
    fprintf(out, "\nProducts of a rank in a step, GFLOP: forward %.3f, backward %.3f", 1e-9 * flops.forward,
            1e-9 * flops.backward);
    if (flops.recomputed > 0)
        fprintf(out, ",\n  made again %.3f: +%.1f %%", 1e-9 * flops.recomputed, 100 * flops.recomputed / once);
    fputc('\n', out);
}

static int64_t model_state_bytes(const struct footprint *footprint, enum tier tier)
{
    return footprint->category[tier][CATEGORY_PARAMETERS].peak_bytes +
           footprint->category[tier][CATEGORY_GRADIENTS].peak_bytes +
           footprint->category[tier][CATEGORY_OPTIMIZER].peak_bytes;
}

/* What offload keeps besides: at stage 1 the own gradients a second time, in fp32 training master weights of their own. */
static int64_t kept_twice_bytes(const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    int64_t bytes = 0;
    for (int u = 0; u < setup->model.unit_count; u++) {
        const struct unit_layout *layout = &schedule->layout[u];
        if (layout->whole >= 0 && layout->gradient != layout->whole) bytes += schedule->buffers[layout->gradient].bytes;
        if (setup->model.dtype == DTYPE_F32 && layout->master != layout->parameters)
            bytes += schedule->buffers[layout->master].bytes;
    }
    return bytes;
}

/* Of quantized gradients, which the paper's states do not have. */
static int64_t errors_bytes(const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    int64_t bytes = 0;
    for (int u = 0; u < setup->model.unit_count; u++)
        if (schedule->layout[u].errors >= 0) bytes += schedule->buffers[schedule->layout[u].errors].bytes;
    return bytes;
}

/* ZeRO section 5: parameters p, gradients g, optimizer k bytes an element; a stage divides some of them by N, or by the ranks of a
 * shard group, S. */
static void print_model_states(FILE *out, const struct setup *setup)
{
    const int shards = schedule_shard_ranks(&setup->schedule), stage = setup->schedule.stage, e = dtype_bytes(setup->model.dtype),
              g = dtype_bytes(setup->model.gradient);
    const int k = 4 * optimizer_table[setup->model.optimizer].states + (setup->model.dtype == DTYPE_F32 ? 0 : 4);
    const int whole[] = {e + g + k, e + g, e, 0};
    const int sharded = e + g + k - whole[stage];
    const int64_t psi = setup->model.elems, padding = padded_elems(setup) - psi;
    const char *by = shards < setup->schedule.ranks ? "S" : "N";
    char a[32], b[32], c[32], formula[64];
    if (stage == 0) snprintf(formula, sizeof formula, "%d Psi", whole[0]);
    else if (stage == 3) snprintf(formula, sizeof formula, "%d Psi/%s", sharded, by);
    else snprintf(formula, sizeof formula, "%d Psi + %d Psi/%s", whole[stage], sharded, by);
    const int64_t paper = whole[stage] * psi + sharded * psi / shards, twice = kept_twice_bytes(setup),
                  device = model_state_bytes(&setup->footprint, TIER_DEVICE),
                  host = model_state_bytes(&setup->footprint, TIER_HOST),
                  nvme = model_state_bytes(&setup->footprint, TIER_NVME), errors = errors_bytes(setup), states = device + host + nvme - twice - errors;
    fprintf(out, "\nModel states (P + G + O): %s bytes = %s = %s,\n  and %s for padding\n", grouped(a, states), formula,
            grouped(b, paper), grouped(c, states - paper));
    if (twice)
        fprintf(out, "  and %s besides: %s\n", grouped(a, twice),
                setup->model.dtype == DTYPE_F32 ? "fp32 master weights, or own gradients, in host memory too"
                                                : "own gradients, which are in host memory too");
    if (errors) fprintf(out, "  and %s besides: errors of quantized gradients\n", grouped(a, errors));
    if (host || nvme)
        fprintf(out, "  of all these %s on the device, %s in host memory", grouped(a, device), grouped(b, host));
    if (nvme) fprintf(out, ",\n  %s on NVMe (whole pages)", grouped(c, nvme));
    if (host || nvme) fputc('\n', out);
    fprintf(out, "  padding: %s elements, so that every unit cuts into %d parts of a multiple of %d\n",
            grouped(a, padding), setup->schedule.ranks, SHARD_ALIGN_ELEMS);
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
    kinds[*count] = (struct kind){.first = buffer, .least = buffer->bytes, .taken = "", .given = ""};
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
            kind->taken = op_name(op->kind, op->use);
        }
        for (int g = 0; g < op->give_count; g++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_give + g]];
            struct kind *kind = kind_of(kinds, &count, buffer);
            kind->live--;
            kind->live_bytes -= buffer->bytes;
            kind->given = op_name(op->kind, op->use);
        }
    }
    return count;
}

static void print_buffers(FILE *out, const struct setup *setup)
{
    struct kind kinds[32];
    int count = collect_kinds(&setup->schedule, kinds);
    char a[32], b[32];
    fprintf(out, "\nBuffers of this stage\n  %-23s %4s %4s %13s %13s %s\n", "", "all", "live", "largest", "live, bytes",
            "from-to");
    for (int k = 0; k < count; k++) {
        const struct kind *kind = &kinds[k];
        char life[48];
        if (*kind->taken) snprintf(life, sizeof life, "%s-%s", kind->taken, kind->given);
        else snprintf(life, sizeof life, "always there");
        fprintf(out, "  %c %-21s %4d %4d %13s %13s %s\n", category_letter(kind->first->category), kind->first->name,
                kind->count, kind->most_live, grouped(a, kind->most), grouped(b, kind->most_bytes), life);
    }
    fputs("their sizes (N = B T rows of a micro-batch, e bytes an element, C hidden,\nV vocabulary", out);
    if (formula_general(&setup->model))
        fputs(", K width of keys, M of the MLP, G of its gate,\ns statistics of a norm", out);
    fputs(")\n", out);
    for (int k = 0; k < count; k++) {
        const struct formula *formula = formula_of(kinds[k].first->name);
        if (!formula) continue;
        const char *bytes = formula_bytes(formula, &setup->model), *between = bytes[0] && formula->note[0] ? ": " : "";
        char text[200];
        snprintf(text, sizeof text, "%s%s%s", bytes, between, formula->note);
        words_print(out, fprintf(out, "  %-22s ", formula->buffer), 25, text);
    }
}

void plan_print_memory(FILE *out, const struct setup *setup, const struct config *config)
{
    for (int tier = 0; tier < TIERS; tier++)
        if (setup->footprint.peak_bytes[tier]) print_tier(out, setup, (enum tier)tier, config->budget_bytes[tier]);
    print_model_states(out, setup);
    print_activations(out, setup);
    print_flops(out, setup);
    print_buffers(out, setup);
}
