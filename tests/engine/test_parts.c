/* A run that goes on with other ranks: what model, history, report and late viewers make of its parts; one trace file and the same
 * viewers through two writers; what is taken along. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/trace/check.h"
#include "engine/trace/file.h"
#include "engine/trace/latest_records.h"
#include "engine/trace/writer.h"
#include "engine/train/director.h"
#include "engine/train/relaunch_config.h"
#include "tests/support/report_text.h"
#include "tests/support/timeline_fixture.h"

/* Stage 3 from step 17 on; 4 ranks to step 21, 2 to step 26, 3 to step 30. */
static struct folded story(void)
{
    return folded_story(4, STORY_RETURNS);
}

/* ---- the model ---- */

static void the_past_stays_and_the_ranks_are_new(void **state)
{
    static const struct run_part parts[] = {{0, 0, 4, 0}, {1, 21, 2, 0}, {2, 26, 3, 0}};
    struct folded run = story();
    const struct run_model *model = run.model;
    (void)state;
    assert_int_equal(model->part_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(model->parts[i].number, parts[i].number);
        assert_int_equal(model->parts[i].steps_done, parts[i].steps_done);
        assert_int_equal(model->parts[i].ranks, parts[i].ranks);
    }
    assert_int_equal(model->ranks, 3);
    assert_int_equal(model->header.ranks, 3);
    assert_string_equal(model->problem, "");
    assert_int_equal(model->step_count, 30);
    assert_int_equal(model->loss.count, 30);
    for (int i = 0; i < 30; i++) {
        const struct run_step *step = &model->steps[i];
        assert_true(run_step_is_whole(step));
        assert_int_equal(step->ranks, step->step <= 21 ? 4 : step->step <= 26 ? 2 : 3);
        assert_int_equal(step->timed, step->ranks);
        for (int rank = 0; rank < step->ranks; rank++) assert_true(step->sent_bytes[rank] > 0);
    }
    assert_int_equal(model->traffic_steps, 4); /* of the last part */
    assert_int_equal(model->split_count, 3 * 4);
    assert_int_equal(run_training(model)->ops.op_count > 0, true);
    folded_free(&run);
}

static void before_its_first_step_a_part_has_none(void **state)
{
    struct folded run = folded_new();
    struct synthetic of;
    (void)state;
    synthetic_story(&of, 4, STORY_LEAVES, folded_fold, &run);
    assert_int_equal(run.model->state, RUN_RELAUNCHING);
    assert_string_equal(run.model->reason, "saving 35 %");
    assert_int_equal(run_last_step_here(run.model)->step, 21);
    synthetic_return(&of, 21, 2);
    assert_int_equal(run_last_step(run.model)->step, 21);
    assert_null(run_last_step_here(run.model));
    assert_false(run.model->rank[0].tier[TIER_DEVICE].step_peak.known);
    folded_free(&run);
}

static void a_header_said_again_changes_nothing(void **state)
{
    struct folded run = folded_new();
    struct synthetic of;
    (void)state;
    synthetic_story(&of, 4, STORY_RETURNS, folded_fold, &run);
    synthetic_header(&of);
    assert_int_equal(run.model->part_count, 3);
    assert_true(run.model->rank[2].tier[TIER_DEVICE].now.known);
    folded_free(&run);
}

/* Arrays of ranks are as long as there were ranks: parsed as text, since that is what scripts get. */
static void the_report_has_every_step_at_its_length(void **state)
{
    struct folded run = story();
    char *json = report_json(run.model, &(struct report_screen){0}), *at = json;
    int lengths[30];
    (void)state;
    assert_non_null(strstr(json, "\"parts\":"));
    for (int i = 0; i < 30; i++) {
        at = strstr(at, "\"sent_bytes\":");
        assert_non_null(at);
        lengths[i] = 1;
        for (; *at != ']'; at++) lengths[i] += *at == ',';
    }
    assert_int_equal(lengths[0], 4);
    assert_int_equal(lengths[20], 4);
    assert_int_equal(lengths[21], 2);
    assert_int_equal(lengths[29], 3);
    free(json);
    folded_free(&run);
}

/* ---- the history ---- */

