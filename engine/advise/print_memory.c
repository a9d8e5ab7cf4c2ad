/* The memory that a schedule takes, for `zerolab plan`: by category, against the papers' formulas, and buffer by buffer. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/print.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/plan/footprint.h"
#include "engine/plan/formula.h"

/* ---- tiers ---- */

static void add_category(cJSON *object, const struct footprint *footprint, enum tier tier, enum category category)
{
    json_put(object, TEXT("tier", tier_name(tier)), TEXT("category", category_name(category)),
             NUMBER("resting_bytes", footprint->category[tier][category].resting_bytes),
             NUMBER("peak_bytes", footprint->category[tier][category].peak_bytes),
             NUMBER("at_peak_bytes", footprint->category[tier][category].at_peak_bytes),
             NUMBER("reserved_bytes", footprint->category[tier][category].extent_bytes),
             TEXT(".letter", ((char[2]){category_letter(category)})));
}

static void add_tier(cJSON *memory, cJSON *object, const struct setup *setup, enum tier tier, uint64_t budget_bytes)
{
    const struct footprint *footprint = &setup->footprint;
    const struct op *op = footprint->peak_op[tier] < 0 ? NULL : &setup->schedule.ops[footprint->peak_op[tier]];
    const uint64_t peak_bytes = (uint64_t)footprint->peak_bytes[tier];
    uint64_t reserved = 0;
    const char *name = op ? op_name(op->kind, op->use) : "";
    const size_t length = strcspn(name, "'"); /* the prime stands for backward */
    char text[32];
    snprintf(text, sizeof text, "%.*s%s", (int)length, name, name[length] ? " bwd" : "");
    json_put(object, TEXT("tier", tier_name(tier)), NUMBER("resting_bytes", footprint->resting_bytes[tier]),
             NUMBER("peak_bytes", peak_bytes), NUMBER_IF("budget_bytes", budget_bytes > 0, budget_bytes),
             NUMBER("peak_operation", footprint->peak_op[tier]), TEXT(".op", text),
             NUMBER_IF(".over", peak_bytes > budget_bytes, peak_bytes - budget_bytes));
    cJSON *categories = cJSON_AddArrayToObject(object, ".categories");
    for (enum category c = 0; c < CATEGORIES; c++) {
        if (!footprint->category[tier][c].peak_bytes) continue;
        add_category(json_item(memory), footprint, tier, c);
        add_category(json_item(categories), footprint, tier, c);
        reserved += footprint->category[tier][c].extent_bytes;
    }
    json_put(object, NUMBER(".reserved", reserved));
}

static void add_tiers(cJSON *facts, const struct setup *setup, const struct config *config)
{
    const struct footprint *footprint = &setup->footprint;
    cJSON *memory = cJSON_AddArrayToObject(facts, "memory"), *tiers = cJSON_AddArrayToObject(facts, "tiers");
    for (enum tier tier = 0; tier < TIERS; tier++)
        if (footprint->peak_bytes[tier]) add_tier(memory, json_item(tiers), setup, tier, config->budget_bytes[tier]);
    json_put(facts, NUMBER("peak_bytes", footprint->peak_bytes[TIER_DEVICE]),
             NUMBER("resting_bytes", footprint->resting_bytes[TIER_DEVICE]));
}

/* ---- model states ---- */

static int64_t padded_elems(const struct setup *setup)
{
    int64_t padded = 0;
    for (int u = 0; u < setup->model.unit_count; u++)
        padded += schedule_padded_elems(&setup->schedule, &setup->model, u);
    return padded;
}

static int64_t model_state_bytes(const struct footprint *footprint, enum tier tier)
{
    return footprint->category[tier][CATEGORY_PARAMETERS].peak_bytes +
           footprint->category[tier][CATEGORY_GRADIENTS].peak_bytes +
           footprint->category[tier][CATEGORY_OPTIMIZER].peak_bytes;
}

/* What the paper's states do not have. twice: at stage 1 offload keeps the own gradients a second time, in fp32 training
 * master weights of their own. errors: of quantized gradients. */
static void sum_besides(int64_t *twice, int64_t *errors, const struct setup *setup)
{
    const struct buffer *buffers = setup->schedule.buffers;
    *twice = *errors = 0;
    for (int u = 0; u < setup->model.unit_count; u++) {
        const struct unit_layout *layout = &setup->schedule.layout[u];
        const bool own_master = setup->model.dtype == DTYPE_F32 && layout->master != layout->parameters;
        if (layout->whole >= 0 && layout->gradient != layout->whole) *twice += buffers[layout->gradient].bytes;
        if (own_master) *twice += buffers[layout->master].bytes;
        if (layout->errors >= 0) *errors += buffers[layout->errors].bytes;
    }
}

/* ZeRO section 5: parameters p, gradients g, optimizer k bytes an element; a stage divides some of them by N, or by the ranks of a
 * shard group, S. */
