/* Schedules: the checker passes every combination of knobs and catches every kind of damage; the sums are the paper's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan/checker.h"
#include "engine/plan/footprint.h"
#include "engine/plan/schedule_io.h"
#include "tests/support/effort.h"
#include "tests/support/op_uses.h"

static const struct config_model nano = {"nano", 4, 128, 4, 64, 256, .kind = KIND_GPT2},
                                 odd = {"odd", 3, 40, 4, 17, 301, .kind = KIND_GPT2};

static struct config_zero knobs_of(int stage, int64_t block)
{
    return (struct config_zero){.stage = stage,
                                .reduce_bucket_elems = block,
                                .allgather_bucket_elems = block,
                                .overlap_comm = true,
                                .prefetch_bucket_elems = block,
                                .max_live_parameters = 1000000000,
                                .model_persistence_threshold = INT64_MAX,
                                .offload_ratio = 1,
                                .max_reuse_distance = 0};
}

static struct schedule built_on(const struct model *model, const struct config_zero *knobs, enum purpose purpose,
                                int ranks, int node_ranks, int micro_steps)
{
    struct schedule schedule;
    struct error err = {0};
    struct schedule_input input = {model, knobs, purpose, ranks, micro_steps, 2, model->shape.context,
                                   1,     false, node_ranks};
    if (schedule_build(&schedule, &input, &err)) fail_msg("%s", err.text);
    return schedule;
}

static struct schedule built(const struct model *model, const struct config_zero *knobs, enum purpose purpose,
                             int ranks, int micro_steps)
{
    return built_on(model, knobs, purpose, ranks, knobs->hierarchical && ranks % 2 == 0 ? ranks / 2 : 0, micro_steps);
}

static void test_units_and_shards(void **state)
{
    (void)state;
    struct model model;
    assert_int_equal(model_init(&model, &nano, DTYPE_F32, NULL), 0);
    assert_int_equal(model.elems, 834304);
    assert_int_equal(model.unit_count, 6);
    for (int u = 0; u < model.unit_count; u++) {
        int64_t sum = 0;
        for (int t = 0; t < model.units[u].tensor_count; t++) {
            assert_int_equal(model.units[u].tensors[t].offset, sum);
            sum += model.units[u].tensors[t].elems;
        }
        assert_int_equal(sum, model.units[u].elems);
    }
    /* the tail of small tensors is a suffix, whatever the threshold */
    const struct unit *block = &model.units[1];
    assert_int_equal(unit_tail_from(block, 0, INT64_MAX), block->elems);
    assert_int_equal(unit_tail_from(block, 128, INT64_MAX), block->elems - 6 * 128);
    assert_int_equal(unit_tail_from(block, 1000000, INT64_MAX), 0);
    model_release(&model);
}

enum { SIZES = 4 };

/* FULL=1 checks all plans; otherwise a third, in which every pair of values still occurs. */
static bool is_drawn(int ranks, int size, int variant)
{
    return effort_is_full() || (ranks + size + variant) % 3 == 0;
}

/* The number of the next plan, checked or not (its knobs are drawn from it), and how many were checked. */
struct progress {
    int number, checked;
};

