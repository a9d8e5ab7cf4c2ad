/* The live side of the trace: who drives and who watches, what a late viewer gets, a disk that is
 * full. Waiting is always for a record to come, never for a time to pass. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/live_run.h"

/* --- who drives ----------------------------------------------------------------------------------------------------- */

static void the_first_viewer_drives_and_others_watch(void **state)
{
    (void)state;
    struct run run;
    struct error err;
    start(&run, false, -1);
    emit_text(&run, TRACE_RUN, "{}");
    struct source *driver = attach(&run);
    next_of(driver, TRACE_RUN);
    assert_true(source_drives(driver));
    struct source *watcher = attach(&run);
    next_of(watcher, TRACE_RUN);
    assert_false(source_drives(watcher));

    assert_int_equal(source_send(watcher, "stage=3", &err), 0);
    assert_true(says(next_of(watcher, TRACE_LOG).log.text, "only watch"));
    assert_int_equal(source_send(driver, "stage=2", &err), 0);
    wait_for(&run.commands, 1);
    assert_string_equal(run.last_command, "stage=2");

    source_close(driver);
    wait_for(&run.drivers_gone, 1);
    struct source *heir = attach(&run);
    next_of(heir, TRACE_RUN);
    assert_true(source_drives(heir));
    assert_int_equal(source_send(heir, "pause", &err), 0);
    wait_for(&run.commands, 2);
    assert_int_equal(run.drivers, 2);
    source_close(watcher);
    source_close(heir);
    stop(&run);
}

/* Whoever only looks, as the list of runs does, keeps nobody from driving, and does not count as somebody who does. */
static void who_only_watches_never_drives(void **state)
{
    (void)state;
    struct run run;
    struct error err;
    struct source *watcher;
    start(&run, false, -1);
    emit_text(&run, TRACE_RUN, "{}");
    for (int looks = 0; looks < 3; looks++) {
        if (looks) source_close(watcher);
        assert_int_equal(source_open_socket(&watcher, run.socket, true, &err), 0);
        next_of(watcher, TRACE_RUN);
        assert_false(source_drives(watcher));
    }
    struct source *driver = attach(&run);
    next_of(driver, TRACE_RUN);
    assert_true(source_drives(driver));
    assert_int_equal(source_send(driver, "pause", &err), 0);
    wait_for(&run.commands, 1);
    assert_int_equal(source_open_socket(&(struct source *){0}, "/nosuch/socket", true, &err), STATUS_INPUT);
    source_close(watcher);
    source_close(driver);
    wait_for(&run.drivers_gone, 1);
    assert_int_equal(run.drivers, 1);
    stop(&run);
}

static void a_line_may_come_in_pieces_and_must_not_be_too_long(void **state)
{
    (void)state;
    struct run run;
    struct error err;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    start(&run, false, pair[0]);
    struct source *driver;
    assert_int_equal(source_adopt_fd(&driver, pair[1], &err), 0);
    for (const char *at = "stage=1\nstage"; *at; at++) assert_int_equal(write(pair[1], at, 1), 1);
    wait_for(&run.commands, 1);
    assert_string_equal(run.last_command, "stage=1");
    assert_int_equal(write(pair[1], "=2\n\n", 4), 4);
    wait_for(&run.commands, 2);
    assert_string_equal(run.last_command, "stage=2");

    char longest[1024];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(write(pair[1], longest, sizeof longest), sizeof longest);
    assert_int_equal(write(pair[1], "\n", 1), 1);
    assert_true(says(next_of(driver, TRACE_LOG).log.text, "longer than"));
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(source_send(driver, longest, &err), 0);
    wait_for(&run.commands, 3);
    assert_int_equal(strlen(run.last_command), 1023);
    assert_int_equal(source_send(driver, "two\nlines", &err), STATUS_USAGE);
    source_close(driver);
    wait_for(&run.drivers_gone, 1);
    stop(&run);
}