static void add_model_states(cJSON *facts, const struct setup *setup)
{
    const int shards = schedule_shard_ranks(&setup->schedule), stage = setup->schedule.stage, e = dtype_bytes(setup->model.dtype),
              g = dtype_bytes(setup->model.gradient);
    const int k = 4 * optimizer_table[setup->model.optimizer].states + (setup->model.dtype == DTYPE_F32 ? 0 : 4);
    const int whole[] = {e + g + k, e + g, e, 0};
    const int sharded = e + g + k - whole[stage];
    const int64_t psi = setup->model.elems;
    const char *by = shards < setup->schedule.ranks ? "S" : "N";
    char formula[64];
    if (stage == 0) snprintf(formula, sizeof formula, "%d Psi", whole[0]);
    else if (stage == 3) snprintf(formula, sizeof formula, "%d Psi/%s", sharded, by);
    else snprintf(formula, sizeof formula, "%d Psi + %d Psi/%s", whole[stage], sharded, by);
    int64_t twice, errors;
    sum_besides(&twice, &errors, setup);
    const int64_t paper = whole[stage] * psi + sharded * psi / shards,
                  device = model_state_bytes(&setup->footprint, TIER_DEVICE),
                  host = model_state_bytes(&setup->footprint, TIER_HOST),
                  nvme = model_state_bytes(&setup->footprint, TIER_NVME),
                  states = device + host + nvme - twice - errors;
    json_put(cJSON_AddObjectToObject(facts, ".states"), NUMBER("bytes", states), TEXT("formula", formula), NUMBER("paper", paper),
             NUMBER("padding", states - paper), NUMBER("twice", twice), TRUTH("fp32", setup->model.dtype == DTYPE_F32),
             NUMBER("errors", errors), TRUTH("offloaded", host || nvme), NUMBER("device", device), NUMBER("host", host),
             NUMBER("nvme", nvme), NUMBER("padding_elems", padded_elems(setup) - psi), NUMBER("align", SHARD_ALIGN_ELEMS));
}

/* ---- activations ---- */

static void add_activation(cJSON *list, const char *what, const char *formula, int64_t bytes, int layers)
{
    char block[32];
    if (bytes % layers == 0) grouped(block, bytes / layers);
    else snprintf(block, sizeof block, "%.1f", (double)bytes / layers);
    json_put(json_item(list), TEXT("what", what), TEXT("formula", formula), NUMBER("bytes", bytes), TEXT("block", block));
}

/* The engine's attention recomputation has a name like Megatron's selective one, and is another. */
static void add_selective(cJSON *facts, const struct setup *setup)
{
    struct config_zero knobs = setup->schedule.knobs;
    struct activation_terms terms;
    if (knobs.recompute != RECOMPUTE_ATTENTION) return;
    knobs.recompute = RECOMPUTE_NONE;
    activation_terms_of(&terms, &setup->model, &knobs, setup->schedule.B, setup->schedule.T);
    json_put(cJSON_AddObjectToObject(facts, ".selective"), NUMBER("paper", terms.flash), NUMBER("here", terms.kept));
}

static void add_activations(cJSON *facts, const struct setup *setup)
{
    const int L = setup->model.shape.layers;
    struct activation_terms terms;
    activation_terms_of(&terms, &setup->model, &setup->schedule.knobs, setup->schedule.B, setup->schedule.T);
    cJSON *list = cJSON_AddArrayToObject(facts, ".activations"), *between = cJSON_AddArrayToObject(facts, ".terms");
    add_activation(list, "Korthikanti et al. 2022: sbh(34 + 5as/h)", "16 bits", terms.stored, L);
    add_activation(list, "... without the attention matrix", "34 s b h", terms.flash, L);
    add_activation(list, "... inputs of layers only", "2 s b h", terms.inputs, L);
    add_activation(list, "here", "", terms.kept, L);
    for (int t = 0; t < terms.count; t++)
        add_activation(between, terms.difference[t].what, terms.difference[t].formula, terms.difference[t].bytes, L);
    add_selective(facts, setup);
}

/* ---- buffers ---- */

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
        for (int e = 0; e < op->take_count + op->give_count; e++) {
            const bool takes = e < op->take_count;
            const int effect = takes ? op->first_take + e : op->first_give + e - op->take_count;
            const struct buffer *buffer = &schedule->buffers[schedule->effects[effect]];
            struct kind *kind = kind_of(kinds, &count, buffer);
            *(takes ? &kind->taken : &kind->given) = op_name(op->kind, op->use);
            if (takes) kind_take(kind, buffer->bytes);
            else kind->live--, kind->live_bytes -= buffer->bytes;
        }
    }
    return count;
}

