/* Lines of a running job as a source of records: written by the test itself, and of a real job against what it counted
 * itself (tests/foreign/make_streams.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/json.h"
#include "engine/import/import.h"
#include "engine/import/stream.h"
#include "engine/observe/model.h"
#include "engine/observe/questions.h"
#include "engine/trace/source.h"

static char scratch[64];

static const char *in_scratch(const char *name)
{
    static char path[4][160];
    static int next;
    snprintf(path[next = (next + 1) % 4], sizeof path[0], "%s/%s", scratch, name);
    return path[next];
}

/* Appends lines; a rank's clock counts from its own start, 1000 s after 1970 is t = 0. */
__attribute__((format(printf, 2, 3))) static void append(const char *name, const char *format, ...)
{
    FILE *file = fopen(in_scratch(name), "a");
    va_list list;
    assert_non_null(file);
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    assert_int_equal(fclose(file), 0);
}

#define HEADER                                                                                                         \
    "{\"kind\":\"header\",\"version\":1,\"t\":%llu,\"rank\":%d,\"ranks\":2,\"unix_ns\":1000000000000,\"host\":\"%s\"," \
    "\"programs\":{"                                                                                                   \
    "\"torch\":\"2.15.0\"},\"wrapper\":\"fsdp2\",\"stage\":null,\"dtype\":\"bfloat16\",\"parameters\":700,\"units\":[" \
    "{\"unit\":0,"                                                                                                     \
    "\"name\":\"model.language_model.layers.0\",\"parameters\":300},{\"unit\":1,\"name\":\"model.language_model."      \
    "layers.1\","                                                                                                      \
    "\"parameters\":400}]}\n"
#define HEAD(rank) HEADER, 0ull, rank, "a"
#define S          1000000000ull /* a second */

static void step(const char *name, int rank, unsigned number, unsigned long long from, unsigned long long to)
{
    append(name, "{\"kind\":\"begin\",\"t\":%llu,\"rank\":%d,\"step\":%u,\"micro\":0,\"what\":\"step\"}\n", from, rank,
           number);
    append(name,
           "{\"kind\":\"step\",\"t\":%llu,\"rank\":%d,\"step\":%u,\"micro\":1,\"begin_t\":%llu,\"micro_steps\":1}\n",
           to, rank, number, from);
}

static void gather(const char *name, int rank, int number, const char *phase, unsigned long long from,
                   unsigned long long to)
{
    append(name,
           "{\"kind\":\"collective\",\"t\":%llu,\"rank\":%d,\"step\":0,\"micro\":0,\"collective\":\"all_gather\","
           "\"number\":%d,\"phase\":"
           "\"%s\",\"group_size\":2,\"input_bytes\":500,\"output_bytes\":1000,\"issued_t\":%llu,\"returned_t\":%llu,"
           "\"waited_t\":null}\n",
           to, rank, number, phase, from, to);
}

static void unit(const char *name, int rank, int number, unsigned long long from, unsigned long long to)
{
    append(name,
           "{\"kind\":\"end\",\"t\":%llu,\"rank\":%d,\"step\":0,\"micro\":0,\"what\":\"forward\",\"begin_t\":%llu,"
           "\"unit\":%d}\n",
           to, rank, from, number);
}

static void finish(const char *name, int rank, unsigned long long t, const char *error)
{
    append(name, "{\"kind\":\"finish\",\"t\":%llu,\"rank\":%d,\"error\":%s}\n", t, rank, error);
}

/* ---- what was given ---- */

enum { MOST = 1024 };
struct given {
    struct trace_record at[MOST]; /* without texts */
    int count;
    struct stream_found told;
    struct run_model *model;
};

static struct source *open_at(const char *path, bool follow)
{
    struct source *source;
    struct error err;
    if (stream_open(&source, path, follow, &err)) fail_msg("%s", err.text);
    return source;
}

/* Reads until nothing comes (live) or the end; times never go back. */
static enum source_result take(struct given *given, struct source *source)
{
    struct trace_record record;
    enum source_result result;
    if (!given->model) given->model = run_model_new(&(struct run_model_options){0});
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        assert_true(given->count < MOST);
        if (given->count) assert_true(record.time_ns >= given->at[given->count - 1].time_ns);
        run_model_fold(given->model, &record);
        given->at[given->count++] = record;
    }
    stream_told(source, &given->told);
    return result;
}

