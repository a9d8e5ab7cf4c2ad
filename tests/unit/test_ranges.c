/* The address ranges that the plan names hold every buffer of every step that a run may switch to: schedules of many setups are built,
 * those of one model for one set of ranges, and no buffer of any of them ends above its category's range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/plan/buckets.h"
#include "engine/plan/footprint.h"
#include "tests/support/effort.h"

static uint64_t drawn;

/* One of the numbers below `below`. */
static int draw(int below)
{
    return (int)(rng_u64(17, 0, drawn++) % (uint64_t)below);
}

static int64_t draw_size(void)
{
    static const int64_t sizes[] = {0, 1, 1000, 20000, 1000000000};
    return sizes[draw(5)];
}

/* All that a run may change, and offloading, which it may not. */
static struct config_zero draw_knobs(void)
{
    const int stage = draw(4), offload = stage == 0 ? 0 : draw(stage == 3 ? 3 : 2);
    const bool delayed = offload && draw(2);
    return (struct config_zero){.stage = stage,
                                .reduce_bucket_elems = draw_size() + 1,
                                .allgather_bucket_elems = draw_size() + 1,
                                .overlap_comm = draw(2),
                                .prefetch_bucket_elems = draw_size(),
                                .max_live_parameters = draw(2) ? 1000000000 : draw_size(),
                                .max_reuse_distance = draw_size(),
                                .param_persistence_threshold = draw_size(),
                                .model_persistence_threshold = INT64_MAX,
                                .sub_group_elems = draw(2) ? 20000 : 1000000000,
                                .shard_ranks = draw(3) ? -1 : 1, /* as many replicas as ranks: whole units in every tier */
                                .rank_order = draw(2),
                                .hierarchical = draw(2),
                                .quantized_weights = draw(2),
                                .quantized_gradients = draw(2),
                                .loco_beta = draw(2) ? 0.5F : 0,
                                .loco_reset = 10,
                                .keep_last_units = draw(3),
                                .no_sync = draw(2),
                                .recompute = (enum recompute)draw(3),
                                .checkpoint_every = 1 + draw(4),
                                .cpu_checkpointing = draw(2),
                                .offload_optimizer = (enum offload)offload,
                                .offload_param = stage == 3 ? (enum offload)draw(3) : OFFLOAD_NONE,
                                .offload_ratio = delayed || stage < 3 || draw(2) ? 1 : 0.4,
                                .delayed_update = delayed,
                                .update_tile_elems = draw(2) ? 2000 : 0,
                                .pipeline_read = draw(2),
                                .pipeline_write = draw(2),
                                .param_buffers = 1 + draw(20),
                                .param_buffer_elems = 1000000,
                                .max_in_cpu_elems = draw(2) ? 0 : 10000};
}

/* The largest share of each range that any step used. */
static double fullest[TIERS][CATEGORIES];

static void check_setup(const struct schedule_input *input, const uint64_t ranges[TIERS][CATEGORIES])
{
    struct schedule schedule;
    struct footprint footprint;
    struct error err;
    if (schedule_build(&schedule, input, &err)) fail_msg("%s", err.text);
    footprint_of(&footprint, &schedule);
    schedule_release(&schedule);
    for (int t = 0; t < TIERS; t++)
        for (int c = 0; c < CATEGORIES; c++) {
            const uint64_t used = footprint.category[t][c].extent_bytes;
            if (used > ranges[t][c])
                fail_msg("stage %d, %d ranks: %s of the %s tier needs %llu bytes of addresses, and has %llu",
                         input->knobs->stage, input->ranks, category_name((enum category)c), tier_name((enum tier)t),
                         (unsigned long long)used, (unsigned long long)ranges[t][c]);
            if (used && (double)used / (double)ranges[t][c] > fullest[t][c])
                fullest[t][c] = (double)used / (double)ranges[t][c];
        }
}

/* A model in one of its types and one of its cuts, for some ranks; then all three purposes with knobs that were drawn. */
static void check_drawn_setup(void)
{
    static const struct config_model shapes[] = {{"nano", 4, 128, 4, 64, 256, .kind = KIND_GPT2},
                                                 {"odd", 7, 40, 4, 17, 301, .kind = KIND_GPT2}};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};
    const struct config_model *shape = &shapes[draw(2)];
    const struct config_zero knobs = draw_knobs();
    struct model model;
    uint64_t ranges[TIERS][CATEGORIES];
    const enum dtype dtype = types[draw(2)]; /* apart, because compilers order the arguments of a call as they like */
    assert_int_equal(model_init_tiled(&model, shape, draw(2) ? 4 : 1, dtype, NULL), 0);
    model.optimizer = (enum optimizer)draw(OPTIMIZERS);
    model.gradient = model.dtype == DTYPE_F32 ? DTYPE_F32 : types[draw(2)];
    model.wire = model.dtype == DTYPE_F32 ? DTYPE_F32 : types[draw(2)];
    struct schedule_input input = {.model = &model,
                                   .knobs = &knobs,
                                   .ranks = 1 + draw(6),
                                   .node_ranks = draw(3),
                                   .micro_steps = 1 + draw(3),
                                   .B = 1 + draw(2),
                                   .T = shape->context,
                                   .threads = 1 + draw(2)};
    if (input.node_ranks && input.ranks % input.node_ranks) input.node_ranks = 1;
    schedule_ranges(ranges, &input);
    for (input.purpose = 0; input.purpose < PURPOSES; input.purpose++) check_setup(&input, ranges);
    model_release(&model);
}

/* And no range is wide for nothing: of each that is used at all, some step uses a seventh; a tenth where ranges leave room for holes. */
static double least_used(enum category category)
{
    return category == CATEGORY_BUCKETS || category == CATEGORY_STAGING ? 0.1 : 1.0 / 7;
}

static void every_step_fits_its_ranges(void **state)
{
    (void)state;
    for (int n = 0; n < effort(70, 70, 200); n++) check_drawn_setup();
    for (int t = 0; t < TIERS; t++)
        for (int c = 0; c < CATEGORIES; c++)
            if (fullest[t][c] > 0 && fullest[t][c] < least_used((enum category)c))
                fail_msg("%s of the %s tier: no step uses more than %.0f %% of its range",
                         category_name((enum category)c), tier_name((enum tier)t), 100 * fullest[t][c]);
}

/* Ranks that have a device each need room for what arrives: strips of at most ARRIVALS_BYTES. */
static void what_arrives_has_room(void **state)
{
    (void)state;
    const struct config_zero knobs = {.stage = 2,
                                      .reduce_bucket_elems = 1000000000,
                                      .allgather_bucket_elems = 1000000000,
                                      .model_persistence_threshold = INT64_MAX,
                                      .offload_ratio = 1};
    struct model model;
    uint64_t without[TIERS][CATEGORIES], with[TIERS][CATEGORIES];
    assert_int_equal(model_init(&model, config_model_named("nano"), DTYPE_F32, NULL), 0);
    struct schedule_input input = {
        .model = &model, .knobs = &knobs, .ranks = 4, .micro_steps = 1, .B = 1, .T = 64, .threads = 1};
    schedule_ranges(without, &input);
    model.passes = true;
    schedule_ranges(with, &input);
    assert_int_equal(with[TIER_DEVICE][CATEGORY_BUCKETS] - without[TIER_DEVICE][CATEGORY_BUCKETS], ARRIVALS_BYTES);
    check_setup(&input, with);
    model_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_fits_its_ranges),
                                       cmocka_unit_test(what_arrives_has_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
