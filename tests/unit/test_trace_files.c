/* Trace files and sources: a file cut or damaged anywhere yields exactly what is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/trace/check.h"
#include "engine/trace/chunk.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"
#include "tests/support/trace_fixture.h"

/* A small trace of `steps` steps: run header, then per step a begin, operations and an end. Returns the records. */
static int write_small_trace(const char *path, uint32_t steps)
{
    struct trace_file *file;
    struct error err;
    int records = 0;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    struct trace_record run = {
        .kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = 1, .run.json = {"{\"ranks\": 1}", 12}};
    records += !trace_file_put(file, &run, &err);
    for (uint32_t step = 1; step <= steps; step++) {
        struct trace_record begin = {
            .kind = TRACE_STEP_BEGIN, .time_ns = step * 100, .step_begin = {.step = step, .schedule = 1}};
        struct trace_record end = {
            .kind = TRACE_STEP_END, .time_ns = step * 100 + 50, .step_end = {.step = step, .loss = 2.5f}};
        records += !trace_file_put(file, &begin, &err);
        for (uint32_t i = 0; i < 5; i++) {
            struct trace_record op = op_end(0, i, step * 100 + i);
            records += !trace_file_put(file, &op, &err);
        }
        records += !trace_file_put(file, &end, &err);
        if (step % 3 == 0) trace_file_tick(file, clock_ns() + 1000000000, &err); /* three steps share a chunk */
    }
    assert_int_equal(trace_file_close(file, &err), 0);
    return records;
}

/* Reads to the end; returns the records read, the last answer in *result. */
static int read_trace(const char *path, enum source_result *result, bool *torn)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    int records = 0;
    *torn = false;
    if (source_open_file(&source, path, &err)) {
        assert_int_equal(err.status, STATUS_INPUT);
        *result = SOURCE_BAD;
        return -1;
    }
    while ((*result = source_next(source, &record)) == SOURCE_RECORD) records++;
    *torn = source_torn(source);
    if (*result == SOURCE_BAD) assert_non_null(strstr(source_error(source), "damaged"));
    source_close(source);
    return records;
}

static void a_file_cut_anywhere_yields_its_whole_chunks(void **state)
{
    (void)state;
    const char *path = in_folder("cut");
    int all = write_small_trace(path, 7);
    struct bytes whole = load(path);
    assert_int_equal(all, 1 + 7 * 7);
    int before = -1;
    for (size_t cut = 0; cut <= whole.count; cut++) {
        enum source_result result;
        bool torn;
        save(path, whole.at, cut);
        int records = read_trace(path, &result, &torn);
        if (cut < STREAM_HEAD_BYTES) {
            assert_int_equal(records, -1);
            continue;
        }
        assert_int_equal(result, SOURCE_END);
        assert_true(records >= before &&
                    (records == 0 || records % 7 == 1)); /* chunks: the run header, then seven for a step */
        if (cut == whole.count) assert_false(torn);
        before = records;
    }
    assert_int_equal(before, all);
    bytes_release(&whole);
    unlink(path);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    const char *path = in_folder("flip");
    int all = write_small_trace(path, 2);
    struct bytes whole = load(path);
    size_t index_at = 0; /* the index is not needed to read, so a flip in it may pass unseen */
    memcpy(&index_at, whole.at + whole.count - INDEX_LAST_BYTES, 8);
    for (size_t bit = 0; bit < index_at * 8; bit++) {
        if (bit / 8 >= 12 && bit / 8 < 16) continue; /* flags of the stream: nothing depends on them in a file */
        enum source_result result;
        bool torn;
        whole.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        save(path, whole.at, whole.count);
        whole.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        int records = read_trace(path, &result, &torn);
        assert_int_equal(result, SOURCE_BAD);
        assert_true(records < all);
    }
    bytes_release(&whole);
    unlink(path);
}

static void a_foreign_file_is_refused_in_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"", 0, "empty"},
        {"GIF89a, certainly not a trace", 29, "not a zerolab trace"},
        {"zer", 3, "cut off"},
        {"zerolab\n\x07\0\0\0\0\0\0\0", 16, "version 7"},
    };
    const char *path = in_folder("foreign");
    struct source *source;
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save(path, cases[i].content, cases[i].bytes);
        assert_int_equal(source_open_file(&source, path, &err), STATUS_INPUT);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_non_null(strstr(err.text, path));
        assert_null(strchr(err.text, '\n'));
    }
    unlink(path);
    assert_int_equal(source_open_file(&source, path, &err), STATUS_INPUT);
    assert_int_equal(source_open_file(&source, folder, &err), STATUS_INPUT);
    assert_null(source);
}

static void a_growing_file_is_followed(void **state)
{
    (void)state;
    const char *path = in_folder("growing");
    struct trace_file *file;
    struct source *source;
    struct trace_record record = op_end(2, 0, 0), got;
    struct error err;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    assert_int_equal(source_open_file(&source, path, &err), 0);
    assert_int_equal(source_fd(source), -1);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(source_next(source, &got), SOURCE_END);
        record.op_end.op = i;
        const uint64_t before_ns = clock_ns();
        trace_file_put(file, &record, &err);
        trace_file_tick(file, before_ns, &err); /* the time of a pass is from before its first record was put */
        assert_int_equal(source_next(source, &got), SOURCE_END);
        trace_file_tick(file, clock_ns() + 1000000000, &err); /* as if a second had passed */
        assert_int_equal(source_next(source, &got), SOURCE_RECORD);
        assert_int_equal(got.op_end.op, i);
    }
    trace_file_close(file, &err);
    assert_int_equal(source_next(source, &got), SOURCE_END);
    assert_false(source_torn(source));
    source_close(source);
    unlink(path);
}

