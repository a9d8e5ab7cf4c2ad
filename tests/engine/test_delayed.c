/* Delayed updates: the same bits as a reference that delays every update by exactly one step, wherever arrays lie, through
 * live switches, and through a state that was saved with its pending gradients. Ranks are threads. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/memory/storage.h"
#include "engine/optim/optimizer.h"
#include "engine/zero/internal.h"
#include "tests/support/zero_runs.h"

#define OPTIMIZER  "zero_optimization.offload_optimizer.device=cpu"
#define PARAMETERS "zero_optimization.offload_param.device=cpu"

#define TO_NVME "zero_optimization.offload_optimizer.device=nvme", "zero_optimization.offload_optimizer.nvme_path=/tmp"
#define PARAMETERS_TO_NVME                                                                                             \
    "zero_optimization.offload_param.device=nvme", "zero_optimization.offload_param.max_in_cpu=0",                     \
        "zero_optimization.offload_param.nvme_path=/tmp"
#define PIPELINED                                                                                                      \
    "zero_optimization.offload_optimizer.pipeline_read=true", "zero_optimization.offload_optimizer.pipeline_write="    \
                                                              "true"

enum { AFTER = 3, STEPS = 8, PLACE_SETS = 8 };

/* Where arrays lie: the optimizer in host memory, unless said otherwise. */
static const struct place {
    int stage;
    const char *name, *sets[PLACE_SETS];
} places[] = {
    {1, "stage 1", {NULL}},
    {2, "stage 2", {NULL}},
    {3, "stage 3", {NULL}},
    {3, "stage 3, parameters in host memory", {PARAMETERS}},
    {3, "stage 3, parameters on NVMe", {PARAMETERS_TO_NVME}},
    {3, "stage 3, optimizer on NVMe", {TO_NVME}},
    {3, "stage 3, optimizer on NVMe, parameters in host memory", {TO_NVME, PARAMETERS, PIPELINED}},
    {3, "stage 3, all on NVMe", {TO_NVME, PARAMETERS_TO_NVME, PIPELINED}},
    {3,
     "stage 3, some parameters on NVMe",
     {TO_NVME, PARAMETERS_TO_NVME, "zero_optimization.offload_param.max_in_cpu=12000"}},
};
enum { PLACES = sizeof places / sizeof *places, ALL_AWAY = 7 };

static struct plan_of_run delayed(int stage, int steps, const char *ranks, const char *precision, const char *extra)
{
    struct plan_of_run plan = {.steps = steps, .rescue_stage = -1};
    set(&plan, ranks);
    set(&plan, stage_sets[stage]);
    set(&plan, "gradient_clipping=0.5");
    set(&plan, OPTIMIZER);
    set(&plan, "schedule.delayed_update=true");
    set(&plan, "schedule.delayed_update_after=3");
    if (precision) set(&plan, precision);
    if (extra) set(&plan, extra);
    return plan;
}

static struct plan_of_run delayed_at(const struct place *place, int steps, const char *ranks, const char *precision,
                                     const char *extra)
{
    struct plan_of_run plan = delayed(place->stage, steps, ranks, precision, extra);
    for (int i = 0; i < PLACE_SETS && place->sets[i]; i++) set(&plan, place->sets[i]);
    return plan;
}

/* ---- one rank, by hand ---- */

struct held { /* the state of a run, unit by unit */
    float *array[64][STATE_ARRAYS];
    struct zero_progress progress;
};