static void add_kind(cJSON *object, const struct kind *kind, const struct model *model)
{
    const struct formula *formula = formula_of(kind->first->name);
    const char *bytes = formula ? formula_bytes(formula, model) : "";
    char note[128] = "";
    if (formula && formula->each) snprintf(note, sizeof note, "%c x ", formula->each);
    if (formula) text_append(note, sizeof note, "%s", formula->note);
    json_put(object, TEXT("letter", ((char[2]){category_letter(kind->first->category)})), TEXT("name", kind->first->name),
             NUMBER("count", kind->count), NUMBER("live", kind->most_live), NUMBER("largest", kind->most),
             NUMBER("live_bytes", kind->most_bytes), TEXT("taken", kind->taken), TEXT("given", kind->given),
             TRUTH("formula", formula != NULL), TEXT("bytes", bytes), TEXT("note", note));
}

static void add_buffers(cJSON *facts, const struct setup *setup)
{
    struct kind kinds[32];
    const int count = collect_kinds(&setup->schedule, kinds);
    cJSON *list = cJSON_AddArrayToObject(facts, ".buffers");
    for (int k = 0; k < count; k++) add_kind(json_item(list), &kinds[k], &setup->model);
    json_put(facts, TRUTH(".general", formula_general(&setup->model)));
}

/* ---- all ---- */

void plan_add_memory(cJSON *facts, const struct setup *setup, const struct config *config)
{
    add_tiers(facts, setup, config);
    add_model_states(facts, setup);
    add_activations(facts, setup);
    add_buffers(facts, setup);
}

/* The last two columns of a tier are the fragmentation meter: where a category's addresses end, and how much further that is than
 * what is live at most. Addresses are fixed before the run, so what is printed is what happens. */
#define ACTIVATION "  {what:-42} {formula:-10|} {bytes:12,} {block:11}\n"
const char plan_memory_page[] =
    "{#tiers}\nMemory of each rank, {tier} tier, bytes\n"
    "  category       between steps      own peak   at the peak     reserved / peak\n"
    "{#.categories}  {.letter} {category:-12} {resting_bytes:13,} {peak_bytes:13,} {at_peak_bytes:13,} {reserved_bytes:13,} "
    "{reserved_bytes/peak_bytes:6.2}\n{/}"
    "  all            {resting_bytes:13,}               {peak_bytes:13,} {.reserved:13,} {.reserved/peak_bytes:6.2}\n"
    "{!.op}  as full between steps as within one{/}{?.op}  the peak is at operation {peak_operation} ({.op}){/}"
    "{?budget_bytes}{?.over},\n  and does not fit: {.over:,} more than the budget of {budget_bytes:,}; see --fit{/}"
    "{!.over}, {peak_bytes/budget_bytes:%} of the budget of {budget_bytes:,}{/}{/}\n{/}"

    "{#.states}\nModel states (P + G + O): {bytes:,} bytes = {formula} = {paper:,},\n  and {padding:,} for padding\n"
    "{+twice}  and {twice:,} besides: {?fp32}fp32 master weights, or own gradients, in host memory too{/}"
    "{!fp32}own gradients, which are in host memory too{/}\n{/}"
    "{+errors}  and {errors:,} besides: errors of quantized gradients\n{/}"
    "{?offloaded}  of all these {device:,} on the device, {host:,} in host memory{+nvme},\n  {nvme:,} on NVMe (whole pages){/}\n{/}"
    "  padding: {padding_elems:,} elements; a unit's {ranks} shards are equal multiples of {align} elements\n{/}"

    "\nActivations of the blocks, kept from forward to backward (s = T, b = B, h = C)\n"
    "                                                          all blocks     a block\n"
    "{#.activations}" ACTIVATION "{/}from Korthikanti to here, term by term\n{#.terms}" ACTIVATION "{/}"
    "{#.selective}{~}model.recompute attention is not Megatron's selective recomputation: it makes the whole attention half again. "
    "Selective makes only the scores again, which the kernels here never keep. It would keep 34 s b h = {paper:,} bytes by the paper, "
    "and here as much as model.recompute none: {here:,}.{/}{/}"

    "{#flops}\nMatmul GFLOP of a rank in a step: forward {forward:.3B}, backward {backward:.3B}"
    "{+recomputed},\n  recomputed {recomputed:.3B}: {recomputed/.once:+.1%}{/}\n{/}"

    "\nBuffers of this stage\n                           all live       largest   live, bytes from-to\n"
    "{#.buffers}  {letter} {name:-21} {count:4} {live:4} {largest:13,} {live_bytes:13,} "
    "{?taken}{taken}-{given|}{/}{!taken}always there{/}\n{/}"
    "their sizes (N = B T rows of a micro-batch, e bytes an element, C hidden,\nV vocabulary"
    "{?.general}, K width of keys, M of the MLP, G of its gate,\ns statistics of a norm{/})\n"
    "{#.buffers}{?formula}  {name:-22} {~:25}{bytes|}{?bytes}{?note}: {/}{/}{note|}{/}{/}{/}";