static void check_variants(const struct model *model, int stage, int ranks, int micro_steps, int size,
                           struct progress *at)
{
    static const int64_t sizes[SIZES] = {1000, 20000, 200000, 1000000000};
    for (int variant = 0; variant < 24; variant++, at->number++) {
        if (!is_drawn(ranks, size, variant)) continue;
        struct config_zero knobs = knobs_of(stage, sizes[size]);
        knobs.overlap_comm = variant & 1;
        knobs.prefetch_bucket_elems = variant & 2 ? sizes[size] : 0;
        knobs.max_live_parameters = variant & 4 ? 1 : 1000000000;
        knobs.max_reuse_distance = variant >= 16 ? 1000000000 : 0;
        knobs.param_persistence_threshold = variant >= 8 ? 10 * model->shape.hidden : 0;
        knobs.recompute = (enum recompute)(at->number % 3); /* all of them meet all of the others */
        knobs.checkpoint_every = 1 + at->number / 3 % 5;
        knobs.cpu_checkpointing = at->number / 2 % 2;
        knobs.keep_last_units = at->number / 5 % 4;
        knobs.no_sync = at->number / 7 % 2;
        knobs.sub_group_elems = at->number / 11 % 2 ? 1000 : INT64_MAX;
        knobs.model_persistence_threshold = at->number / 13 % 2 ? 1000 : INT64_MAX;
        knobs.offload_optimizer = stage >= 1 && at->number / 17 % 2 ? OFFLOAD_CPU : OFFLOAD_NONE;
        knobs.offload_param = stage >= 3 && at->number / 19 % 2 ? OFFLOAD_CPU : OFFLOAD_NONE;
        knobs.update_tile_elems = at->number / 23 % 2 ? 700 : UPDATE_TILE_ELEMS;
        knobs.delayed_update = knobs.offload_optimizer && at->number / 29 % 2;
        knobs.offload_ratio = at->number / 31 % 2 && !knobs.delayed_update ? 0.4 : 1;
        knobs.hierarchical = at->number / 37 % 2;
        knobs.rank_order = at->number / 41 % 2;
        for (int purpose = 0; purpose < PURPOSES; purpose++) {
            struct schedule schedule = built(model, &knobs, (enum purpose)purpose, ranks, micro_steps);
            struct error err = {0};
            if (schedule_check(&schedule, model, &err))
                fail_msg("stage %d ranks %d micro %d size %lld variant %d purpose %d: %s", stage, ranks, micro_steps,
                         (long long)sizes[size], variant, purpose, err.text);
            schedule_release(&schedule);
            at->checked++;
        }
    }
}

static void test_every_combination_passes_the_checker(void **state)
{
    (void)state;
    const struct config_model *shapes[] = {&nano, &odd};
    struct progress at = {0};
    for (int s = 0; s < 2; s++) {
        struct model model;
        assert_int_equal(model_init(&model, shapes[s], DTYPE_BF16, NULL), 0);
        for (int stage = 0; stage <= 3; stage++)
            for (int ranks = 1; ranks <= 5; ranks++)
                for (int size = 0; size < SIZES; size++) {
                    check_variants(&model, stage, ranks, 1, size, &at);
                    check_variants(&model, stage, ranks, 3, size, &at);
                }
        model_release(&model);
    }
    assert_int_equal(at.checked, 2 * 4 * 5 * SIZES * 2 * (effort_is_full() ? 24 : 8) * PURPOSES);
}

static int64_t padded_elems(const struct model *model, int ranks)
{
    int64_t padded = 0;
    for (int u = 0; u < model->unit_count; u++) padded += shard_elems(model->units[u].elems, ranks) * ranks;
    return padded;
}

/* Sum of the categories' own peaks over P, G and O, against the formula with padded units. */
static void test_model_states_are_the_papers(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_BF16, NULL);
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int stage = 0; stage <= 3; stage++) {
            struct config_zero knobs = knobs_of(stage, 200000);
            struct schedule schedule = built(&model, &knobs, PURPOSE_TRAIN, ranks, 1);
            struct footprint footprint;
            footprint_of(&footprint, &schedule);
            int64_t padded = padded_elems(&model, ranks);
            int64_t want[] = {16 * padded, 4 * padded + 12 * padded / ranks, 2 * padded + 14 * padded / ranks,
                              16 * padded / ranks};
            int64_t got = footprint.category[0][CATEGORY_PARAMETERS].peak_bytes +
                          footprint.category[0][CATEGORY_GRADIENTS].peak_bytes +
                          footprint.category[0][CATEGORY_OPTIMIZER].peak_bytes;
            assert_int_equal(got, want[stage]);
            assert_in_range(padded - model.elems, 0, model.unit_count * ranks * SHARD_ALIGN_ELEMS);
            schedule_release(&schedule);
        }
    model_release(&model);
}