static void seek_to(const char *path, uint32_t step)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    const bool there = step <= 30 || step == SOURCE_LAST_STEP;
    assert_int_equal(source_open_file(&source, path, &err), 0);
    for (int i = 0; i < 20; i++) source_next(source, &record);
    assert_int_equal(source_resume_step(source, step, &err), there ? 0 : STATUS_INPUT);
    assert_int_equal(source_next(source, &record), SOURCE_RECORD);
    if (there) assert_int_equal(record.kind, step ? TRACE_STEP_BEGIN : TRACE_RUN);
    if (there && step) assert_int_equal(record.step_begin.step, step < 30 ? step : 30);
    source_close(source);
}

static void seeking_lands_on_a_step_with_and_without_an_index(void **state)
{
    (void)state;
    static const uint32_t steps[] = {0, 1, 2, 17, 30, 99, SOURCE_LAST_STEP};
    const char *path = in_folder("seek");
    write_small_trace(path, 30);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) seek_to(path, steps[i]);
    struct stat what;
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(truncate(path, what.st_size - 1), 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) seek_to(path, steps[i]);
    unlink(path);
}

static void a_chunk_that_compresses_well_is_compressed(void **state)
{
    (void)state;
    const char *path = in_folder("compressed");
    struct trace_file *file;
    struct error err;
    enum { RECORDS = 5000 };
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct trace_record record = op_end(0, i, 1000 + i);
        assert_int_equal(trace_file_put(file, &record, &err), 0);
    }
    assert_int_equal(trace_file_close(file, &err), 0);
    struct bytes whole = load(path);
    print_message("           %d records in %zu bytes\n", RECORDS, whole.count);
    assert_true(whole.count < (size_t)RECORDS * 84 / 2);
    enum source_result result;
    bool torn;
    assert_int_equal(read_trace(path, &result, &torn), RECORDS);
    bytes_release(&whole);
    unlink(path);
}

/* --- check ---------------------------------------------------------------------------------------------------------- */

static void put_for_check(struct trace_file *file, struct trace_record record)
{
    static uint64_t time_ns;
    struct error err;
    record.time_ns = record.time_ns ? record.time_ns : ++time_ns;
    assert_int_equal(trace_file_put(file, &record, &err), 0);
}

static void a_check_names_what_is_missing(void **state)
{
    (void)state;
    const char *path = in_folder("check");
    struct trace_file *file;
    struct trace_check check;
    struct error err;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    put_for_check(file, (struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL});
    put_for_check(file, (struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {.schedule = 4}});
    for (uint16_t rank = 0; rank < 2; rank++) {
        put_for_check(file, (struct trace_record){.kind = TRACE_STEP_BEGIN, .rank = rank, .step_begin = {.step = 1}});
        put_for_check(file, (struct trace_record){.kind = TRACE_OP_BEGIN, .rank = rank, .op_begin = {.schedule = 4}});
        put_for_check(file, (struct trace_record){.kind = TRACE_OP_END, .rank = rank, .op_end = {.schedule = 4}});
        put_for_check(file, (struct trace_record){.kind = TRACE_STEP_END, .rank = rank, .step_end = {.step = 1}});
    }
    put_for_check(
        file, (struct trace_record){.kind = TRACE_END, .rank = TRACE_RANK_ALL, .end = {.outcome = OUTCOME_FINISHED}});
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_int_equal(trace_check_status(&check), STATUS_OK);
    assert_int_equal(check.records, 11);
    assert_int_equal(check.by_kind[TRACE_OP_END], 2);
    assert_int_equal(check.ranks, 2);
    assert_int_equal(check.last_step, 1);
    assert_true(check.usable[TRACE_USE_TIMELINE] && check.usable[TRACE_USE_REPLAY] && check.usable[TRACE_USE_LEARNING]);
    assert_false(check.usable[TRACE_USE_MEMORY] || check.usable[TRACE_USE_TRAFFIC]);
    assert_int_equal(check.steps_unfinished + check.ops_open + check.ops_homeless + check.out_of_order, 0);

    assert_int_equal(trace_file_create(&file, path, &err), 0); /* all that can be wrong with a whole file */
    put_for_check(file, (struct trace_record){.kind = TRACE_OP_BEGIN, .rank = 5});
    put_for_check(file, (struct trace_record){.kind = TRACE_OP_END, .rank = 4, .time_ns = 1});
    put_for_check(file, (struct trace_record){.kind = TRACE_STEP_BEGIN, .rank = 1, .step_begin = {.step = 9}});
    put_for_check(file, (struct trace_record){.kind = TRACE_GAP, .gap = {.records = 12}});
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_int_equal(trace_check_status(&check), STATUS_CHECK);
    assert_false(check.header_first || check.ended || check.torn || check.usable[TRACE_USE_TIMELINE] ||
                 check.usable[TRACE_USE_REPLAY]);
    assert_int_equal(check.ops_open, 1);
    assert_int_equal(check.ops_homeless, 1);
    assert_int_equal(check.out_of_order, 1);
    assert_int_equal(check.steps_unfinished, 1);
    assert_int_equal(check.lost, 12);

    struct stat what;
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(truncate(path, what.st_size - 1), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_true(check.torn);
    unlink(path);
    assert_int_equal(trace_check(&check, path, &err), STATUS_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_anywhere_yields_its_whole_chunks),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(a_foreign_file_is_refused_in_one_line),
        cmocka_unit_test(a_growing_file_is_followed),
        cmocka_unit_test(seeking_lands_on_a_step_with_and_without_an_index),
        cmocka_unit_test(a_chunk_that_compresses_well_is_compressed),
        cmocka_unit_test(a_check_names_what_is_missing),
    };
    return cmocka_run_group_tests_name("trace files", tests, make_folder, remove_folder);
}
