/* Memory, buckets, shards and schedule beyond their frames: pictures against bytes, every size, and their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/observe/cells.h"
#include "engine/observe/totals.h"
#include "engine/trace/source.h"
#include "tui/draw/output.h"
#include "tui/memory/slots.h"
#include "tui/screen/screen.h"

struct record_buffer {
    struct run_model *model;
    struct history *history;
};

static const enum view_id own[] = {VIEW_MEMORY, VIEW_TIERS, VIEW_BUCKETS, VIEW_SHARDS, VIEW_SCHEDULE};
enum { OWN = sizeof own / sizeof own[0], RECORDS_ALL = 1 << 30 };

/* The first `records` of the example. */
static struct record_buffer past_of(int records)
{
    struct record_buffer past = {run_model_new(&(struct run_model_options){0}), history_new(0)};
    struct source *source;
    struct trace_record record;
    struct error err;
    if (source_open_file(&source, "docs/example.zlt", &err)) fail_msg("%s", err.text);
    while (records-- > 0 && source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(past.model, &record);
        history_fold(past.history, past.model, &record);
    }
    source_close(source);
    return past;
}

static void record_buffer_free(struct record_buffer *past)
{
    history_free(past->history);
    run_model_free(past->model);
}

/* ---- pictures ---- */

static int count_of(const enum slot slots[], int count, enum slot slot)
{
    int found = 0;
    for (int i = 0; i < count; i++) found += slots[i] == slot;
    return found;
}

/* Every rank keeps its own part of what is sharded, and no other; all together keep each part once. */
static void ranks_own_slices_of_every_unit(void **state)
{
    struct record_buffer past = past_of(RECORDS_ALL); /* ends at stage 3 */
    const struct run_schedule *plan = run_training(past.model);
    struct unit_keep keep[16];
    const int units = units_of(&plan->ops), ranks = plan->ops.ranks;
    (void)state;
    assert_int_equal(units, 6);
    units_keep(&plan->ops, keep, units);
    for (int unit = 0; unit < units; unit++) {
        int owners[8] = {0};
        for (int rank = 0; rank < ranks; rank++) {
            const struct progress at = progress_of(past.model, rank);
            struct unit_cell cells[16];
            enum slot slots[8];
            cells_of(&at, cells, units);
            slots_fill(slots, 8, ARRAY_PARAMETERS, &keep[unit], &cells[unit], rank, ranks);
            for (int i = 0; i < 8; i++) owners[i] += slots[i] == SLOT_KEPT;
            assert_int_equal(count_of(slots, 8, SLOT_KEPT), 8 / ranks);
            slots_fill(slots, 8, ARRAY_OPTIMIZER, &keep[unit], &cells[unit], rank, ranks);
            assert_int_equal(count_of(slots, 8, SLOT_KEPT), 8 / ranks);
            slots_fill(slots, 8, ARRAY_GRADIENT, &keep[unit], &cells[unit], rank, ranks);
            assert_int_equal(count_of(slots, 8, SLOT_KEPT), 8 / ranks); /* reduced in the last step */
        }
        for (int i = 0; i < 8; i++) assert_int_equal(owners[i], 1);
        assert_int_equal(keep[unit].parameter_bytes * ranks, keep[unit].elems * 4);
    }
    record_buffer_free(&past);
}

/* What a picture shows as here is what the bytes say: some records long, at every record. */
static void pictures_agree_with_bytes(void **state)
{
    (void)state;
    int borrowed = 0, away = 0;
    for (int records = 5000; records < 7000; records += 97) {
        struct record_buffer past = past_of(records);
        const struct progress at = progress_of(past.model, 1);
        struct unit_keep keep[16];
        struct unit_cell cells[16];
        const int units = units_of(&at.plan->ops);
        units_keep(&at.plan->ops, keep, units);
        cells_of(&at, cells, units);
        for (int unit = 0; unit < units; unit++) {
            enum slot slots[4];
            slots_fill(slots, 4, ARRAY_PARAMETERS, &keep[unit], &cells[unit], 1, 4);
            const bool here = slots[0] != SLOT_AWAY;
            assert_int_equal(here, cells[unit].gathered_bytes > 0 || !keep[unit].shards_parameters);
            const struct mark mark = mark_of(ARRAY_PARAMETERS, &keep[unit], &cells[unit]);
            assert_int_equal(here, strchr("PL#>", mark.letter) && !(mark.letter == '#' && !here));
            borrowed += slots[0] == SLOT_BORROWED || slots[0] == SLOT_FLIGHT || slots[0] == SLOT_USED;
            away += !here;
        }
        record_buffer_free(&past);
    }
    assert_true(borrowed > 5 && away > 5);
}

/* ---- times ---- */

