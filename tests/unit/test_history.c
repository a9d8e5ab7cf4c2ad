/* The history: spans in order and found again, bounded memory with sums of what was dropped, memory at any instant, steps and
 * their attempts, the moments of a step, and what was lost. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/past_fixture.h"
#include "tests/support/timeline_fixture.h"

enum { US = 1000, GATHER = 0, BLOCK = 1, REDUCE = 2 };

static const struct past_op ops[] = {{OP_GATHER, 1, 800, false, -1, WAIT_DATA},
                                     {OP_FORWARD, 1, 0, false, 0, WAIT_DATA},
                                     {OP_REDUCE_SCATTER, 1, 800, false, 1, WAIT_DATA},
                                     {OP_BACKWARD, 1, 0, false, 2, WAIT_MEMORY}};

static struct record_buffer started(size_t bytes, int ranks)
{
    struct record_buffer past;
    past_start(&past, bytes, ranks, 1000 * US);
    past_plan(&past, 1, ranks, PURPOSE_TRAIN, ops, 4, 1000 * US);
    return past;
}

static const struct span *span(const struct record_buffer *past, enum lane lane, int64_t number)
{
    const struct span *found = history_span(past->history, 0, lane, number);
    assert_non_null(found);
    return found;
}

static void a_span_opens_and_is_completed(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    past_begin(&past, 0, 1, GATHER, 1900 * US, 2000 * US);
    assert_int_equal(span(&past, LANE_COMM, 0)->ended_ns, 0);
    assert_int_equal(span(&past, LANE_COMM, 0)->kind, OP_GATHER);
    past_finish(&past, 0, 1, GATHER, 1900 * US, 2000 * US, 2080 * US, -1);
    const struct span *gather = span(&past, LANE_COMM, 0);
    assert_int_equal(gather->ended_ns, 2080 * US);
    assert_int_equal(gather->sent_bytes, 100);
    assert_int_equal(gather->unit, 1);
    assert_int_equal(gather->stall, STALL_NONE);
    assert_null(history_span(past.history, 0, LANE_COMM, 1));
    assert_null(history_span(past.history, 1, LANE_COMM, 0));
    past_end(&past);
}

static void a_window_has_the_spans_that_touch_it(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    int64_t first, end;
    for (uint32_t step = 1; step <= 100; step++)
        past_op(&past, 0, step, BLOCK, 1000 * step * US, 1000 * step * US, (1000 * step + 600) * US, -1);
    history_spans(past.history, 0, LANE_COMPUTE, 10600 * US, 12000 * US, &first,
               &end); /* edges that only touch do not count */
    assert_int_equal(first, 10);
    assert_int_equal(end, 11);
    history_spans(past.history, 0, LANE_COMPUTE, 10599 * US, 12001 * US, &first, &end);
    assert_int_equal(first, 9);
    assert_int_equal(end, 12);
    history_spans(past.history, 0, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    assert_int_equal(first, 0);
    assert_int_equal(end, 100);
    history_spans(past.history, 0, LANE_COMPUTE, 10700 * US, 10900 * US, &first, &end);
    assert_int_equal(first, end);
    past_end(&past);
}

static void the_newest_attempt_of_an_operation_is_found(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    past_plan(&past, 2, 1, PURPOSE_EVALUATE, ops, 4, 1000 * US);
    past_op(&past, 0, 7, BLOCK, 2000 * US, 2000 * US, 2100 * US, -1);
    past_op(&past, 0, 8, BLOCK, 3000 * US, 3000 * US, 3100 * US, -1); /* number 1 */
    past_op(&past, 0, 8, BLOCK, 4000 * US, 4000 * US, 4100 * US, -1); /* taken again: number 2 */
    past_fold(&past, 0, 5000 * US, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {2, 8, BLOCK, 5000 * US}});
    past_op(&past, 0, 9, BLOCK, 6000 * US, 6000 * US, 6100 * US, -1);
    assert_int_equal(history_span_of(past.history, 0, LANE_COMPUTE, 8, BLOCK), 2);
    assert_int_equal(history_span_of(past.history, 0, LANE_COMPUTE, 7, BLOCK), 0);
    assert_int_equal(history_span_of(past.history, 0, LANE_COMPUTE, 8, 3), -1);
    assert_int_equal(history_span_of(past.history, 0, LANE_COMPUTE, 10, BLOCK), -1);
    past_end(&past);
}