static void test_traffic_is_the_papers(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_BF16, NULL);
    for (int micro = 1; micro <= 4; micro += 3)
        for (int ranks = 2; ranks <= 4; ranks++)
            for (int stage = 0; stage <= 3; stage++) {
                struct config_zero knobs = knobs_of(stage, 200000);
                struct schedule schedule = built(&model, &knobs, PURPOSE_TRAIN, ranks, micro);
                int64_t padded = padded_elems(&model, ranks), all_ranks = 0;
                const int k[] = {2, 2, micro + 1, 3 * micro};
                for (int rank = 0; rank < ranks; rank++) {
                    struct traffic_sum sums[TRAFFIC_KINDS];
                    traffic_of(sums, &schedule, &model, rank, 0);
                    int64_t sent = 0;
                    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) sent += sums[kind].sent_bytes;
                    assert_int_equal(sent,
                                     k[stage] * 2 * padded / ranks * (ranks - 1)); /* over the padded units: exact */
                    all_ranks += sent;
                }
                double theory = traffic_theory_bytes(&model, &schedule) * ranks;
                assert_true((double)all_ranks >= theory && (double)all_ranks < theory * 1.001);
                schedule_release(&schedule);
            }
    model_release(&model);
}

/* Each shard enters a node once: of Psi elements a rank sends (nodes - 1)/ranks to other nodes, in place of the share of
 * all ranks that are there. What it sends in all stays that of a ring; so do the paper's formula and the operations' own
 * figures. */
static void test_hops_cross_nodes_once(void **state)
{
    (void)state;
    static const int shapes[][2] = {{4, 2}, {8, 4}, {8, 2}, {6, 3}};
    struct model model;
    model_init(&model, &nano, DTYPE_BF16, NULL);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int stage = 0; stage <= 3; stage++)
            for (int form = 0; form < 3; form++) { /* direct, in hops, in hops but for sums in rank order */
                const int ranks = shapes[s][0], node = shapes[s][1], m = 3;
                struct config_zero knobs = knobs_of(stage, 200000);
                knobs.hierarchical = form > 0;
                knobs.rank_order = form > 1;
                struct schedule schedule = built_on(&model, &knobs, PURPOSE_TRAIN, ranks, node, m);
                struct error err = {0};
                if (schedule_check(&schedule, &model, &err)) fail_msg("%s", err.text);
                const int gathers = stage == 3 ? 2 * m : stage > 0, sums = stage > 1 ? m : 1 + (stage == 0);
                const int64_t each = 2 * padded_elems(&model, ranks) / ranks, hop = each * (ranks / node - 1),
                              direct = each * (ranks - node);
                const double ring = (double)((gathers + sums) * each * (ranks - 1)),
                             theory = traffic_theory_bytes(&model, &schedule);
                int64_t by_ops = 0;
                for (int i = 0; i < schedule.op_count; i++)
                    if (schedule.ops[i].lane == LANE_COMM) by_ops += schedule.ops[i].sent_bytes;
                assert_in_range((int64_t)ring - by_ops, 0, schedule.op_count);
                for (int rank = 0; rank < ranks; rank++) {
                    struct traffic_sum sums_of[TRAFFIC_KINDS];
                    traffic_of(sums_of, &schedule, &model, rank, node);
                    assert_int_equal(traffic_between_ranks(sums_of).across_bytes, gathers * (form > 0 ? hop : direct) +
                                              sums * (form == 1 && stage > 0 ? hop : direct));
                }
                assert_true(theory <= ring && theory * 1.002 > ring);
                schedule_release(&schedule);
            }
    model_release(&model);
}