static void read_all(struct given *given, const char *path)
{
    struct source *source = open_at(path, false);
    *given = (struct given){.count = 0};
    assert_int_equal(take(given, source), SOURCE_END);
    source_close(source);
    assert_true(given->model->ended);
}

/* The n-th record of the kind and rank, or NULL. */
static const struct trace_record *nth(const struct given *given, enum trace_kind record_kind, int rank, int n)
{
    for (int i = 0; i < given->count; i++)
        if (given->at[i].kind == record_kind && given->at[i].rank == rank && n-- == 0) return &given->at[i];
    return NULL;
}

static void forget(struct given *given)
{
    run_model_free(given->model);
}

static unsigned long long at(const struct trace_record *record)
{
    assert_non_null(record);
    return record->time_ns - 1000 * S;
}

/* ---- lines ---- */

static void two_ranks_in_order_of_time(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0)), append("r1", HEAD(1));
    step("r0", 0, 0, 2 * S, 3 * S), step("r1", 1, 0, 2 * S + 5, 3 * S + 5);
    unit("r0", 0, 1, 2 * S + 10, 2 * S + 30); /* late: its line comes after the step's end */
    finish("r0", 0, 4 * S, "null"), finish("r1", 1, 4 * S, "null");
    read_all(&given, scratch);
    assert_int_equal(given.told.ranks, 2);
    assert_int_equal(given.told.wrong, 0);
    assert_int_equal(given.at[0].kind, TRACE_RUN);
    assert_int_equal(at(nth(&given, TRACE_STEP_BEGIN, 0, 0)), 2 * S);
    assert_int_equal(at(nth(&given, TRACE_STEP_BEGIN, 1, 0)), 2 * S + 5);
    assert_int_equal(at(nth(&given, TRACE_OP_BEGIN, 0, 0)), 2 * S + 10);
    assert_int_equal(at(nth(&given, TRACE_OP_END, 0, 0)), 2 * S + 30);
    const struct run_model *model = given.model;
    assert_int_equal(model->header.ranks, 2);
    assert_string_equal(model->header.program, "PyTorch 2.15.0");
    assert_string_equal(model->header.recognised, "FSDP (FSDP2)");
    assert_int_equal(model->outcome, OUTCOME_FINISHED);
    assert_string_equal(model->error, "");
    assert_string_equal(run_op_name(model, TRACE_OBSERVED, 0),
                        "forward language_model.layers.1"); /* the end of a long name */
    assert_int_equal(run_last_step(model)->total_ns, S);
    forget(&given);
}

static void collectives_are_matched_by_number(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0)), append("r1", HEAD(1));
    gather("r0", 0, 1, "start", S, S + 5), gather("r1", 1, 1, "start", S, S + 5); /* before the first step: of none */
    gather("r0", 0, 2, "forward", 2 * S, 2 * S + 90), gather("r1", 1, 2, "forward", 2 * S + 70, 2 * S + 90);
    gather("r0", 0, 3, "forward", 2 * S + 100, 2 * S + 120),
        gather("r1", 1, 3 + 4096, "forward", 2 * S + 110, 2 * S + 120);
    step("r0", 0, 0, 2 * S, 3 * S), step("r1", 1, 0, 2 * S, 3 * S);
    finish("r0", 0, 4 * S, "null"), finish("r1", 1, 4 * S, "null");
    read_all(&given, scratch);
    assert_int_equal(nth(&given, TRACE_OP_END, 0, 1)->op_end.peers_ns, 70);
    assert_int_equal(nth(&given, TRACE_OP_END, 1, 1)->op_end.peers_ns, 0);
    assert_int_equal(nth(&given, TRACE_OP_END, 0, 2)->op_end.peers_ns, 0); /* other numbers are not the same one */
    const struct trace_of_traffic *traffic = &nth(&given, TRACE_TRAFFIC, 0, 0)->traffic;
    assert_int_equal(traffic->count, 2);
    assert_int_equal(traffic->sent_bytes, 2 * 500);
    forget(&given);
}