static int read_held(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                     struct error *err)
{
    const struct held *held = user;
    (void)err;
    memset(out, 0, (size_t)elems * sizeof *out);
    if (held->array[unit][array]) memcpy(out, held->array[unit][array] + first, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

static void release_held(struct held *held)
{
    for (int u = 0; u < 64; u++)
        for (int a = 0; a < STATE_ARRAYS; a++) free(held->array[u][a]);
}

struct single { /* a run of one rank */
    struct config config;
    struct data *data;
    struct comm_group *group;
    struct comm *comm;
    struct zero *zero;
    struct state_source source;
};

static void single_open(struct single *single, const struct plan_of_run *plan, struct held *held)
{
    struct error err = {0};
    struct zero_shortage shortage;
    if (load_plan(&single->config, plan, &err)) fail_msg("%s", err.text);
    assert_int_equal(single->config.topology.ranks, 1);
    if (data_open(&single->data, &single->config, &err)) fail_msg("%s", err.text);
    assert_int_equal(comm_group_create(&single->group, 1, 0, &err), 0);
    assert_int_equal(comm_open_thread(&single->comm, single->group, 0, &err), 0);
    struct zero_options options = {.config = &single->config, .comm = single->comm, .data = single->data};
    if (held) {
        single->source = (struct state_source){.user = held, .read = read_held, .progress = held->progress};
        options.source = &single->source;
    }
    if (zero_open(&single->zero, &options, &shortage, &err)) fail_msg("%s", err.text);
}

static void single_close(struct single *single)
{
    comm_close(single->comm);
    zero_close(single->zero);
    comm_group_free(single->group);
    data_close(single->data);
    config_release(&single->config);
}

static struct zero_result single_step(struct single *single)
{
    struct zero_result result = {0};
    struct error err = {0};
    if (zero_step(single->zero, &result, &err)) fail_msg("%s", err.text);
    return result;
}

static uint64_t single_hash(struct single *single)
{
    uint64_t hash;
    assert_int_equal(zero_state_hash(single->zero, &hash, NULL), 0);
    return hash;
}

static void save(struct held *held, const struct single *single)
{
    const struct model *model = &single->zero->model;
    release_held(held);
    *held = (struct held){.progress = zero_progress(single->zero)};
    for (int u = 0; u < model->unit_count; u++)
        for (int a = 0; a < STATE_ARRAYS; a++) {
            if (!zero_has_array(single->zero, (enum state_array)a)) continue;
            held->array[u][a] = calloc((size_t)model->units[u].elems, sizeof(float));
            assert_int_equal(zero_read_state(single->zero, u, (enum state_array)a, 0, model->units[u].elems,
                                             held->array[u][a], NULL),
                             0);
        }
}

/* ---- the reference: stage 0 makes every gradient; the updates are made here, one step late ---- */

struct gradients {
    float *of[64];
    float factor;
};

/* One step of stage 0 from the held weights; its own update is thrown away. */
static float gradients_at(struct gradients *gradients, struct held *held, const struct plan_of_run *stage0, int step,
                          struct model *model)
{
    struct single single;
    held->progress.steps_done = held->progress.updates = step - 1;
    held->progress.samples = (step - 1) * 4;
    single_open(&single, stage0, held);
    struct zero_result result = single_step(&single);
    const struct schedule *schedule = zero_schedule(single.zero);
    *model = single.zero->model;
    for (int u = 0; u < model->unit_count; u++) {
        const struct buffer *buffer = &schedule->buffers[schedule->layout[u].gradient];
        const void *from = memory_at(zero_memory(single.zero), buffer->tier, buffer->category, buffer->offset);
        gradients->of[u] = realloc(gradients->of[u], (size_t)model->units[u].elems * sizeof(float));
        kernels_reduce(buffer->dtype, DTYPE_F32, gradients->of[u], &from, 1, &(struct reduce_factors){1, 1},
                       model->units[u].elems, false);
    }
    gradients->factor = single.zero->step.gradient_factor;
    single_close(&single);
    return result.loss;
}

static void update_held(struct held *held, const struct config *config, const struct model *model,
                        const struct gradients *gradients, int64_t number)
{
    struct kernels *kernels;
    assert_int_equal(kernels_create(&kernels, 1, NULL, NULL), 0);
    const struct optimizer_step step = {&config->optimizer, learning_rate_at(config, number - 1), gradients->factor,
                                        number};
    for (int u = 0; u < model->unit_count; u++) {
        const struct update_arrays arrays = {.gradient = gradients->of[u],
                                             .master = held->array[u][STATE_WEIGHTS],
                                             .state = {held->array[u][STATE_1], held->array[u][STATE_2]},
                                             .parameters = held->array[u][STATE_WEIGHTS]};
        optimizer_update(kernels, model, u, 0, model->units[u].elems, &step, DTYPE_F32, &arrays);
    }
    kernels_free(kernels);
}

static void delays_by_one_step(const char *precision)
{
    struct plan_of_run stage0 = {.rescue_stage = -1};
    static const char *const small[] = {"topology.ranks=1", "gradient_clipping=0.5",
                                        "train_micro_batch_size_per_gpu=4"};
    for (int i = 0; i < 3; i++) set(&stage0, small[i]);
    if (precision) set(&stage0, precision);
    struct config config;
    struct single first;
    struct held held = {0};
    struct model model = {0};
    struct gradients now = {0}, before = {0};
    float want[STEPS];
    assert_int_equal(load_plan(&config, &stage0, NULL), 0);
    single_open(&first, &stage0, NULL);
    save(&held, &first);
    model = first.zero->model;
    for (int step = 1, updates = 0; step <= STEPS; step++) {
        struct model unused;
        want[step - 1] = gradients_at(&now, &held, &stage0, step, &unused);
        const bool late = step > AFTER;
        if (step > AFTER + 1) update_held(&held, &config, &model, &before, ++updates); /* with the step before's */
        if (!late) update_held(&held, &config, &model, &now, ++updates);
        const struct gradients swap = before;
        before = now;
        now = swap;
    }
    held.progress.steps_done = 0;
    struct single last;
    single_open(&last, &stage0, &held);
    const uint64_t want_hash = single_hash(&last);
    single_close(&last);
    for (int p = 0; p < PLACES; p++) {
        struct plan_of_run plan = delayed_at(&places[p], STEPS, "topology.ranks=1", precision, NULL);
        set(&plan, "train_micro_batch_size_per_gpu=4");
        struct outcome_of_run got = run(&plan);
        for (int s = 0; s < STEPS; s++)
            if (memcmp(&want[s], &got.loss[s], 4))
                fail_msg("%s, step %d: loss %.9g, not %.9g", places[p].name, s + 1, (double)got.loss[s],
                         (double)want[s]);
        assert_int_equal(got.hash, want_hash);
    }
    single_close(&first);
    release_held(&held);
    for (int u = 0; u < 64; u++) free(now.of[u]), free(before.of[u]);
    config_release(&config);
}

static void test_delays_by_one_step(void **state)
{
    (void)state;
    delays_by_one_step(NULL);
    delays_by_one_step("bf16.enabled=true");
}

/* ---- wherever arrays lie ---- */

static void to_stage(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_CPU;
    knobs->offload_param = OFFLOAD_NONE;
}
static void with_parameters(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_CPU;
    knobs->offload_param = OFFLOAD_CPU;
}
static void all_away(struct config_zero *knobs)
{
    knobs->offload_optimizer = knobs->offload_param = OFFLOAD_NVME;
    knobs->max_in_cpu_elems = 0;
}
static void states_away(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_NVME;
    knobs->offload_param = OFFLOAD_NONE;
}

static void all_the_same(const char *precision, const char *extra, int first, int stride)
{
    struct plan_of_run plan = delayed(1, STEPS + 4, "topology.ranks=4", precision, extra);
    struct outcome_of_run want = run(&plan), got;
    for (int p = first; p < PLACES; p += stride) {
        plan = delayed_at(&places[p], STEPS + 4, "topology.ranks=4", precision, extra);
        got = run(&plan);
        expect_same(&want, &got, STEPS + 4, places[p].name);
        for (int tier = 0; tier < TIERS; tier++)
            assert_true(got.memory.tier[tier].peak_bytes <= (uint64_t)got.footprint.peak_bytes[tier]);
    }
    static const struct {
        int stage;
        void (*change)(struct config_zero *);
    } path[] = {{3, with_parameters}, {2, to_stage}, {3, states_away}, {3, all_away}, {1, to_stage}, {3, all_away}};
    plan = delayed_at(&places[ALL_AWAY], STEPS + 8, "topology.ranks=4", precision, extra);
    want = run(&plan);
    for (int s = 0; s < 6; s++) {
        plan.switches[s].before_step = 3 + 2 * s;
        plan.switches[s].stage = path[s].stage;
        plan.switches[s].change = path[s].change;
    }
    plan.switch_count = 6;
    got = run(&plan);
    expect_same(&want, &got, STEPS + 8, "switching with gradients pending");
}

static void test_same_bits_everywhere(void **state)
{
    (void)state;
    const int stride = effort(2, 2, 1);
    all_the_same(NULL, NULL, 1, stride);
    all_the_same("bf16.enabled=true", "schedule.update_tile=3000", stride, stride);
}

/* Scales that overflow leave nothing pending: the step after runs without updates. */
static void test_overflow(void **state)
{
    (void)state;
    struct plan_of_run plan = delayed(2, 14, "topology.ranks=2", "fp16.enabled=true", "fp16.initial_scale_power=20");
    set(&plan, "fp16.hysteresis=1");
    set(&plan, "fp16.loss_scale_window=3");
    plan.sets[5] = "schedule.delayed_update_after=0";
    struct outcome_of_run want = run(&plan);
    assert_true(want.skipped[0] && !want.skipped[13]);
    plan.sets[1] = stage_sets[3];
    set(&plan, PARAMETERS);
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, 14, "fp16 at stage 3");
}

/* ---- saved and loaded ---- */

static void not_delayed(struct config_zero *knobs)
{
    knobs->delayed_update = false;
}

/* A run that goes on after five steps from what was kept has the losses and the state of one that never stopped. */
static void goes_on_like(const struct outcome_of_run *want, const struct plan_of_run *plan, struct held *held)
{
    struct single single;
    single_open(&single, plan, held);
    for (int s = 5; s < STEPS; s++) {
        struct zero_result result = single_step(&single);
        assert_memory_equal(&result.loss, &want->loss[s], 4);
    }
    assert_int_equal(single_hash(&single), want->hash);
    single_close(&single);
}

static void test_state_carries_what_is_pending(void **state)
{
    (void)state;
    const char *bf16 = "bf16.enabled=true";
    struct plan_of_run plan = delayed(2, STEPS, "topology.ranks=1", bf16, NULL);
    struct outcome_of_run want = run(&plan);
    struct single single;
    struct held held = {0};
    single_open(&single, &plan, NULL);
    for (int s = 0; s < 5; s++) single_step(&single);
    save(&held, &single);
    assert_true(held.progress.pending && held.array[0][STATE_PENDING]);
    single_close(&single);
    for (int stage = 1; stage <= 3; stage++) { /* goes on at another stage */
        plan.sets[1] = stage_sets[stage];
        goes_on_like(&want, &plan, &held);
    }
    /* Not delayed any more: the update that was pending is done at once, as after a live switch. */
    plan.sets[1] = stage_sets[2];
    plan.switch_count = 1;
    plan.switches[0].before_step = 6;
    plan.switches[0].stage = 2;
    plan.switches[0].change = not_delayed;
    want = run(&plan);
    static const char *const offloads[] = {"zero_optimization.offload_optimizer.device=none", OPTIMIZER};
    for (int i = 0; i < 2; i++)
        for (int stage = 1; stage <= 3; stage++) {
            plan.sets[1] = stage_sets[stage];
            plan.sets[3] = offloads[i];
            plan.sets[4] = "schedule.delayed_update=false";
            goes_on_like(&want, &plan, &held);
        }
    release_held(&held);
}

/* ---- a step that fails ---- */

/* Whatever take fails before the ranks agree: the pending update is done once and wholly, and the run goes on. */
static int fail_takes(const struct place *place)
{
    struct plan_of_run plan =
        delayed_at(place, 0, "topology.ranks=1", "bf16.enabled=true", "schedule.update_tile=7500");
    struct single single;
    struct held held = {0};
    struct error err;
    uint64_t want = 0;
    single_open(&single, &plan, NULL);
    for (int s = 0; s < 5; s++) single_step(&single);
    save(&held, &single);
    assert_int_equal(zero_apply_pending(single.zero, zero_schedule(single.zero), &err), 0);
    want = single_hash(&single);
    int takes = 0; /* below the agreement none may fail: that the budget suffices for them was foreseen */
    const struct schedule *schedule = zero_schedule(single.zero);
    for (int i = 0; i < schedule_agreement(schedule); i++) takes += schedule->ops[i].take_count;
    single_close(&single);
    int failures = 0;
    for (int take = 1; take < takes - 8; take += takes / 12) {
        single_open(&single, &plan, &held);
        memory_fail_after(single.zero->memory, (uint64_t)take);
        struct zero_result result = single_step(&single);
        memory_fail_after(single.zero->memory, 0);
        if (result.outcome == ZERO_OUT_OF_MEMORY) {
            failures++;
            assert_false(zero_progress(single.zero).pending);
            assert_int_equal(single_hash(&single), want);
            assert_int_equal(single_step(&single).outcome, ZERO_DONE);
        }
        single_close(&single);
    }
    release_held(&held);
    return failures;
}

static void test_failing_takes(void **state)
{
    (void)state;
    assert_true(fail_takes(&places[3]) > 5);
    assert_true(fail_takes(&places[ALL_AWAY]) > 5);
    assert_true(fail_takes(&places[5]) > 5);
}

/* A read that fails, and again when it is tried again, gives the step up; what was not yet updated is then. */
static void test_failing_read(void **state)
{
    (void)state;
    struct plan_of_run plan = delayed_at(&places[ALL_AWAY], 0, "topology.ranks=1", "bf16.enabled=true", NULL);
    struct single single;
    struct held held = {0};
    struct error err;
    enum { TRIES = 3, ARRAYS = 3 };
    single_open(&single, &plan, NULL);
    for (int s = 0; s < 5; s++) single_step(&single);
    save(&held, &single);
    assert_int_equal(zero_apply_pending(single.zero, zero_schedule(single.zero), &err), 0);
    const uint64_t want = single_hash(&single);
    const struct schedule *schedule = zero_schedule(single.zero);
    uint64_t reads = 0; /* of those that may fail: one block for each array */
    for (int i = 0; i < schedule_agreement(schedule); i++)
        if (schedule->ops[i].kind == OP_SWAP_IN) reads += (uint64_t)schedule->ops[i].take_count;
    single_close(&single);
    for (uint64_t block = 1; block < reads - TRIES * ARRAYS; block += reads / 8) {
        single_open(&single, &plan, &held);
        aio_inject(storage_aio(single.zero->storage, AIO_READ), (struct aio_fault){block, EIO, TRIES * ARRAYS - 1});
        struct zero_result result = single_step(&single);
        assert_int_equal(result.outcome, ZERO_OUT_OF_MEMORY);
        assert_int_equal(result.shortage.tier, TIER_NVME);
        assert_false(zero_progress(single.zero).pending);
        assert_int_equal(single_hash(&single), want);
        assert_int_equal(single_step(&single).outcome, ZERO_DONE);
        single_close(&single);
    }
    release_held(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delays_by_one_step), cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_overflow),           cmocka_unit_test(test_state_carries_what_is_pending),
        cmocka_unit_test(test_failing_takes),      cmocka_unit_test(test_failing_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