/* Groups that lie on parts of two nodes have no hops; the key is refused by its name. */
static void test_hops_need_whole_nodes(void **state)
{
    (void)state;
    struct model model;
    struct schedule schedule;
    struct error err = {0};
    struct config_zero knobs = knobs_of(3, 200000);
    model_init(&model, &nano, DTYPE_BF16, NULL);
    knobs.hierarchical = true;
    knobs.shard_ranks = 3;
    struct schedule_input input = {&model, &knobs, PURPOSE_TRAIN, 6, 1, 2, model.shape.context, 1, false, 2};
    assert_int_equal(schedule_build(&schedule, &input, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "params_gather = true: shard groups of 3 ranks are not whole nodes of 2 ranks"));
    model_release(&model);
}

static void test_number_of_collectives(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_F32, NULL);
    struct config_zero knobs = knobs_of(3, 200000);
    struct traffic_sum sums[TRAFFIC_KINDS];
    struct schedule schedule = built(&model, &knobs, PURPOSE_TRAIN, 4, 1);
    traffic_of(sums, &schedule, &model, 0, 0);
    assert_int_equal(sums[TRAFFIC_ALL_GATHER].count,
                     2 * model.unit_count); /* plain form: once forward, once backward */
    schedule_release(&schedule);
    knobs.max_reuse_distance = 1000000000; /* DeepSpeed's default: a small model stays gathered */
    schedule = built(&model, &knobs, PURPOSE_TRAIN, 4, 1);
    traffic_of(sums, &schedule, &model, 0, 0);
    assert_int_equal(sums[TRAFFIC_ALL_GATHER].count, model.unit_count);
    schedule_release(&schedule);
    model_release(&model);
}

static struct footprint footprint_with(const struct model *model, const struct config_zero *knobs)
{
    struct footprint footprint;
    struct schedule schedule = built(model, knobs, PURPOSE_TRAIN, 4, 1);
    footprint_of(&footprint, &schedule);
    schedule_release(&schedule);
    return footprint;
}

/* Prefetch holds one unit more; overlap holds a second bucket. */
static void test_knobs_cost_memory(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_BF16, NULL);
    const int64_t block = 198272 * 2;
    struct config_zero knobs = knobs_of(3, 198272);
    knobs.prefetch_bucket_elems = 0;
    knobs.overlap_comm = false;
    struct footprint none = footprint_with(&model, &knobs);
    assert_int_equal(none.category[0][CATEGORY_GATHERED].peak_bytes, block);
    knobs.prefetch_bucket_elems = 1;
    assert_int_equal(footprint_with(&model, &knobs).category[0][CATEGORY_GATHERED].peak_bytes, 2 * block);
    knobs.overlap_comm = true;
    assert_int_equal(footprint_with(&model, &knobs).category[0][CATEGORY_BUCKETS].peak_bytes,
                     none.category[0][CATEGORY_BUCKETS].peak_bytes + block);
    model_release(&model);
}

/* How many gathers of a step the planner put off for each reason. */
static void count_held(int count[HELD_AGAIN + 1], const struct model *model, const struct config_zero *knobs)
{
    struct schedule schedule = built(model, knobs, PURPOSE_TRAIN, 4, 1);
    memset(count, 0, (HELD_AGAIN + 1) * sizeof *count);
    for (int i = 0; i < schedule.op_count; i++)
        if (schedule.ops[i].kind == OP_GATHER) count[schedule.ops[i].held]++;
        else assert_int_equal(schedule.ops[i].held, HELD_NONE);
    schedule_release(&schedule);
}