/* More at a time than there are lanes: all are counted, and none lies inside another of its lane. */
static void all_overlapping_collectives_are_counted(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0));
    for (int i = 0; i < 6; i++) gather("r0", 0, i + 1, "forward", 2 * S + (unsigned)i, 2 * S + 100 - (unsigned)i);
    step("r0", 0, 0, 2 * S, 3 * S);
    finish("r0", 0, 4 * S, "null");
    read_all(&given, scratch);
    assert_int_equal(nth(&given, TRACE_TRAFFIC, 0, 0)->traffic.count, 6);
    assert_int_equal(nth(&given, TRACE_TRAFFIC, 0, 0)->traffic.sent_bytes, 6 * 500);
    assert_int_equal(given.model->header.missing, 1); /* rank 1 has no file: its steps are not waited for */
    assert_non_null(run_last_step(given.model));
    forget(&given);
}

static void ddp_collectives_have_no_times(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0));
    for (int i = 1; i <= 2; i++)
        append("r0",
               "{\"kind\":\"collective\",\"t\":%llu,\"rank\":0,\"step\":0,\"micro\":0,\"collective\":\"all_reduce\","
               "\"number\":%d,\"phase\":"
               "\"backward\",\"group_size\":2,\"input_bytes\":800,\"output_bytes\":800,\"issued_t\":null,\"returned_"
               "t\":null,"
               "\"waited_t\":null}\n",
               2 * S + 50, i);
    step("r0", 0, 0, 2 * S, 3 * S);
    finish("r0", 0, 4 * S, "null");
    read_all(&given, scratch);
    assert_int_equal(nth(&given, TRACE_TRAFFIC, 0, 0)->traffic.count, 2);
    assert_int_equal(nth(&given, TRACE_TRAFFIC, 0, 0)->traffic.sent_bytes, 2 * 800);
    assert_int_equal(nth(&given, TRACE_TRAFFIC, 0, 0)->traffic.busy_ns, 0);
    forget(&given);
}

static void loss_and_memory(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0)), append("r1", HEAD(1));
    append("r0",
           "{\"kind\":\"memory\",\"t\":%llu,\"rank\":0,\"step\":0,\"micro\":1,\"parameter_bytes\":100,\"gradient_"
           "bytes\":null,"
           "\"optimizer_bytes\":30,\"allocated_bytes\":150,\"peak_allocated_bytes\":170,\"reserved_bytes\":200}\n",
           3 * S);
    for (unsigned i = 0; i < 2; i++)
        step("r0", 0, i, (2 + i) * S, (3 + i) * S), step("r1", 1, i, (2 + i) * S, (3 + i) * S);
    append("r0", "{\"kind\":\"loss\",\"t\":%llu,\"rank\":0,\"step\":1,\"loss\":3}\n", 4 * S + 9);
    append("r1", "{\"kind\":\"loss\",\"t\":%llu,\"rank\":1,\"step\":1,\"loss\":5.5}\n", 4 * S + 9);
    step("r0", 0, 2, 5 * S, 6 * S), step("r1", 1, 2, 5 * S, 6 * S);
    append("r0", "{\"kind\":\"loss\",\"t\":%llu,\"rank\":0,\"step\":2,\"loss\":\"inf\"}\n", 6 * S);
    append("r1", "{\"kind\":\"loss\",\"t\":%llu,\"rank\":1,\"step\":2,\"loss\":\"nan\"}\n", 6 * S);
    finish("r0", 0, 7 * S, "null"), finish("r1", 1, 7 * S, "\"ValueError: 5\"");
    read_all(&given, scratch);
    assert_true(nth(&given, TRACE_STEP_END, 0, 0)->step_end.loss != nth(&given, TRACE_STEP_END, 0, 0)->step_end.loss);
    assert_true(nth(&given, TRACE_STEP_END, 0, 1)->step_end.loss == 3);
    assert_true(nth(&given, TRACE_STEP_END, 1, 1)->step_end.loss == 4.25F); /* of both ranks */
    assert_true(nth(&given, TRACE_STEP_END, 0, 2)->step_end.loss > 1e38F);
    static const uint8_t categories[] = {CATEGORY_PARAMETERS, CATEGORY_OPTIMIZER, TRACE_UNATTRIBUTED};
    static const uint64_t bytes[] = {100, 30, 20};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nth(&given, TRACE_MEMORY, 0, i)->memory.category, categories[i]);
        assert_int_equal(nth(&given, TRACE_MEMORY, 0, i)->memory.live_bytes, bytes[i]);
    }
    assert_int_equal(nth(&given, TRACE_TIER_PEAK, 0, 0)->tier_peak.peak_bytes, 170);
    assert_int_equal(given.model->outcome, OUTCOME_FAILED);
    assert_string_equal(given.model->error, "rank 1: ValueError: 5");
    forget(&given);
}