static void the_history_knows_how_many_there_were(void **state)
{
    struct folded run = story();
    const struct history *history = run.history;
    const uint64_t first = history_step_numbered(history, 10)->begun_ns, second = history_step_numbered(history, 23)->begun_ns,
                   third = history_step_numbered(history, 28)->begun_ns;
    (void)state;
    assert_int_equal(history_ranks(history, first, first + 1), 4);
    assert_int_equal(history_ranks(history, second, second + 1), 2);
    assert_int_equal(history_ranks(history, third, third + 1), 3);
    assert_int_equal(history_ranks(history, second, third), 3);
    assert_int_equal(history_ranks(history, 0, UINT64_MAX), 4);
    assert_true(history_held(history, 3, TIER_DEVICE, first).live_bytes > 0);
    assert_int_equal(history_held(history, 3, TIER_DEVICE, second).live_bytes, 0); /* it has ended */
    assert_int_equal(history_held(history, 2, TIER_DEVICE, second).live_bytes, 0);
    assert_true(history_held(history, 2, TIER_DEVICE, third).live_bytes > 0);
    for (int rank = 0; rank < 4; rank++) {
        int64_t begin, end;
        history_spans(history, rank, LANE_COMPUTE, second, third, &begin, &end);
        assert_int_equal(end > begin, rank < 3);
    }
    folded_free(&run);
}

static void totals_count_the_ranks_of_their_window(void **state)
{
    struct folded run = story();
    struct totals totals;
    const struct history_step *step = history_step_numbered(run.history, 23);
    (void)state;
    totals_of(&totals, run.history, run.model, -1, step->begun_ns, step->ended_ns, 0);
    assert_true(totals.known);
    assert_true(totals.temporal.window_ns > 0);
    folded_free(&run);
}

static void a_rank_that_is_not_there_is_blank(void **state)
{
    struct folded run = story();
    struct view_state view = {.to_ns = UINT64_MAX};
    struct scene scene = {run.model, run.history, &view};
    struct column columns[100];
    struct window window = timeline_window(&scene);
    int last[4] = {0};
    (void)state;
    for (int rank = 0; rank < 4; rank++) {
        timeline_columns(columns, 100, &scene, rank, LANE_COMPUTE, &window);
        for (int i = 0; i < 100; i++)
            if (columns[i].mark != MARK_IDLE) last[rank] = i;
    }
    assert_true(last[0] > 80 && last[2] == last[0]);
    assert_true(last[3] < last[0] && last[3] > 20);
    folded_free(&run);
}

/* ---- late viewers ---- */

static void put_sticky(void *user, const struct trace_record *record)
{
    uint8_t bytes[1 << 16];
    assert_true(trace_encoded_bytes(record) <= sizeof bytes);
    trace_encode(record, bytes);
    latest_records_put(user, bytes);
}

static void fold_encoded(void *user, const void *bytes)
{
    struct trace_record record;
    assert_true(trace_decode(bytes, trace_peek(bytes).bytes, &record) > 0);
    run_model_fold(user, &record);
}

static void a_late_viewer_hears_of_the_present_ranks_only(void **state)
{
    struct synthetic of;
    struct latest_records *latest = latest_records_new();
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    (void)state;
    synthetic_story(&of, 4, STORY_RETURNS, put_sticky, latest);
    assert_int_equal(latest_records_open_step(latest), 0);
    latest_records_each(latest, 0, fold_encoded, model);
    assert_string_equal(model->problem, "");
    assert_int_equal(model->ranks, 3);
    assert_int_equal(run_present_part(model)->number, 2);
    assert_true(run_training(model) && run_training(model)->has_ops);
    assert_true(model->validation.known && model->sample.text);
    run_model_free(model);
    latest_records_free(latest);
}

static void a_late_viewer_hears_why_memory_ran_out(void **state)
{
    struct latest_records *latest = latest_records_new();
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    const char *const events[] = {"{\"kind\":\"oom\",\"detail\":{\"rank\":1,\"text\":\"first\"}}",
                                  "{\"kind\":\"oom\",\"detail\":{\"rank\":2,\"text\":\"last\"}}"};
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        put_sticky(latest, &(struct trace_record){.kind = TRACE_EVENT,
                                                  .time_ns = i + 1,
                                                  .event = {.step = i + 1, .json = {events[i], strlen(events[i])}}});
    latest_records_each(latest, 0, fold_encoded, model);
    assert_true(model->shortage.known);
    assert_int_equal(model->shortage.rank, 2);
    assert_string_equal(model->shortage.text, "last");
    assert_int_equal(model->notice_count, 1);
    run_model_free(model);
    latest_records_free(latest);
}

/* ---- one file, two writers ---- */

static char folder[] = "/tmp/zerolab-test-parts.XXXXXX";

