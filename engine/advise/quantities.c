/* The quantities of a setup: what conventions' formulas are made of (quantities.def), and our own figures beside them. */
#include <math.h>
#include <string.h>

#include "engine/advise/conventions.h"
#include "engine/base/nearest.h"
#include "engine/config/number.h"

const struct quantity_row quantity_table[QUANTITY_COUNT] = {
#define QUANTITY(name, least, most, meaning, value, formula) {#name, meaning, formula, least, most},
#include "engine/advise/quantities.def"
#undef QUANTITY
};

/* ---- our own figures ---- */

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Lasting buffers of a tier (TIERS: of all) whose names begin so, of elements of so many bytes (0: of any). */
static double kept(const struct setup *setup, enum tier tier, const char *name, int bytes)
{
    const struct schedule *schedule = &setup->schedule;
    double sum = 0;
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if ((tier == TIERS || buffer->tier == tier) && begins(buffer->name, name) &&
            (!bytes || dtype_bytes(buffer->dtype) == bytes))
            sum += (double)buffer->bytes;
    }
    return sum;
}

/* Activations that the forward of a micro-step leaves for its backward, on the device, whose buffers' names begin so. */
static double saved(const struct setup *setup, const char *name)
{
    const struct schedule *schedule = &setup->schedule;
    double sum = 0;
    for (int i = 0; i < schedule->op_count && schedule->ops[i].kind != OP_BACKWARD; i++) {
        const struct op *op = &schedule->ops[i];
        const int *take = schedule->effects + op->first_take, *give = schedule->effects + op->first_give;
        for (int e = 0; e < op->take_count + op->give_count; e++) {
            const bool takes = e < op->take_count;
            const struct buffer *buffer = &schedule->buffers[takes ? take[e] : give[e - op->take_count]];
            if (buffer->category == CATEGORY_ACTIVATIONS && buffer->tier == TIER_DEVICE && begins(buffer->name, name))
                sum += takes ? (double)buffer->bytes : -(double)buffer->bytes;
        }
    }
    return sum;
}

/* Bytes that a rank sends in operations of a kind and phase (PHASES: in any), mean over the ranks; across: to other nodes only,
 * else within its node only. */
static double sent(const struct setup *setup, int per_node, enum op_kind kind, enum phase phase, bool across)
{
    const struct schedule *schedule = &setup->schedule;
    double by_group[GROUPS] = {0}, sum = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind == kind && (phase == PHASES || op->phase == phase)) by_group[op->group] += (double)op->sent_bytes;
    }
    for (enum group group = 0; group < GROUPS; group++) {
        const double inter = by_group[group] > 0 ? traffic_inter_share(schedule, group, per_node) : 0;
        sum += by_group[group] * (across ? inter : 1 - inter);
    }
    return sum;
}

/* Bytes of gradients that rank 0 sends in reductions, to other nodes or within its own. Operations of int4 blocks count the rank
 * that has most; the traffic of one rank is exact. */
static double reduced(const struct setup *setup, int per_node, bool across)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    traffic_of(sums, &setup->schedule, &setup->model, 0, per_node);
    const int64_t outside = sums[TRAFFIC_REDUCE_SCATTER].across_bytes + sums[TRAFFIC_ALL_REDUCE].across_bytes;
    const int64_t all = sums[TRAFFIC_REDUCE_SCATTER].sent_bytes + sums[TRAFFIC_ALL_REDUCE].sent_bytes;
    return (double)(across ? outside : all - outside);
}

/* Bytes of gradients that a rank sends to replicas of its shard, mean over the ranks. */
static double sent_to_replicas(const struct schedule *schedule)
{
    double sum = 0;
    for (int i = 0; i < schedule->op_count; i++)
        if (schedule->ops[i].group == GROUP_REPLICAS && schedule->ops[i].kind != OP_REFRESH)
            sum += (double)schedule->ops[i].sent_bytes;
    return sum;
}

/* Operations of a kind: of the output layer, or of all else. */
static double flops(const struct setup *setup, enum op_kind kind, bool output)
{
    double sum = 0;
    for (int i = 0; i < setup->schedule.op_count; i++) {
        const struct op *op = &setup->schedule.ops[i];
        if (op->kind == kind && (op->use && op->use->repeat == REPEAT_TIED) == output)
            sum += op_flops(&setup->schedule, &setup->model, op);
    }
    return sum;
}

/* Elements of tensors, over the model: of matrices and of vectors in blocks and outside of them; of a rank, where each tensor is
 * padded to a multiple of `most` ranks; of tensors of at most `most`; of DeepSpeed's largest layer, a matrix with its bias. */