static void lost_and_wrong_lines(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEAD(0));
    append("r0", "what is this\n\n{\"kind\":\"end\",\"t\":5}\n{\"kind\":\"of a later version\"}\n{}\n");
    append("r0", HEAD(0)), append("r1", HEAD(0)); /* a rank has one stream */
    append("r0", "{\"kind\":\"lost\",\"t\":%llu,\"lines\":7}\n", 2 * S);
    append("r0", "{\"kind\":\"step\",\"t\":");
    read_all(&given, scratch);
    assert_int_equal(given.told.wrong, 5);
    assert_string_equal(given.told.first_wrong, "r0, line 2: no JSON object with a kind");
    assert_int_equal(given.told.lost, 7);
    assert_int_equal(nth(&given, TRACE_GAP, 0, 0)->gap.records, 7);
    assert_int_equal(given.model->outcome, OUTCOME_STOPPED);
    assert_non_null(strstr(given.model->error, "rank 0 wrote no last line"));
    forget(&given);
}

/* Clocks of two hosts count from their own starts: unix_ns brings them together. */
static void two_hosts(void **state)
{
    struct given given;
    (void)state;
    append("r0", HEADER, 10 * S, 0, "a"), append("r1", HEADER, 700 * S, 1, "b");
    step("r0", 0, 0, 11 * S, 12 * S), step("r1", 1, 0, 701 * S, 702 * S);
    finish("r0", 0, 13 * S, "null"), finish("r1", 1, 703 * S, "null");
    read_all(&given, scratch);
    assert_int_equal(at(nth(&given, TRACE_STEP_BEGIN, 0, 0)), S);
    assert_int_equal(at(nth(&given, TRACE_STEP_BEGIN, 1, 0)), S);
    forget(&given);
}

/* ---- while it runs ---- */

static void a_file_that_grows(void **state)
{
    struct given given = {.count = 0};
    (void)state;
    append("r0", HEAD(0));
    struct source *source = open_at(scratch, true);
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    append("r1", HEAD(1)); /* a file that comes later */
    usleep(120 * 1000);
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    assert_int_equal(given.told.ranks, 2);
    step("r0", 0, 0, 2 * S, 3 * S), step("r1", 1, 0, 2 * S, 3 * S);
    append("r0", "{\"kind\":\"loss\",\"t\":%llu,\"rank\":0,", 3 * S); /* cut, and completed later */
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    assert_non_null(nth(&given, TRACE_STEP_BEGIN, 0, 0));
    assert_null(nth(&given, TRACE_STEP_END, 0, 0)); /* lines of that time may still come */
    append("r0", "\"step\":0,\"loss\":2}\n");
    unit("r0", 0, 0, S, 9 * S), unit("r1", 1, 0, 4 * S, 9 * S); /* the first begins before what was given */
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    assert_true(nth(&given, TRACE_STEP_END, 0, 0)->step_end.loss == 2);
    assert_null(nth(&given, TRACE_OP_BEGIN, 0, 0));
    assert_non_null(nth(&given, TRACE_OP_BEGIN, 1, 0));
    assert_false(given.model->ended);
    finish("r0", 0, 9 * S, "null"), finish("r1", 1, 9 * S, "null");
    assert_int_equal(take(&given, source), SOURCE_END);
    assert_int_equal(at(nth(&given, TRACE_OP_END, 0, 0)), 9 * S);
    assert_true(given.model->ended);
    source_close(source);
    forget(&given);
}