static void waits_have_their_causes(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    past_op(&past, 0, 1, GATHER, 2000 * US, 2000 * US, 2080 * US, -1);
    past_op(&past, 0, 1, BLOCK, 2000 * US, 2080 * US, 2200 * US, GATHER);
    past_op(&past, 0, 1, REDUCE, 2080 * US, 2200 * US, 2300 * US, BLOCK);
    past_op(&past, 0, 1, 3, 2200 * US, 2300 * US, 2400 * US, REDUCE);
    assert_int_equal(span(&past, LANE_COMPUTE, 0)->stall, STALL_GATHER);
    assert_int_equal(span(&past, LANE_COMM, 1)->stall, STALL_COMPUTE);
    assert_int_equal(span(&past, LANE_COMPUTE, 1)->stall, STALL_BUCKET);
    struct history_load load;
    history_load(past.history, 0, LANE_COMPUTE, 2040 * US, 2250 * US, &load);
    assert_false(load.unknown);
    assert_int_equal(load.waited_ns[STALL_GATHER], 40 * US);
    assert_int_equal(load.waited_ns[STALL_BUCKET], 50 * US); /* of a span that starts after the window */
    assert_int_equal(load.busy_ns[PHASE_FORWARD], 120 * US);
    past_end(&past);
}

static void what_is_in_flight_counts_up_to_now(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    struct history_load load;
    past_op(&past, 0, 1, BLOCK, 1500 * US, 1500 * US, 1600 * US, -1);
    past_begin(&past, 0, 1, 3, 1700 * US, 1700 * US);
    past_hold(&past, 0, CATEGORY_PARAMETERS, 8, 1900 * US); /* the newest record */
    history_load(past.history, 0, LANE_COMPUTE, 1000 * US, 5000 * US, &load);
    assert_int_equal(load.busy_ns[PHASE_FORWARD], 100 * US);
    assert_int_equal(load.busy_ns[PHASE_BACKWARD], 200 * US);
    history_load(past.history, 0, LANE_COMPUTE, 1900 * US, 5000 * US, &load);
    assert_true(load.unknown);
    past_end(&past);
}

/* Steps of 1 ms: gather 0..300 us, block 300..800 us. */
static void many_steps(struct record_buffer *past, uint32_t steps)
{
    for (uint32_t step = 1; step <= steps; step++) {
        uint64_t at = 1000u * US * (uint64_t)step;
        for (int rank = 0; rank < past->model->ranks; rank++) {
            past_step(past, rank, step, at);
            past_op(past, rank, step, GATHER, at, at, at + 300 * US, -1);
            past_op(past, rank, step, BLOCK, at, at + 300 * US, at + 800 * US, GATHER);
            past_hold(past, rank, CATEGORY_ACTIVATIONS, step % 2 ? 5000 : 4000, at + 400 * US);
            past_step_end(past, rank, step, at + 800 * US);
        }
    }
}

static void near(uint64_t value, double wanted)
{
    assert_true((double)value > wanted * 0.999 && (double)value < wanted * 1.001);
}