/* A gather says which limit ended the gathers ahead of the use before it. */
static void test_gathers_say_what_held_them(void **state)
{
    (void)state;
    struct model model;
    int count[HELD_AGAIN + 1];
    model_init(&model, &nano, DTYPE_BF16, NULL);
    struct config_zero knobs = knobs_of(3, 198272);
    knobs.max_live_parameters = 1000000000;
    knobs.prefetch_bucket_elems = 1;
    count_held(count, &model, &knobs);
    assert_true(count[HELD_BUCKET] > 4 && !count[HELD_LIVE]);
    assert_true(count[HELD_NONE] >= 1); /* the first, before which there is no use */
    knobs.prefetch_bucket_elems = 1000000000;
    count_held(count, &model, &knobs);
    assert_true(!count[HELD_BUCKET] && !count[HELD_LIVE] && count[HELD_AGAIN] > 0);
    knobs.max_live_parameters = 250000;
    count_held(count, &model, &knobs);
    assert_true(!count[HELD_BUCKET] && count[HELD_LIVE] > 4);
    model_release(&model);
}

/* Without overlap_comm lanes take turns, however many buckets a block has: what stands above an operation on the other lane
 * is done before it begins. With it some are not. */
static int beside(const struct schedule *schedule)
{
    int last[LANES], count = 0;
    for (int lane = 0; lane < LANES; lane++) last[lane] = -1;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const enum lane other = op->lane == LANE_COMPUTE ? LANE_COMM : LANE_COMPUTE;
        bool waits = last[other] < 0;
        for (int d = 0; d < op->dependency_count; d++) waits |= op->dependency[d].op == last[other];
        waits |= last[op->lane] > last[other]; /* as the operation before it did */
        count += !waits;
        last[op->lane] = i;
    }
    return count;
}

static void test_lanes_take_turns_without_overlap(void **state)
{
    (void)state;
    struct model model;
    model_init(&model, &nano, DTYPE_F32, NULL);
    for (int stage = 0; stage <= 3; stage++)
        for (int64_t bucket = 20000; bucket < 2000000; bucket *= 10)
            for (int overlap = 0; overlap < 2; overlap++) {
                struct config_zero knobs = knobs_of(stage, bucket);
                knobs.overlap_comm = overlap;
                struct schedule schedule = built(&model, &knobs, PURPOSE_TRAIN, 4, 1);
                if (overlap) assert_true(beside(&schedule) > 0);
                else assert_int_equal(beside(&schedule), 0);
                schedule_release(&schedule);
            }
    model_release(&model);
}

/* Of what a rank owns: on the device, the optimizer's on the host, the parameters too, these alone; delayed updates;
 * tiled MLPs. */
enum { TIERINGS = 6, TILED = 5 };

static struct schedule damaged_base(struct model *model, int tiering)
{
    struct config_zero knobs = knobs_of(3, 20000);
    knobs.recompute = RECOMPUTE_FULL;
    knobs.checkpoint_every = 1;
    knobs.cpu_checkpointing = true;
    knobs.offload_optimizer = tiering == 1 || tiering == 2 || tiering == 4 ? OFFLOAD_CPU : OFFLOAD_NONE;
    knobs.offload_param = tiering == 2 || tiering == 3 ? OFFLOAD_CPU : OFFLOAD_NONE;
    knobs.delayed_update = tiering == 4;
    knobs.offload_ratio = 1;
    knobs.update_tile_elems = 10000;
    knobs.sub_group_elems = 30000;
    model_init_tiled(model, &nano, tiering == TILED ? 2 : 1, DTYPE_BF16, NULL);
    return built(model, &knobs, PURPOSE_TRAIN, 4, 2);
}

enum damage {
    NO_DEPENDENCIES,
    DOWNWARD_DEPENDENCY,
    LOST_ELEMENTS,
    LOST_GIVE,
    SHARED_ADDRESS,
    LOST_UPDATE,
    LOST_TILE,
    LOST_ARRIVAL,
    FOREIGN_ACTIVATION,
    FOREIGN_INPUT,
    FOREIGN_CHECKPOINT,
    TOKENS_AS_CHECKPOINT,
    PARAMETERS_AS_CHECKPOINT,
    NO_CHECKPOINT,
    FOREIGN_MLP,
    FOREIGN_SUM,
    DAMAGES
};