enum tensors { BLOCK_MATRICES, BLOCK_VECTORS, EMBEDDINGS, END_VECTORS, RANKS_PARTS, SMALL, LARGEST };
static double elems(const struct model *model, enum tensors which, int64_t most)
{
    double sum = 0, largest = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int t = 0; t < model->units[u].tensor_count; t++) {
            const struct tensor *tensor = &model->units[u].tensors[t];
            const bool block = model->units[u].block >= 0, matrix = tensor->columns > 1;
            const enum tensors kind = (block ? BLOCK_MATRICES : EMBEDDINGS) + !matrix;
            if (which == kind || (which == SMALL && tensor->elems <= most)) sum += (double)tensor->elems;
            if (which == RANKS_PARTS) sum += (double)((tensor->elems + most - 1) / most);
            largest = fmax(largest, (double)(tensor->elems + (block && matrix ? tensor->rows : 0)));
        }
    return which == LARGEST ? largest : sum;
}

static double positive(double value)
{
    return value > 0 ? value : NAN;
}

/* ---- values ---- */

void quantities_of(struct quantities *quantities, const struct setup *setup, const struct config *config)
{
    const struct schedule *schedule = &setup->schedule;
    const struct model *model = &setup->model;
    const struct config_model *shape = &config->model;
    const struct config_zero *zero = &config->zero;
    const struct footprint *footprint = &setup->footprint;
    const double last_output = (double)activation_output_bytes(model, schedule->B, schedule->T); /* no layer's input */
    const int per_node = config->topology.ranks_per_node;
    const double values[QUANTITY_COUNT] = {
#define QUANTITY(name, least, most, meaning, value, formula) value,
#include "engine/advise/quantities.def"
#undef QUANTITY
    };
    *quantities = (struct quantities){0};
    memcpy(quantities->value, values, sizeof values);
}

struct lookup {
    struct quantities *quantities;
    bool within; /* the formula of a quantity */
    bool given;  /* it needs a quantity that was given */
};

static int index_of(const char *name)
{
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (strcmp(quantity_table[q].name, name) == 0) return q;
    return -1;
}

static double look_up(const char *name, void *context)
{
    struct lookup *lookup = context;
    struct quantities *quantities = lookup->quantities;
    const int q = index_of(name);
    if (q < 0) return NAN;
    if (quantities->used[q] != USED) quantities->used[q] = lookup->within ? USED_WITHIN : USED;
    lookup->given |= quantities->given[q] == GIVEN;
    if (quantities->given[q]) return quantities->value[q];
    if (!*quantity_table[q].formula) return quantities->value[q];
    struct lookup inner = {quantities, true, false};
    const double value = arithmetic_value(quantity_table[q].formula, look_up, &inner);
    lookup->given |= inner.given;
    return inner.given || isnan(quantities->value[q]) ? value : quantities->value[q];
}

double quantities_value(struct quantities *quantities, const char *formula, bool *given)
{
    struct lookup lookup = {quantities, false, false};
    const double value = arithmetic_value(formula, look_up, &lookup);
    if (given) *given = lookup.given;
    return value;
}

void quantities_numbers(struct quantities *quantities, char *text, size_t room, const char *formula)
{
    struct lookup lookup = {quantities, false, false};
    arithmetic_numbers(text, room, formula, look_up, &lookup);
}

/* ---- what is given ---- */

static int unknown(const char *name, struct error *err)
{
    const char *names[QUANTITY_COUNT];
    for (int q = 0; q < QUANTITY_COUNT; q++) names[q] = quantity_table[q].name;
    const char *nearest = nearest_name(name, names, QUANTITY_COUNT);
    if (nearest) return error_set(err, STATUS_USAGE, "--with %s: no such quantity; did you mean %s?", name, nearest);
    return error_set(err, STATUS_USAGE, "--with %s: no such quantity; zerolab plan --accounting lists them", name);
}

/* A number, one with a unit of bytes, or a formula of other quantities. */
static double read_value(const char *text, struct quantities *quantities)
{
    uint64_t bytes;
    double value = NAN;
    if (number_length(text) == strlen(text)) return sscanf(text, "%lf", &value) == 1 ? value : NAN;
    return number_bytes(text, &bytes) ? (double)bytes : quantities_value(quantities, text, NULL);
}

int quantities_give(struct quantities *quantities, const char *text, struct error *err)
{
    while (*text) {
        char name[32], value[32];
        int length = 0;
        if (sscanf(text, "%31[^=,]=%31[^,]%n", name, value, &length) != 2)
            return error_set(err, STATUS_USAGE, "--with %.40s: give NAME=NUMBER, several with commas: tp=8,pp=4", text);
        const int q = index_of(name);
        if (q < 0 || !*quantity_table[q].meaning) return unknown(name, err);
        const double number = read_value(value, quantities);
        if (!(number >= quantity_table[q].least && number <= quantity_table[q].most))
            return error_set(err, STATUS_USAGE, "--with %s=%s: give a number from %g to %g, such as 8, 1e12 or 32GB",
                             name, value, quantity_table[q].least, quantity_table[q].most);
        if (number != quantities->value[q]) quantities->given[q] = GIVEN;
        else if (!quantities->given[q]) quantities->given[q] = GIVEN_AS_IS;
        quantities->value[q] = number;
        text += length;
        text += *text == ',';
    }
    return STATUS_OK;
}