static void a_silent_job_and_a_file_cut(void **state)
{
    struct given given = {.count = 0};
    (void)state;
    append("r0", HEAD(0)), append("r1", HEAD(1));
    struct source *source = open_at(scratch, true);
    finish("r1", 1, S, "null");
    take(&given, source);
    for (int i = 0; i < 140 && !given.model->reason[0]; i++) usleep(50 * 1000), take(&given, source);
    assert_string_equal(given.model->reason, "no line of rank 0 for 5 s");
    assert_int_equal(truncate(in_scratch("r0"), 10), 0);
    assert_int_equal(take(&given, source), SOURCE_END);
    assert_non_null(strstr(given.told.first_wrong, "the file was cut"));
    source_close(source);
    forget(&given);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void send_file(int fd, const char *name)
{
    char text[4096];
    FILE *file = fopen(in_scratch(name), "r");
    const size_t bytes = fread(text, 1, sizeof text, file);
    fclose(file);
    assert_int_equal(write(fd, text, bytes), bytes);
}

/* One rank says that it ends, the other breaks off within a line. The socket of a killed reader is replaced, a file is
 * not. */
static void a_socket(void **state)
{
    struct given given = {.count = 0};
    struct error err;
    char path[200];
    (void)state;
    append("r0", HEAD(0)), append("r1", HEAD(1));
    step("r0", 0, 0, 2 * S, 3 * S), step("r1", 1, 0, 2 * S, 3 * S);
    finish("r0", 0, 4 * S, "null"), append("r1", "{\"kind\":");
    snprintf(path, sizeof path, "unix:%s", in_scratch("s"));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path + 5);
    const int killed = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(killed, (struct sockaddr *)&address, sizeof address), 0);
    close(killed);
    struct source *source = open_at(path, true), *second;
    assert_int_equal(stream_open(&second, path, true, &err), STATUS_USAGE); /* this one is read */
    close(connect_to(path + 5));                                            /* one that says nothing */
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    const int first = connect_to(path + 5), other = connect_to(path + 5);
    send_file(first, "r0"), send_file(other, "r1");
    close(first);
    assert_int_equal(take(&given, source), SOURCE_WAIT);
    assert_false(given.model->ended);
    close(other);
    assert_int_equal(take(&given, source), SOURCE_END);
    assert_non_null(nth(&given, TRACE_STEP_END, 1, 0));
    assert_int_equal(given.model->outcome, OUTCOME_STOPPED);
    assert_non_null(strstr(given.model->error, "rank 1 wrote no last line"));
    source_close(source);
    assert_int_not_equal(access(path + 5, F_OK), 0);
    snprintf(path, sizeof path, "unix:%s", in_scratch("r0"));
    assert_int_equal(stream_open(&source, path, true, &err), STATUS_USAGE);
    assert_int_equal(access(path + 5, F_OK), 0);
    forget(&given);
}

static void what_is_no_stream(void **state)
{
    struct source *source;
    struct import import;
    struct error err;
    (void)state;
    append("r0", HEAD(0)), append("other", "{\"a\":1}\n");
    assert_true(stream_is(scratch));
    assert_true(stream_is(in_scratch("r0")));
    assert_false(stream_is(in_scratch("other")));
    assert_int_equal(stream_open(&source, in_scratch("other"), false, &err), STATUS_INPUT);
    assert_int_equal(stream_open(&source, in_scratch("absent"), true, &err), STATUS_INPUT);
    const char *const two[] = {scratch, scratch}; /* several folders: which rank is whose is not known */
    assert_int_equal(import_files(&import, two, 2, &err), STATUS_USAGE);
}

/* ---- a real job ---- */

/* Of a step's collectives on a rank: how many, and bytes as a ring of two sends them: half of the larger side, and twice
 * that of an all-reduce. */
static void told_by_job(const cJSON *of, const char *word, double factor, uint64_t *count, uint64_t *bytes)
{
    const cJSON *one;
    *count = *bytes = 0;
    cJSON_ArrayForEach(one, json_get(of, "collectives"))
    {
        const double in = json_get_number(one, "input_elems", 1e15, 0),
                     out = json_get_number(one, "output_elems", 1e15, 0);
        if (strcmp(json_get_text(one, "kind"), word)) continue;
        assert_string_equal(json_get_text(one, "dtype"), "float32");
        ++*count;
        *bytes += (uint64_t)(factor * 4 * (in > out ? in : out) / 2);
    }
}