static bool damage(struct schedule *schedule, struct op *op, enum damage kind)
{
    struct buffer *taken[2] = {0};
    for (int t = 0; t < 2 && t < op->take_count; t++)
        taken[t] = &schedule->buffers[schedule->effects[op->first_take + t]];
    switch (kind) {
    case NO_DEPENDENCIES:
        if (op->dependency_count == 0) return false;
        op->dependency_count = 0;
        return true;
    case DOWNWARD_DEPENDENCY:
        if (op->dependency_count == 0) return false;
        op->dependency[0].op = schedule->op_count - 1;
        return true;
    case LOST_ELEMENTS:
        if (op->kind != OP_REDUCE_SCATTER) return false;
        schedule->pieces[op->first_piece].elems -= 16;
        return true;
    case LOST_GIVE:
        if (op->give_count == 0) return false;
        op->give_count--;
        return true;
    case SHARED_ADDRESS:
        if (!taken[1]) return false;
        taken[1]->category = taken[0]->category;
        taken[1]->offset = taken[0]->offset;
        return true;
    case LOST_UPDATE:
        if (!op_is_update(op->kind)) return false;
        op->kind = op->kind == OP_UPDATE ? OP_GRAD_NORM : OP_HOST_NORM;
        return true;
    case LOST_TILE: /* updated, but it does not come up */
        if (op->kind != OP_UPLOAD && op->kind != OP_STORE) return false;
        op->tile++;
        return true;
    case LOST_ARRIVAL:
        if (op->kind != OP_GRAD_D2H) return false;
        schedule->pieces[op->first_piece].elems -= 16;
        return true;
    case FOREIGN_ACTIVATION: /* another block is made again than the one that needs it */
        if (!op_is(op, OP_RECOMPUTE, USE_BLOCK)) return false;
        op->unit = op->unit == 1 ? 2 : op->unit - 1;
        return true;
    case FOREIGN_INPUT: /* recomputed from what it saves itself */
        if (!op_is(op, OP_RECOMPUTE, USE_BLOCK)) return false;
        op->buffer[ROLE_INPUT] = op->buffer[ROLE_ATTENTION];
        return true;
    case FOREIGN_CHECKPOINT: /* another block's is copied */
        if (op->kind != OP_OFFLOAD && op->kind != OP_FETCH) return false;
        op->unit++;
        return true;
    case TOKENS_AS_CHECKPOINT: /* what no unit put out is copied: a buffer of the step, a lasting one, none */
    case PARAMETERS_AS_CHECKPOINT:
    case NO_CHECKPOINT:
        if (op->kind != OP_OFFLOAD && op->kind != OP_FETCH) return false;
        op->buffer[ROLE_SOURCE] = kind == TOKENS_AS_CHECKPOINT       ? schedule->effects[schedule->ops[0].first_take]
                                  : kind == PARAMETERS_AS_CHECKPOINT ? 0
                                                                     : -1;
        return true;
    case FOREIGN_MLP: /* a tile reads what it saves itself, and not its block */
        if (!op_is(op, OP_FORWARD, USE_MLP) && !op_is(op, OP_BACKWARD, USE_MLP)) return false;
        op->buffer[ROLE_INPUT] = op->buffer[ROLE_ACTIVATION];
        return true;
    case FOREIGN_SUM: /* its gradient is added to that of another place */
        if (!op_is(op, OP_BACKWARD, USE_MLP)) return false;
        op->buffer[ROLE_NORMED] = op->buffer[ROLE_RESIDUAL];
        return true;
    case DAMAGES: break;
    }
    return false;
}