static void old_operations_are_dropped_and_their_sums_stay(void **state)
{
    (void)state;
    struct record_buffer past = started(256 << 10, 2);
    struct history_load load;
    many_steps(&past, 20000);
    int64_t first, end;
    history_spans(past.history, 0, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    assert_true(first > 15000);
    assert_int_equal(end, 20000);
    assert_true(history_whole_from(past.history) > 15000000u * (uint64_t)US);
    for (int rank = 0; rank < 2; rank++) {
        history_load(past.history, rank, LANE_COMPUTE, 0, UINT64_MAX, &load);
        near(load.busy_ns[PHASE_FORWARD], 20000.0 * 500 * US);
        near(load.waited_ns[STALL_GATHER], 20000.0 * 300 * US);
        history_load(past.history, rank, LANE_COMM, 0, UINT64_MAX, &load);
        near(load.busy_ns[BUSY_GATHER], 20000.0 * 300 * US);
    }
    uint64_t sum = 0; /* columns add up to the whole */
    for (int column = 0; column < 97; column++) {
        uint64_t from = (1000 + 20000 * (uint64_t)column / 97) * 1000 * US,
                 to = (1000 + 20000 * (uint64_t)(column + 1) / 97) * 1000 * US;
        history_load(past.history, 1, LANE_COMPUTE, from - 999000 * US, to - 999000 * US, &load);
        sum += load.busy_ns[PHASE_FORWARD];
    }
    near(sum, 20000.0 * 500 * US);
    past_end(&past);
}

/* From afar a gather ahead is still one, and what another program sends is no agreement. */
static void sums_keep_kinds_of_work_apart(void **state)
{
    static const struct past_op kinds[] = {
        {OP_GATHER, 1, 800, false, -1, WAIT_DATA},  {OP_GATHER, 2, 800, true, -1, WAIT_DATA},
        {OP_REFRESH, 1, 800, false, -1, WAIT_DATA}, {OP_AGREE, -1, 8, false, -1, WAIT_DATA},
        {OP_ALL_TO_ALL, 1, 8, false, -1, WAIT_DATA}, {OP_QUANTIZE, 1, 0, false, -1, WAIT_DATA},
        {OP_FORWARD, 1, 0, false, -1, WAIT_DATA}};
    static const enum busy wanted[] = {BUSY_GATHER, BUSY_GATHER_AHEAD, BUSY_REFRESH, BUSY_AGREE,
                                       BUSY_OTHER,  BUSY_QUANTIZE,     (enum busy)PHASE_FORWARD};
    enum { KINDS = sizeof kinds / sizeof *kinds, STEPS = 20000 };
    (void)state;
    struct record_buffer past;
    past_start(&past, 256 << 10, 1, 1000 * US);
    past_plan(&past, 1, 1, PURPOSE_TRAIN, kinds, KINDS, 1000 * US);
    for (uint32_t step = 1; step <= STEPS; step++) {
        const uint64_t begin = 1000u * US * (uint64_t)step;
        past_step(&past, 0, step, begin);
        for (uint32_t i = 0; i < KINDS; i++) {
            const uint64_t at = begin + 100 * US * i;
            past_op(&past, 0, step, i, at, at, at + 10 * US * (i + 1), -1);
        }
        past_step_end(&past, 0, step, begin + 900 * US);
    }
    assert_true(history_whole_from(past.history) > 1000u * US * (uint64_t)STEPS / 2); /* the rest are sums */
    for (uint32_t i = 0; i < KINDS; i++) {
        struct history_load load;
        history_load(past.history, 0, op_lane(kinds[i].kind), 0, UINT64_MAX, &load);
        near(load.busy_ns[wanted[i]], (double)STEPS * 10 * US * (i + 1));
    }
    past_end(&past);
}

static void columns_from_spans_are_exact(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    struct history_load load;
    many_steps(&past, 500);
    for (uint32_t step = 3; step < 490; step += 7) {
        history_load(past.history, 0, LANE_COMPUTE, (1000u * step + 450) * US, (1000u * (step + 5) + 450) * (uint64_t)US,
                  &load);
        assert_int_equal(load.busy_ns[PHASE_FORWARD], 5 * 500 * US);
        assert_int_equal(load.waited_ns[STALL_GATHER], 5 * 300 * US);
    }
    past_end(&past);
}

static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void sixty_four_ranks_keep_the_bound(void **state)
{
    (void)state;
    size_t before = allocated_bytes();
    struct record_buffer past = started(8 << 20, 64);
    many_steps(&past, 1500);
    size_t after = allocated_bytes();                                           /* 0 under a sanitizer */
    if (after) assert_in_range(after - before, 4 << 20, (8 << 20) + (1 << 20)); /* with the model beside it */
    for (int rank = 0; rank < 64; rank++) {
        int64_t first, end;
        history_spans(past.history, rank, LANE_COMM, 0, UINT64_MAX, &first, &end);
        assert_int_equal(end, 1500);
        assert_true(end - first > 50);
    }
    past_end(&past);
}

static void memory_is_known_at_any_instant(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    uint64_t when;
    past_hold(&past, 0, CATEGORY_PARAMETERS, 1000, 2000 * US);
    for (uint64_t i = 0; i < 1000; i++)
        past_hold(&past, 0, CATEGORY_ACTIVATIONS, i == 400 ? 9999 : i % 10, (3000 + i) * US);
    assert_false(history_held(past.history, 0, TIER_DEVICE, 2000 * US).known); /* just before the first */
    assert_int_equal(history_held(past.history, 0, TIER_DEVICE, 2001 * US).live_bytes, 1000);
    assert_int_equal(history_held(past.history, 0, TIER_DEVICE, 3401 * US).held_bytes[CATEGORY_ACTIVATIONS], 9999);
    assert_int_equal(history_held(past.history, 0, TIER_DEVICE, 3400 * US).live_bytes, 1009);
    assert_false(history_held(past.history, 0, TIER_HOST, 3400 * US).known);
    struct run_instant full = history_fullest(past.history, 0, TIER_DEVICE, 2500 * US, 9000 * US, &when);
    assert_int_equal(full.live_bytes, 10999);
    assert_int_equal(full.held_bytes[CATEGORY_PARAMETERS], 1000);
    assert_int_equal(when, 3400 * US);
    full =
        history_fullest(past.history, 0, TIER_DEVICE, 3401 * US, 3402 * US, &when); /* from before: the 9999 still stands */
    assert_int_equal(full.live_bytes, 10999);
    assert_int_equal(when, 3401 * US);
    full = history_fullest(past.history, 0, TIER_DEVICE, 3500 * US, 3505 * US, &when);
    assert_int_equal(full.live_bytes, 1009);
    assert_int_equal(when, 3500 * US);
    past_end(&past);
}

static void the_fullest_of_long_ago_is_remembered(void **state)
{
    (void)state;
    struct record_buffer past = started(256 << 10, 1);
    uint64_t when;
    for (uint64_t i = 0; i < 100000; i++)
        past_hold(&past, 0, CATEGORY_ACTIVATIONS, i == 777 ? 9999 : 10 + i % 10, (2000 + i) * US);
    assert_false(history_held(past.history, 0, TIER_DEVICE, 2778 * US).known);
    struct run_instant full = history_fullest(past.history, 0, TIER_DEVICE, 0, UINT64_MAX, &when);
    assert_int_equal(full.live_bytes, 9999);
    assert_int_equal(when, 2777 * US);
    full = history_fullest(past.history, 0, TIER_DEVICE, 50000 * US, 60000 * US, &when);
    assert_int_equal(full.live_bytes, 19);
    past_end(&past);
}

static void a_step_is_over_when_all_ranks_ended_it(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 2);
    past_step(&past, 1, 5, 2000 * US);
    past_step(&past, 0, 5, 2010 * US);
    past_step_end(&past, 0, 5, 2900 * US);
    assert_int_equal(history_step(past.history, 0)->ended_ns, 0);
    past_step(&past, 0, 6, 2950 * US); /* a rank may be ahead */
    past_step_end(&past, 1, 5, 3000 * US);
    past_step(&past, 1, 6, 3050 * US);
    assert_int_equal(history_step_count(past.history), 2);
    assert_int_equal(history_step(past.history, 0)->begun_ns, 2000 * US);
    assert_int_equal(history_step(past.history, 0)->ended_ns, 3000 * US);
    assert_int_equal(history_step_at(past.history, 2949 * US)->step, 5);
    assert_int_equal(history_step_at(past.history, 9000 * US)->step, 6);
    assert_null(history_step_at(past.history, 1999 * US));
    past_end(&past);
}