static void a_real_job(void **state)
{
    static const struct {
        const char *word;
        enum traffic kind;
        double factor;
    } words[] = {{"all_gather", TRAFFIC_ALL_GATHER, 1},
                 {"reduce_scatter", TRAFFIC_REDUCE_SCATTER, 1},
                 {"all_reduce", TRAFFIC_ALL_REDUCE, 2}};
    static char text[1 << 16];
    struct given given;
    const cJSON *of;
    int seen = 0;
    (void)state;
    read_all(&given, "tests/foreign/streams/fsdp2-2");
    FILE *file = fopen("tests/foreign/streams/fsdp2-2/truth.json", "r");
    assert_non_null(file);
    assert_in_range(fread(text, 1, sizeof text - 1, file), 1, sizeof text - 2);
    fclose(file);
    cJSON *truth = cJSON_Parse(text);
    cJSON_ArrayForEach(of, json_get(truth, "steps"))
    {
        const int rank = (int)json_get_number(of, "rank", 1, 0);
        const uint32_t number = (uint32_t)json_get_number(of, "step", 100, 0) + 1;
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
            uint64_t count, bytes, found = 0, sent = 0;
            told_by_job(of, words[w].word, words[w].factor, &count, &bytes);
            for (int i = 0; i < given.count; i++) {
                const struct trace_record *record = &given.at[i];
                if (record->kind != TRACE_TRAFFIC || record->rank != rank || record->traffic.step != number ||
                    record->traffic.traffic != words[w].kind)
                    continue;
                found += record->traffic.count, sent += record->traffic.sent_bytes;
            }
            assert_int_equal(found, count);
            assert_int_equal(sent, bytes);
            seen += count > 0;
        }
        const struct trace_record *end = nth(&given, TRACE_STEP_END, rank, (int)number - 1);
        const double seconds = (double)end->step_end.total_ns * 1e-9, told = json_get_number(of, "seconds", 1e9, 0);
        assert_true(seconds > 0.5 * told && seconds <= told);
    }
    assert_int_equal(seen, 2 * 3 * 2); /* gathers and reduce-scatters of each rank and step */
    cJSON_ArrayForEach(of, json_get(truth, "memory"))
    {
        const int rank = (int)json_get_number(of, "rank", 1, 0);
        assert_int_equal(nth(&given, TRACE_MEMORY, rank, 6)->memory.live_bytes,
                         json_get_number(of, "parameter_bytes", 1e15, 0));
        assert_int_equal(nth(&given, TRACE_MEMORY, rank, 8)->memory.live_bytes,
                         json_get_number(of, "optimizer_bytes", 1e15, 0));
    }
    assert_int_equal(given.told.wrong, 0);
    assert_int_equal(given.model->outcome, OUTCOME_FINISHED);
    cJSON_Delete(truth);
    forget(&given);
}

static int make_scratch(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.40s/stream-XXXXXX", folder && *folder ? folder : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    static const char *const names[] = {"r0", "r1", "other", "s"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unlink(in_scratch(names[i]));
    return rmdir(scratch);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_scratch, remove_scratch)

/* Three gathers and two units at a time: each in a lane of its kind, none moved in time. */
static void what_overlaps_has_lanes_of_its_kind(void **state)
{
    struct given given;
    int lanes = 0;
    (void)state;
    append("r0", HEAD(0));
    step("r0", 0, 0, S, 3 * S);
    for (int n = 0; n < 3; n++) gather("r0", 0, n + 1, "forward", S + (unsigned)n, 2 * S);
    for (int n = 0; n < 2; n++) unit("r0", 0, n, S + (unsigned)n, 2 * S);
    read_all(&given, in_scratch("r0"));
    const struct run_schedule *observed = run_schedule_numbered(given.model, TRACE_OBSERVED);
    for (int n = 0; n < 5; n++) {
        const struct trace_record *end = nth(&given, TRACE_OP_END, 0, n);
        const struct op *op = end ? run_op(observed, end->op_end.op) : NULL;
        assert_non_null(op);
        assert_int_equal(lane_kind(op->lane), op_lane(op->kind));
        assert_int_equal(end->op_end.started_ns, end->op_end.issued_ns);
        assert_false(lanes >> op->lane & 1);
        lanes |= 1 << op->lane;
    }
    forget(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_ranks_in_order_of_time),
        TEST(collectives_are_matched_by_number),
        TEST(all_overlapping_collectives_are_counted),
        TEST(what_overlaps_has_lanes_of_its_kind),
        TEST(ddp_collectives_have_no_times),
        TEST(loss_and_memory),
        TEST(lost_and_wrong_lines),
        TEST(two_hosts),
        TEST(a_file_that_grows),
        TEST(a_silent_job_and_a_file_cut),
        TEST(a_socket),
        TEST(what_is_no_stream),
        TEST(a_real_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