/* Each way of breaking a schedule must be caught: a checker that passes anything is worth nothing. */
static void test_damage_is_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < DAMAGES; kind++) {
        int tried = 0, caught = 0;
        for (int tiering = 0, place = 0, ops; tiering < TIERINGS; place++) {
            struct model model;
            struct schedule schedule = damaged_base(&model, tiering);
            ops = schedule.op_count;
            if (damage(&schedule, &schedule.ops[place], (enum damage)kind)) {
                tried++;
                caught += schedule_check(&schedule, &model, NULL) == STATUS_CHECK;
            }
            schedule_release(&schedule);
            model_release(&model);
            if (place == ops - 1) tiering++, place = -1;
        }
        assert_true(tried > 3);
        print_message("damage %d: %d of %d caught\n", kind, caught, tried);
        /* A dependency may be implied by others: then losing it does no harm, and only then may damage pass. */
        if (kind == NO_DEPENDENCIES)
            assert_true(caught > 20 && caught * 5 > tried); /* small buckets: many flushes wait for one backward */
        else assert_int_equal(caught, tried);
    }
}

static void test_json_round_trip(void **state)
{
    (void)state;
    struct model model;
    struct schedule schedule = damaged_base(&model, 2), again;
    char *json = schedule_to_json(&schedule);
    struct error err = {0};
    assert_int_equal(schedule_from_json(&again, json, strlen(json), &err), 0);
    char *second = schedule_to_json(&again);
    assert_string_equal(json, second);
    assert_int_equal(schedule_check(&again, &model, &err), 0);
    for (size_t cut = 0; cut < strlen(json); cut += 997) {
        struct schedule torn;
        assert_int_equal(schedule_from_json(&torn, json, cut, &err), STATUS_INPUT);
    }
    free(json);
    free(second);
    schedule_release(&schedule);
    schedule_release(&again);
    model_release(&model);
}

/* A knob that is missing in the JSON would silently be 0 in every replay. Values are listed in the order of the fields, so that
 * -Wmissing-field-initializers names this test when a field is added; what is false in one list is true in the other. */
static void test_json_holds_every_knob(void **state)
{
    (void)state;
    static const struct config_zero lists[2] = {
        {2,    11,    12,          true,         13,   14,   15,   16,
         17,   18,    false,       2.5F,         24,   4,    true, true, false, 0.5F, 25, true, 1, true, RECOMPUTE_ATTENTION,
         3,    false, OFFLOAD_CPU, OFFLOAD_NVME, 0.25, true, 19,   false,
         true, 20,    false,       true,         21,   22,   23},
        {2,     31,   32,           false,       33,   34,    35,    36,
         37,    38,   true,         4,           44,   2,     false, false, true, 0.25F, 45, false, 2, false, RECOMPUTE_FULL,
         5,     true, OFFLOAD_NVME, OFFLOAD_CPU, 0.75, false, 39,    true,
         false, 40,   true,         false,       41,   42,    43},
    };
    for (int i = 0; i < 2; i++) {
        const struct config_zero *knobs = &lists[i];
        struct model model;
        struct schedule schedule = damaged_base(&model, 2), again;
        struct error err = {0};
        schedule.knobs = *knobs;
        char *json = schedule_to_json(&schedule);
        assert_int_equal(schedule_from_json(&again, json, strlen(json), &err), 0);
        assert_memory_equal(&again.knobs.reduce_bucket_elems, &knobs->reduce_bucket_elems,
                            sizeof *knobs - offsetof(struct config_zero, reduce_bucket_elems));
        free(json);
        schedule_release(&schedule);
        schedule_release(&again);
        model_release(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_and_shards),
        cmocka_unit_test(test_every_combination_passes_the_checker),
        cmocka_unit_test(test_model_states_are_the_papers),
        cmocka_unit_test(test_traffic_is_the_papers),
        cmocka_unit_test(test_number_of_collectives),
        cmocka_unit_test(test_knobs_cost_memory),
        cmocka_unit_test(test_lanes_take_turns_without_overlap),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_json_round_trip),
        cmocka_unit_test(test_json_holds_every_knob),
        cmocka_unit_test(test_gathers_say_what_held_them),
        cmocka_unit_test(test_hops_cross_nodes_once),
        cmocka_unit_test(test_hops_need_whole_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