static void an_adopted_driver_gets_everything_from_the_start_to_the_end(void **state)
{
    (void)state;
    enum { OPS = 5000 };
    struct run run;
    struct error err;
    struct source *driver;
    struct trace_record record;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    start(&run, false, pair[0]);
    assert_int_equal(source_adopt_fd(&driver, pair[1], &err), 0);
    emit_text(&run, TRACE_RUN, "{}");
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = 1}});
    for (uint32_t op = 0; op < OPS; op++) {
        emit(&run, (struct trace_record){.kind = TRACE_OP_END, .op_end = {.step = 1, .op = op}});
        if (op % 1000 == 999) /* what was sent is read meanwhile */
            for (uint32_t seen = op - 999; seen <= op; seen++)
                assert_int_equal(next_of(driver, TRACE_OP_END).op_end.op, seen);
    }
    emit(&run, (struct trace_record){.kind = TRACE_END, .end = {.outcome = OUTCOME_FINISHED}});
    stop(&run); /* what is queued is still delivered */
    assert_int_equal(next(driver, &record), SOURCE_RECORD);
    assert_int_equal(record.kind, TRACE_END);
    assert_int_equal(next(driver, &record), SOURCE_END);
    assert_false(source_torn(driver));
    source_close(driver);
}

/* --- the socket itself ---------------------------------------------------------------------------------------------- */

static void the_socket_is_private_and_a_left_over_one_is_replaced(void **state)
{
    (void)state;
    struct run run;
    struct stat what;
    struct error err;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int left_over = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(left_over, (struct sockaddr *)&address, sizeof address), 0);
    close(left_over); /* as a killed run leaves it */
    struct source *source;
    assert_int_equal(source_open_socket(&source, address.sun_path, false, &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "no run listens"));

    mode_t mask = umask(0);
    start(&run, false, -1);
    umask(mask);
    assert_int_equal(stat(run.socket, &what), 0);
    assert_int_equal(what.st_mode & 07777, 0600);
    struct trace_writer *second;
    struct trace_writer_options options = {.socket = run.socket, .adopted_fd = -1};
    assert_int_equal(trace_writer_start(&second, &options, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "in use"));
    assert_int_equal(access(run.socket, F_OK), 0);
    stop(&run);
    assert_int_equal(source_open_socket(&source, run.socket, false, &err), STATUS_INPUT);
}