static void times_are_those_of_the_records(void **state)
{
    struct record_buffer past = past_of(RECORDS_ALL);
    struct source *source;
    struct trace_record record;
    struct error err;
    uint64_t sum_ns = 0, longest_ns = 0, peers_ns = 0;
    int slowest = -1, ends = 0;
    const int op = 19;
    (void)state;
    if (source_open_file(&source, "docs/example.zlt", &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) {
        const struct trace_of_op_end *end = &record.op_end;
        if (record.kind != TRACE_OP_END || end->step != 6 || (int)end->op != op) continue;
        const uint64_t took_ns = record.time_ns - end->started_ns;
        ends++;
        sum_ns += took_ns;
        peers_ns += end->peers_ns;
        if (took_ns > longest_ns) longest_ns = took_ns, slowest = record.rank;
    }
    source_close(source);
    const struct op_times times = op_times_of(past.history, run_training(past.model), 6, op, UINT64_MAX, -1);
    assert_int_equal(ends, 4);
    assert_int_equal(times.ranks, ends);
    assert_int_equal(times.mean_ns, sum_ns / 4);
    assert_int_equal(times.peers_ns, peers_ns / 4);
    assert_int_equal(times.longest_ns, longest_ns);
    assert_int_equal(times.slowest, slowest);
    assert_int_equal(op_times_of(past.history, run_training(past.model), 6, op, 1, -1).ranks, 0); /* nothing had ended then */
    assert_int_equal(whole_step_of(past.model, run_training(past.model)), 8);
    record_buffer_free(&past);
}

/* ---- sizes ---- */

/* At every size and moment, for every rank that the state may name; the sanitizers watch. */
static void views_draw_at_every_size(void **state)
{
    static const int moments[] = {0, 3, 40, 1500, 4400, 5100, 5555, 6200, RECORDS_ALL};
    (void)state;
    for (size_t m = 0; m < sizeof moments / sizeof moments[0]; m++) {
        struct record_buffer past = past_of(moments[m]);
        for (int size = 0; size < 40; size++)
            for (int v = 0; v < OWN; v++) {
                struct surface surface;
                struct view_state view_state = {.view = own[v],
                                                .focus = own[v],
                                                .units = (enum units)(size % UNITS),
                                                .rank = size - 2,
                                                .live = size & 4,
                                                .selected = {.known = size & 8, .op = (uint32_t)size * 3}};
                view_state.row[own[v]] = size * 2 - 3;
                if (size % 5 == 0) strcpy(view_state.filter, size % 2 ? "gather" : "lane comm");
                assert_true(
                    surface_init(&surface, 80 + size * 7, 24 + size * 2, (enum theme)(size % THEMES), size & 2));
                view_draw(past.model, past.history, &view_state, &surface);
                view_state.view = VIEW_OVERVIEW;
                view_draw(past.model, past.history, &view_state, &surface);
                surface_release(&surface);
            }
        record_buffer_free(&past);
    }
}

/* ---- keys ---- */

static bool press(struct record_buffer *past, struct view_state *state, enum action action)
{
    const struct scene scene = {past->model, past->history, state};
    const struct key_row key = {.action = action};
    return view_of(state->view)->act(state, &scene, &key);
}

static void ranks_go_round(void **state)
{
    struct record_buffer past = past_of(RECORDS_ALL);
    (void)state;
    for (int v = 0; v < OWN; v++) {
        struct view_state view_state = {.view = own[v]};
        for (int i = 1; i <= 5; i++) {
            assert_true(press(&past, &view_state, ACTION_NEXT_RANK));
            assert_int_equal(view_state.rank, i % 4);
        }
        assert_true(press(&past, &view_state, ACTION_PREVIOUS_RANK));
        assert_int_equal(view_state.rank, 0);
        assert_false(press(&past, &view_state, ACTION_UNITS)); /* not theirs */
    }
    record_buffer_free(&past);
}

static void a_list_follows_until_one_moves_in_it(void **state)
{
    struct record_buffer past = past_of(5555);
    struct view_state view_state = {.view = VIEW_SCHEDULE};
    (void)state;
    assert_true(press(&past, &view_state, ACTION_FIRST));
    assert_int_equal(view_state.row[VIEW_SCHEDULE], 1);
    assert_true(press(&past, &view_state, ACTION_UP)); /* stays at the first */
    assert_int_equal(view_state.row[VIEW_SCHEDULE], 1);
    assert_true(press(&past, &view_state, ACTION_DOWN));
    assert_true(press(&past, &view_state, ACTION_ENTER));
    assert_true(view_state.selected.known && view_state.selected.op == 1);
    assert_true(press(&past, &view_state, ACTION_DOWN)); /* what is open goes along */
    assert_int_equal(view_state.selected.op, 2);
    assert_true(press(&past, &view_state, ACTION_CLOSE));
    assert_false(view_state.selected.known);
    assert_int_equal(view_state.row[VIEW_SCHEDULE], 3);
    assert_true(press(&past, &view_state, ACTION_CLOSE)); /* follow again */
    assert_int_equal(view_state.row[VIEW_SCHEDULE], 0);
    assert_false(press(&past, &view_state, ACTION_CLOSE));
    assert_true(press(&past, &view_state, ACTION_LAST));
    const int last = view_state.row[VIEW_SCHEDULE];
    assert_true(press(&past, &view_state, ACTION_PAGE_DOWN));
    assert_int_equal(view_state.row[VIEW_SCHEDULE], last);
    record_buffer_free(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_own_slices_of_every_unit),
        cmocka_unit_test(pictures_agree_with_bytes),
        cmocka_unit_test(times_are_those_of_the_records),
        cmocka_unit_test(views_draw_at_every_size),
        cmocka_unit_test(ranks_go_round),
        cmocka_unit_test(a_list_follows_until_one_moves_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