static void a_step_taken_again_has_two_entries(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 2);
    for (uint64_t attempt = 0; attempt < 2; attempt++)
        for (int rank = 0; rank < 2; rank++) {
            past_step(&past, rank, 5, (2000 + 1000 * attempt) * US + (uint64_t)rank);
            if (rank) past_step_end(&past, 0, 5, (2500 + 1000 * attempt) * US);
            if (rank) past_step_end(&past, 1, 5, (2600 + 1000 * attempt) * US);
        }
    assert_int_equal(history_step_count(past.history), 2);
    assert_int_equal(history_step(past.history, 0)->ended_ns, 2600 * US);
    assert_int_equal(history_step_numbered(past.history, 5)->begun_ns, 3000 * US);
    assert_int_equal(history_step_numbered(past.history, 5)->ended_ns, 3600 * US);
    assert_null(history_step_numbered(past.history, 4));
    past_end(&past);
}

/* Where there is no room for all moments, those of the newest operations are kept, up to the time asked for. */
static void moments_of_the_newest_operations_are_kept(void **state)
{
    enum { ROOM = 1024, FEW = 12 };
    static uint64_t all[ROOM], few[FEW];
    struct folded run = folded_example(8);
    const struct history_step *step = history_step_numbered(run.history, 7);
    (void)state;
    for (int rank = -1; rank < 4; rank++) {
        const int count = history_moments(run.history, rank, step, step->ended_ns, all, ROOM);
        assert_true(count > 60);
        for (int m = 20; m < count; m += 13) {
            const int kept = history_moments(run.history, rank, step, all[m], few, FEW);
            assert_true(kept > 0 && kept <= FEW);
            assert_int_equal(few[kept - 1], all[m]);
            for (int i = 1; i < kept; i++) assert_true(few[i - 1] < few[i]);
        }
    }
    folded_free(&run);
}