static void a_path_that_cannot_be_a_socket_is_refused(void **state)
{
    (void)state;
    char path[300];
    struct trace_writer *writer;
    struct error err;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct trace_writer_options options = {.socket = path, .adopted_fd = -1};
    assert_int_equal(trace_writer_start(&writer, &options, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "at most"));
    snprintf(path, sizeof path, "%s/file", folder); /* a file is nobody's left-over socket */
    FILE *file = fopen(path, "w");
    fclose(file);
    assert_int_equal(trace_writer_start(&writer, &options, &err), STATUS_USAGE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

/* Its step says which it is. */
static void emit_setting(struct run *run, const char *key, uint32_t value)
{
    char json[128];
    snprintf(json, sizeof json, "{\"kind\":\"set\",\"detail\":{\"key\":\"%s\",\"to\":\"%u\"}}", key, value);
    emit(run, (struct trace_record){.kind = TRACE_EVENT, .event = {.step = value, .json = {json, strlen(json)}}});
}

/* --- a late viewer -------------------------------------------------------------------------------------------------- */

static void a_late_viewer_gets_the_whole_picture_and_only_whole_steps(void **state)
{
    (void)state;
    struct run run;
    start(&run, false, -1);
    struct source *early = attach(&run);
    emit_memory(&run, 0, 5); /* before the run header, which a late viewer gets first all the same */
    emit_text(&run, TRACE_RUN, "{\"ranks\": 1}");
    emit(&run, (struct trace_record){.kind = TRACE_PREDICTED,
                                     .predicted = {.schedule = 1, .category = 9}}); /* of a plan that goes */
    emit_schedule(&run, 1);
    emit(&run, (struct trace_record){.kind = TRACE_PREDICTED, .predicted = {.schedule = 1, .category = 2}});
    emit_schedule(&run, 2); /* replaces the first, and its plan */
    emit(&run, (struct trace_record){.kind = TRACE_BUDGET, .budget = {.bytes = 100}});
    emit_setting(&run, "topology.slow_motion", 20);
    emit_setting(&run, "topology.slow_rank", 1);
    emit_setting(&run, "topology.slow_motion", 10); /* replaces the first */
    emit(&run, (struct trace_record){.kind = TRACE_STATE, .state = {.state = RUN_RUNNING}});
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = 7, .schedule = 2}});
    emit_memory(&run, 0, 10);
    emit_memory(&run, 1, 20);
    emit_memory(&run, 0, 11);
    emit_op(&run, 7, 0);
    emit_text(&run, TRACE_LOG, "in the middle");
    next_of(early, TRACE_LOG); /* the writer has passed all of it on, so what comes next is a late viewer */

    struct source *late = attach(&run);
    static const struct {
        enum trace_kind kind;
        uint64_t value;
    } picture[] = {
        {TRACE_RUN, 0},        {TRACE_SCHEDULE, 2}, {TRACE_PREDICTED, 2}, {TRACE_THEORY, 2},
        {TRACE_BUDGET, 100},   {TRACE_EVENT, 1},    {TRACE_EVENT, 10},    {TRACE_STATE, RUN_RUNNING},
        {TRACE_STEP_BEGIN, 7}, {TRACE_MEMORY, 20},  {TRACE_MEMORY, 11},
    };
    for (size_t i = 0; i < sizeof picture / sizeof picture[0]; i++) {
        struct trace_record record;
        assert_int_equal(next(late, &record), SOURCE_RECORD);
        assert_int_equal(record.kind, picture[i].kind);
        uint64_t value = record.kind == TRACE_SCHEDULE     ? record.schedule.schedule
                         : record.kind == TRACE_PREDICTED  ? record.predicted.peak_bytes
                         : record.kind == TRACE_THEORY     ? record.theory.sent_bytes
                         : record.kind == TRACE_BUDGET     ? record.budget.bytes
                         : record.kind == TRACE_EVENT      ? record.event.step
                         : record.kind == TRACE_STATE      ? record.state.state
                         : record.kind == TRACE_STEP_BEGIN ? record.step_begin.step
                         : record.kind == TRACE_MEMORY     ? record.memory.live_bytes
                                                           : 0;
        assert_int_equal(value, picture[i].value);
    }

    emit_op(&run, 7, 1); /* of a step whose beginning it missed */
    emit_memory(&run, 1, 21);
    emit(&run, (struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = 7, .loss = 1.5f}});
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = 8}});
    emit_op(&run, 7, 2); /* of a slower rank */
    emit_op(&run, 8, 0);
    static const enum trace_kind then[] = {TRACE_MEMORY, TRACE_STEP_END, TRACE_STEP_BEGIN, TRACE_OP_BEGIN,
                                           TRACE_OP_END};
    for (size_t i = 0; i < sizeof then / sizeof then[0]; i++) {
        struct trace_record record;
        assert_int_equal(next(late, &record), SOURCE_RECORD);
        assert_int_equal(record.kind, then[i]);
        if (record.kind == TRACE_OP_END) assert_int_equal(record.op_end.step, 8);
    }
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = 9}});
    emit_op(&run, 9, 0);
    assert_int_equal(next_of(late, TRACE_OP_END).op_end.step, 9);
    source_close(early);
    source_close(late);
    stop(&run);
}

static void between_steps_a_late_viewer_misses_nothing_of_the_next(void **state)
{
    (void)state;
    struct run run;
    start(&run, false, -1);
    struct source *early = attach(&run);
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = 3}});
    emit(&run, (struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = 3, .skipped = 1}});
    next_of(early, TRACE_STEP_END);
    struct source *late = attach(&run);
    next_of(late, TRACE_STEP_END);
    emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN,
                                     .step_begin = {.step = 3}}); /* tried again, after out of memory */
    emit_op(&run, 3, 0);
    assert_int_equal(next_of(late, TRACE_OP_END).op_end.step, 3);
    source_close(early);
    source_close(late);
    stop(&run);
}

/* --- trouble -------------------------------------------------------------------------------------------------------- */