struct halves {
    struct trace_file *file;
    int parts, written;
    char path[64];
};

/* From the second header on another writer writes. */
static void put_in_halves(void *user, const struct trace_record *record)
{
    struct halves *halves = user;
    struct error err;
    if (record->kind == TRACE_RUN && halves->parts++) {
        assert_int_equal(trace_file_leave(halves->file, &err), STATUS_OK);
        if (halves->parts == 2) { /* a writer that was killed left half a chunk */
            FILE *torn = fopen(halves->path, "ab");
            fputs("CHNK\1", torn);
            fclose(torn);
        }
        assert_int_equal(trace_file_append(&halves->file, halves->path, &err), STATUS_OK);
    }
    assert_int_equal(trace_file_put(halves->file, record, &err), STATUS_OK);
    halves->written++;
}

static void a_file_goes_on_where_it_was_left(void **state)
{
    struct halves halves = {0};
    struct synthetic of;
    struct error err;
    struct trace_check check;
    struct source *source;
    struct trace_record record;
    int read = 0;
    (void)state;
    snprintf(halves.path, sizeof halves.path, "%s/file", folder);
    assert_int_equal(trace_file_create(&halves.file, halves.path, &err), STATUS_OK);
    synthetic_story(&of, 4, STORY_RETURNS, put_in_halves, &halves);
    assert_int_equal(trace_file_close(halves.file, &err), STATUS_OK);
    assert_int_equal(trace_check(&check, halves.path, &err), STATUS_OK);
    assert_int_equal(trace_check_status(&check), STATUS_OK);
    assert_int_equal(check.records, halves.written);
    assert_int_equal(check.parts, 3);
    assert_int_equal(check.part[1].ranks, 2);
    assert_int_equal(check.part[1].first_step, 22);
    assert_int_equal(check.part[2].last_step, 30);
    assert_int_equal(source_open_file(&source, halves.path, &err), STATUS_OK);
    assert_int_equal(source_resume_step(source, 24, &err), STATUS_OK); /* by the index that the last one wrote */
    while (source_next(source, &record) == SOURCE_RECORD && record.kind == TRACE_STEP_BEGIN) read++;
    assert_int_equal(read, 2);
    source_close(source);
    unlink(halves.path);
    assert_int_equal(trace_file_append(&halves.file, halves.path, &err), STATUS_RUN);
}

/* ---- the same viewers, two writers ---- */

enum { RING_BYTES = 1 << 16, PATIENCE_MS = 100000 };

struct side {
    struct trace_writer *writer;
    struct trace_ring *ring;
    char heard[64];
    _Atomic int lines;
};

static void on_command(void *user, const char *line)
{
    struct side *side = user;
    snprintf(side->heard, sizeof side->heard, "%s", line);
    side->lines++;
}

static void begin(struct side *side, struct handover *handed, const char *socket_path, int adopted_fd)
{
    struct error err;
    *side = (struct side){.ring = trace_ring_init(aligned_alloc(64, RING_BYTES), RING_BYTES)};
    struct trace_writer_options options = {
        .socket = socket_path, .handed = handed, .adopted_fd = adopted_fd, .on_command = on_command, .user = side};
    assert_int_equal(trace_writer_start(&side->writer, &options, &err), STATUS_OK);
    trace_writer_add_ring(side->writer, side->ring);
}

static void say(struct side *side, const char *text)
{
    trace_emit(side->ring,
               &(struct trace_record){.kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .log = {0, synthetic_text(text)}});
}

static void hears(struct source *source, const char *text)
{
    struct trace_record record;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_WAIT)
        if (poll(&(struct pollfd){.fd = source_fd(source), .events = POLLIN}, 1, PATIENCE_MS) <= 0) break;
    assert_int_equal(result, SOURCE_RECORD);
    assert_int_equal(record.kind, TRACE_LOG);
    assert_memory_equal(record.log.text.at, text, strlen(text));
}