static void what_was_lost_is_unknown(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 2);
    struct history_load load;
    many_steps(&past, 10);
    past_fold(&past, 1, 12000 * US, (struct trace_record){.kind = TRACE_GAP, .gap = {17, 11000 * US}});
    past_op(&past, 0, 13, BLOCK, 13000 * US, 13000 * US, 13500 * US, -1);
    past_op(&past, 1, 13, BLOCK, 13000 * US, 13000 * US, 13500 * US, -1);
    assert_true(history_has_gap(past.history, -1, 11500 * US, 11600 * US));
    assert_false(history_has_gap(past.history, -1, 12000 * US, 13000 * US));
    history_load(past.history, 1, LANE_COMPUTE, 10900 * US, 11001 * US, &load);
    assert_true(load.unknown);
    history_load(past.history, 0, LANE_COMPUTE, 10900 * US, 11001 * US, &load); /* another rank lost nothing */
    assert_false(load.unknown);
    past_end(&past);
}

static void an_operation_without_end_is_unknown(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    struct history_load load;
    past_begin(&past, 0, 1, BLOCK, 2000 * US, 2000 * US); /* its end was lost */
    past_op(&past, 0, 2, BLOCK, 3000 * US, 3000 * US, 3100 * US, -1);
    past_finish(&past, 0, 2, 3, 3200 * US, 3200 * US, 3300 * US, -1); /* its beginning was */
    assert_int_equal(span(&past, LANE_COMPUTE, 0)->step, 2);
    assert_int_equal(span(&past, LANE_COMPUTE, 1)->started_ns, 3200 * US);
    history_load(past.history, 0, LANE_COMPUTE, 2500 * US, 2600 * US, &load);
    assert_true(load.unknown);
    past_end(&past);
}

static void times_that_cannot_be_are_dropped(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    int64_t first, end;
    past_op(&past, 0, 1, BLOCK, 2000 * US, 2000 * US, 2500 * US, -1);
    past_op(&past, 0, 1, 3, 2000 * US, 2100 * US, 2200 * US, -1);     /* inside the one before */
    past_finish(&past, 0, 1, 3, 9000 * US, 9000 * US, 3000 * US, -1); /* ends before it starts */
    past_op(&past, 0, 77, 400, 3000 * US, 3000 * US, 3100 * US, -1);  /* no such operation */
    past_op(&past, 0, 1, 3, 0, 4000 * US, 4100 * US, 1000);           /* issued long ago, waited for nothing that is */
    history_spans(past.history, 0, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    assert_int_equal(end - first, 2);
    assert_int_equal(span(&past, LANE_COMPUTE, 1)->issued_ns, 2500 * US);
    assert_int_equal(span(&past, LANE_COMPUTE, 1)->waited_on, -1);
    past_end(&past);
}

static void times_at_the_end_of_64_bits_end_too(void **state)
{
    (void)state;
    struct record_buffer past = started(0, 1);
    struct history_load load;
    uint64_t late = UINT64_MAX - 5;
    past_op(&past, 0, 1, BLOCK, 2000 * US, late - 100, late, -1);
    past_hold(&past, 0, CATEGORY_ACTIVATIONS, 5000, late);
    history_load(past.history, 0, LANE_COMPUTE, 0, UINT64_MAX, &load);
    assert_int_equal(load.busy_ns[PHASE_FORWARD], 100);
    assert_int_equal(history_fullest(past.history, 0, TIER_DEVICE, 0, UINT64_MAX, NULL).live_bytes, 5000);
    past_end(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_opens_and_is_completed),
        cmocka_unit_test(a_window_has_the_spans_that_touch_it),
        cmocka_unit_test(the_newest_attempt_of_an_operation_is_found),
        cmocka_unit_test(waits_have_their_causes),
        cmocka_unit_test(what_is_in_flight_counts_up_to_now),
        cmocka_unit_test(old_operations_are_dropped_and_their_sums_stay),
        cmocka_unit_test(sums_keep_kinds_of_work_apart),
        cmocka_unit_test(columns_from_spans_are_exact),
        cmocka_unit_test(sixty_four_ranks_keep_the_bound),
        cmocka_unit_test(memory_is_known_at_any_instant),
        cmocka_unit_test(the_fullest_of_long_ago_is_remembered),
        cmocka_unit_test(a_step_is_over_when_all_ranks_ended_it),
        cmocka_unit_test(a_step_taken_again_has_two_entries),
        cmocka_unit_test(moments_of_the_newest_operations_are_kept),
        cmocka_unit_test(what_was_lost_is_unknown),
        cmocka_unit_test(an_operation_without_end_is_unknown),
        cmocka_unit_test(times_that_cannot_be_are_dropped),
        cmocka_unit_test(times_at_the_end_of_64_bits_end_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