/* The limit on file sizes stands in for a full disk: write() fails in the middle of a chunk all the same. */
static void a_full_disk_ends_the_file_with_one_warning(void **state)
{
    (void)state;
    enum { ROOM = 400000 };
    struct run run;
    struct error err;
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){ROOM, before.rlim_max};
    start(&run, true, -1);
    struct source *viewer = attach(&run);
    setrlimit(RLIMIT_FSIZE, &limit);
    unsigned random = 1;
    char noise[3000]; /* does not compress */
    uint32_t step = 0;
    for (bool warned = false; !warned && step < 10000;) {
        emit(&run, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = ++step}});
        for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)((random = random * 1664525u + 1013904223u) >> 24);
        emit(&run,
             (struct trace_record){.kind = TRACE_SAMPLE, .sample = {.step = step, .text = {noise, sizeof noise}}});
        for (bool mine = false; !mine;) { /* read on to this step's sample */
            struct trace_record record;
            assert_int_equal(next(viewer, &record), SOURCE_RECORD);
            if (record.kind == TRACE_LOG) {
                assert_false(warned);
                assert_true(says(record.log.text, "cannot write trace"));
                assert_int_equal(record.log.level, 1);
                warned = true;
            }
            mine = record.kind == TRACE_SAMPLE;
        }
    }
    assert_true(step < 400);
    emit_text(&run, TRACE_LOG, "after"); /* the run goes on */
    struct trace_record log = next_of(viewer, TRACE_LOG);
    if (says(log.log.text, "cannot write")) log = next_of(viewer, TRACE_LOG);
    assert_true(says(log.log.text, "after"));
    setrlimit(RLIMIT_FSIZE, &before);

    struct source *file;
    struct trace_record record;
    uint32_t samples = 0;
    assert_int_equal(source_open_file(&file, run.file, &err), 0);
    enum source_result result;
    while ((result = source_next(file, &record)) == SOURCE_RECORD)
        if (record.kind == TRACE_SAMPLE) assert_int_equal(record.sample.step, ++samples);
    assert_int_equal(result, SOURCE_END);
    assert_false(source_torn(file)); /* cut back to whole chunks */
    assert_true(samples >= 60 && samples < step);
    source_close(file);
    source_close(viewer);
    stop(&run);
}

static void what_is_no_trace_is_refused(void **state)
{
    (void)state;
    int pair[2];
    struct source *source;
    struct trace_record record;
    struct error err;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(source_adopt_fd(&source, pair[1], &err), 0);
    assert_int_equal(source_next(source, &record), SOURCE_WAIT);
    assert_int_equal(write(pair[0], "SSH-2.0-OpenSSH_9.2p1\r\n", 23), 23);
    assert_int_equal(next(source, &record), SOURCE_BAD);
    assert_non_null(strstr(source_error(source), "not a zerolab trace"));
    source_close(source);
    close(pair[0]);
}

static void an_idle_writer_costs_next_to_nothing(void **state)
{
    (void)state;
    struct run run;
    start(&run, true, -1);
    struct source *viewer = attach(&run);
    struct timespec before, after;
    emit_text(&run, TRACE_LOG, "started");
    next_of(viewer, TRACE_LOG);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    uint64_t start_ns = clock_ns();
    poll(NULL, 0, 500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double spent = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    double share = spent / (double)(clock_ns() - start_ns);
    print_message("           idle: %.2f %% of a core\n", share * 100);
    assert_true(share < 0.02);
    source_close(viewer);
    stop(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_viewer_drives_and_others_watch),
        cmocka_unit_test(who_only_watches_never_drives),
        cmocka_unit_test(a_line_may_come_in_pieces_and_must_not_be_too_long),
        cmocka_unit_test(an_adopted_driver_gets_everything_from_the_start_to_the_end),
        cmocka_unit_test(the_socket_is_private_and_a_left_over_one_is_replaced),
        cmocka_unit_test(a_path_that_cannot_be_a_socket_is_refused),
        cmocka_unit_test(a_late_viewer_gets_the_whole_picture_and_only_whole_steps),
        cmocka_unit_test(between_steps_a_late_viewer_misses_nothing_of_the_next),
        cmocka_unit_test(a_full_disk_ends_the_file_with_one_warning),
        cmocka_unit_test(what_is_no_trace_is_refused),
        cmocka_unit_test(an_idle_writer_costs_next_to_nothing),
    };
    return cmocka_run_group_tests_name("trace, live", tests, make_folder, remove_folder);
}