static void viewers_see_a_pause_and_not_an_end(void **state)
{
    struct side before, after;
    struct handover given, taken;
    struct source *driver, *watcher, *late;
    struct trace_record record;
    struct error err;
    char path[64];
    int pair[2], way[2];
    (void)state;
    snprintf(path, sizeof path, "%s/socket", folder);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, way), 0);
    begin(&before, NULL, path, pair[1]);
    assert_int_equal(source_adopt_fd(&driver, pair[0], &err), 0);
    assert_int_equal(source_open_socket(&watcher, path, false, &err), 0);
    say(&before, "one");
    hears(driver, "one");
    hears(watcher, "one");
    say(&before, "two");                                         /* still on its way when the writer ends */
    assert_false(trace_writer_hand_over(before.writer, &given)); /* there was no file */
    assert_int_equal(given.viewers, 2);
    assert_int_equal(handover_send(way[0], &given, &err), STATUS_OK);
    handover_release(&given);
    assert_int_equal(source_send(driver, "pause", &err), STATUS_OK); /* nobody is there to hear it yet */
    assert_int_equal(source_open_socket(&late, path, false, &err), 0);      /* nor to answer */
    assert_int_equal(handover_receive(way[1], &taken, &err), STATUS_OK);
    assert_int_equal(taken.viewers, 2);
    begin(&after, &taken, path, -1);
    say(&after, "three");
    hears(driver, "two");
    hears(driver, "three");
    hears(watcher, "two");
    hears(watcher, "three");
    for (int ms = 0; !after.lines && ms < PATIENCE_MS; ms++) poll(NULL, 0, 1);
    assert_string_equal(after.heard, "pause");
    assert_true(source_drives(driver));
    assert_false(source_drives(watcher));
    trace_writer_stop(after.writer);
    while (source_next(late, &record) == SOURCE_RECORD) {}
    assert_false(source_drives(late));
    assert_int_equal(access(path, F_OK), -1);
    source_close(driver);
    source_close(watcher);
    source_close(late);
    close(way[0]);
    close(way[1]);
    free(before.ring);
    free(after.ring);
}

static void half_a_handover_leaks_nothing(void **state)
{
    struct handover given = {.listen_fd = -1, .viewers = 1}, taken;
    struct error err;
    int pair[2], way[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, way), 0);
    given.viewer[0] = (struct viewer){.fd = pair[1]};
    assert_true(bytes_append(&given.viewer[0].queue, "abc", 3));
    given.viewer[0].queue.count = 2; /* then the end follows */
    assert_int_equal(handover_send(way[0], &given, &err), STATUS_OK);
    handover_release(&given);
    shutdown(way[0], SHUT_WR);
    assert_int_equal(handover_receive(way[1], &taken, &err), STATUS_OK);
    assert_int_equal(taken.viewer[0].queue.count, 2);
    handover_release(&taken);
    assert_int_equal(handover_receive(way[1], &taken, &err), STATUS_RUN);
    assert_int_equal(taken.viewers, 0);
    char end;
    assert_int_equal(recv(pair[0], &end, 1, 0), 0); /* nobody holds the other end */
    close(pair[0]);
    close(way[0]);
    close(way[1]);
}

/* ---- what is taken along ---- */

static void settings_are_kept_once_each(void **state)
{
    struct relaunch_config next;
    struct text_list given = {2, {"topology.ranks=4", "zero_optimization.prefetch_bucket_size=5e5"}};
    (void)state;
    relaunch_config_init(&next, &given);
    relaunch_config_set(&next, "topology.ranks", "2");
    relaunch_config_set(&next, "zero_optimization.stage3_prefetch_bucket_size", "7e5"); /* another spelling of the same */
    relaunch_config_set(&next, "zero_optimization.stage", "3");
    struct text_list sets = next.sets;
    assert_int_equal(sets.count, 3);
    assert_string_equal(sets.at[0], "topology.ranks=2");
    assert_string_equal(sets.at[1], "zero_optimization.stage3_prefetch_bucket_size=7e5");
    assert_string_equal(sets.at[2], "zero_optimization.stage=3");
    assert_false(next.full);
    text_list_release(&next.sets);
}

static void the_batch_of_a_step_stays_where_it_can(void **state)
{
    static const struct {
        const char *key, *value, *sets[4]; /* in the order in which they come */
    } cases[] = {
        {"topology.ranks",
         "2",
         {"train_batch_size=16", "train_micro_batch_size_per_gpu=null", "gradient_accumulation_steps=2",
          "topology.ranks=2"}},
        {"topology.ranks",
         "3",
         {"train_batch_size=null", "train_micro_batch_size_per_gpu=2", "gradient_accumulation_steps=2",
          "topology.ranks=3"}},
        {"topology.ranks", "4", {"topology.ranks=4"}},
        {"train_batch_size",
         "32",
         {"train_batch_size=32", "train_micro_batch_size_per_gpu=null", "gradient_accumulation_steps=2"}},
        {"train_micro_batch_size_per_gpu",
         "1",
         {"train_batch_size=null", "train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=2"}},
        {"topology.threads_per_rank", "2", {"topology.threads_per_rank=2"}},
    };
    const struct config now = {
        .topology.ranks = 4, .train_batch_size = 16, .micro_batch_size = 2, .accumulation_steps = 2};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct relaunch_config next;
        struct text_list sets;
        relaunch_config_init(&next, &(struct text_list){0});
        relaunch_config_change(&next, &now, cases[c].key, cases[c].value);
        sets = next.sets;
        for (int i = 0; i < sets.count; i++) assert_string_equal(sets.at[i], cases[c].sets[i]);
        assert_true(sets.count == 4 || !cases[c].sets[sets.count]);
        text_list_release(&next.sets);
    }
}

