/* What an analysis makes of a trace whose steps are numbered as no run numbers them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/advise/analysis.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"

enum { LAST = 8 }; /* of docs/example.zlt */

static void renumber(uint32_t *step, uint32_t last)
{
    if (*step == LAST) *step = last;
}

/* The example, with another number for its last step. */
static void write_with_last(const char *path, uint32_t last)
{
    struct source *source;
    struct trace_file *file;
    struct trace_record record;
    struct error err;
    assert_int_equal(source_open_file(&source, "docs/example.zlt", &err), 0);
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD) {
        if (record.kind == TRACE_STEP_BEGIN) renumber(&record.step_begin.step, last);
        if (record.kind == TRACE_STEP_END) renumber(&record.step_end.step, last);
        if (record.kind == TRACE_OP_BEGIN) renumber(&record.op_begin.step, last);
        if (record.kind == TRACE_OP_END) renumber(&record.op_end.step, last);
        assert_int_equal(trace_file_put(file, &record, &err), 0);
    }
    source_close(source);
    assert_int_equal(trace_file_close(file, &err), 0);
}

/* What is kept of steps grows with how many there are, whatever their numbers. */
static void steps_far_apart_take_no_room_between_them(void **state)
{
    (void)state;
    char path[] = "/tmp/zerolab-test-XXXXXX";
    close(mkstemp(path));
    struct analysis near, far;
    struct analysis_pair *pairs;
    struct error err;
    write_with_last(path, 4000000000u);
    assert_int_equal(analysis_read(&near, "docs/example.zlt", &(struct analysis_options){0}, &err), 0);
    assert_int_equal(analysis_read(&far, path, &(struct analysis_options){0}, &err), 0);
    assert_int_equal(near.section_count, far.section_count);
    const struct analysis_section *section = &far.sections[far.section_count - 1];
    assert_int_equal(section->last_step, 4000000000u);
    assert_int_equal(section->loss_count, section->steps);
    const int count = analysis_pairs(&pairs, &near, &far);
    assert_int_equal(count, near.section_count);
    assert_true(pairs[count - 1].loss_step < LAST); /* the last that both have */
    assert_true(pairs[count - 1].loss_step > 0 && pairs[count - 1].loss[0] == pairs[count - 1].loss[1]);
    free(pairs);
    analysis_release(&near);
    analysis_release(&far);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_far_apart_take_no_room_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