static void ignore_state(void *user, enum run_state run_state, const char *reason, bool in_step)
{
    (void)user, (void)run_state, (void)reason, (void)in_step;
}

static void ignore_command(void *user, const char *line, const char *refusal)
{
    (void)user, (void)line, (void)refusal;
}

static void what_was_not_come_to_is_left(void **state)
{
    struct director *director;
    struct order order;
    struct error err;
    struct text_list at, lines;
    struct director_options options = {.signal_fd = -1,
                                       .interactive = true,
                                       .paused = true,
                                       .at = {2, {"5:ranks=2", "9:stage=1"}},
                                       .lines = {1, {"stage=2"}},
                                       .on_state = ignore_state,
                                       .on_answer = ignore_command};
    (void)state;
    assert_int_equal(director_new(&director, &options, &err), STATUS_OK);
    assert_int_equal(director_state(director), RUN_PAUSED);
    director_push(director, "ranks 3");
    director_next(director, 4, &order);
    assert_int_equal(order.command.id, COMMAND_RANKS);
    assert_string_equal(order.command.value, "2");
    director_rest(director, &at, &lines);
    assert_int_equal(at.count, 1);
    assert_string_equal(at.at[0], "9:stage=1");
    assert_int_equal(lines.count, 2);
    assert_string_equal(lines.at[0], "stage=2");
    assert_string_equal(lines.at[1], "ranks 3");
    director_next(director, 4, &order); /* lines that were taken along are heard first */
    assert_int_equal(order.command.id, COMMAND_STAGE);
    director_free(director);
}

static void commands_know_whether_they_need_a_new_start(void **state)
{
    struct command command;
    struct error err;
    (void)state;
    assert_int_equal(command_parse(&command, "ranks 3", &err), STATUS_OK);
    assert_int_equal(command_class(&command), COMMAND_CLASS_RESTART);
    assert_int_equal(command_parse(&command, "set topology.threads_per_rank=2", &err), STATUS_OK);
    assert_int_equal(command_class(&command), COMMAND_CLASS_RESTART);
    assert_int_equal(command_parse(&command, "set gradient_clipping=2", &err), STATUS_OK);
    assert_int_equal(command_class(&command), COMMAND_CLASS_LIVE);
    assert_int_equal(command_parse(&command, "ranks 0", &err), STATUS_USAGE);
    assert_int_equal(command_parse(&command, "ranks 65", &err), STATUS_USAGE);
    assert_int_equal(command_parse(&command, "ranks many", &err), STATUS_USAGE);
    assert_int_equal(command_parse(&command, "set topology.threads_per_rank=0", &err), STATUS_USAGE);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_past_stays_and_the_ranks_are_new),
        cmocka_unit_test(before_its_first_step_a_part_has_none),
        cmocka_unit_test(a_header_said_again_changes_nothing),
        cmocka_unit_test(the_report_has_every_step_at_its_length),
        cmocka_unit_test(the_history_knows_how_many_there_were),
        cmocka_unit_test(totals_count_the_ranks_of_their_window),
        cmocka_unit_test(a_rank_that_is_not_there_is_blank),
        cmocka_unit_test(a_late_viewer_hears_of_the_present_ranks_only),
        cmocka_unit_test(a_late_viewer_hears_why_memory_ran_out),
        cmocka_unit_test(a_file_goes_on_where_it_was_left),
        cmocka_unit_test(viewers_see_a_pause_and_not_an_end),
        cmocka_unit_test(half_a_handover_leaks_nothing),
        cmocka_unit_test(settings_are_kept_once_each),
        cmocka_unit_test(the_batch_of_a_step_stays_where_it_can),
        cmocka_unit_test(what_was_not_come_to_is_left),
        cmocka_unit_test(commands_know_whether_they_need_a_new_start),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
