/* `zerolab export` to tables and JSON lines, which hold every record; and exports of traces that are odd or were cut. */
#include "engine/trace/file.h"
#include "tests/support/export_fixture.h"

/* ---- tables ---- */

struct table {
    char *text, *at;
    int columns, rows;
};

static struct table table_of(const char *csv, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", csv, name);
    struct bytes file = load(path);
    bytes_append(&file, "", 1);
    unlink(path);
    struct table table = {.text = (char *)file.at, .at = (char *)file.at, .columns = 1};
    for (const char *at = table.text; *at != '\n'; at++) table.columns += *at == ',';
    return table;
}

static int column_of(const struct table *table, const char *name)
{
    int column = 0;
    for (const char *at = table->text; *at != '\n'; at += strcspn(at, ",\n"), at += *at == ',', column++)
        if (strcspn(at, ",\n") == strlen(name) && begins(at, name)) return column;
    fail_msg("no column %s", name);
    return -1;
}

/* The next row, of as many cells as the head. False: the end. */
static bool next_row(struct table *table, char cells[32][80])
{
    table->at += strcspn(table->at, "\n") + 1;
    if (!*table->at) return false;
    int column = 0;
    for (const char *at = table->at; *at != '\n'; column++) {
        snprintf(cells[column], 80, "%.*s", (int)strcspn(at, ",\n"), at);
        at += strcspn(at, ",\n");
        if (*at == ',' && *++at == '\n') cells[++column][0] = '\0';
    }
    assert_int_equal(column, table->columns);
    table->rows++;
    return true;
}

static void tables_have_all_records(void **state)
{
    (void)state;
    char csv[128], cells[32][80];
    for (int t = 0; t < TRACES; t++) {
        snprintf(csv, sizeof csv, "%s", in_folder("csv"));
        write_out("csv", traces[t], csv);
        int count[64] = {0};
        double sent = 0, sent_by_ops = 0, want = 0, live = 0, want_live = 0, lost = 0, links = 0;
        struct walk walk = walk_of(traces[t]);
        while (goes_on(&walk)) {
            count[walk.record.kind]++;
            if (walk.record.kind == TRACE_TRAFFIC) want += (double)walk.record.traffic.sent_bytes;
            if (walk.record.kind == TRACE_LINK) links += (double)walk.record.link.busy_ns;
            if (walk.record.kind == TRACE_OP_END) sent_by_ops += (double)walk.record.op_end.sent_bytes;
            if (walk.record.kind == TRACE_MEMORY) want_live += (double)walk.record.memory.live_bytes;
            if (walk.record.kind == TRACE_STEP_END) lost += (double)walk.record.step_end.loss;
        }
        struct table table = table_of(csv, "collectives.csv");
        while (next_row(&table, cells)) {
            sent += atof(cells[column_of(&table, "sent_bytes")]);
            links -= atof(cells[column_of(&table, "link_busy_ns")]);
        }
        assert_true(sent == want && links == 0 && table.rows == count[TRACE_TRAFFIC]);
        free(table.text);
        table = table_of(csv, "operations.csv");
        while (next_row(&table, cells)) sent_by_ops -= atof(cells[column_of(&table, "sent_bytes")]);
        assert_true(sent_by_ops == 0 && table.rows == count[TRACE_OP_END]);
        free(table.text);
        table = table_of(csv, "memory.csv");
        while (next_row(&table, cells)) live += atof(cells[column_of(&table, "live_bytes")]);
        assert_true(live == want_live && table.rows == count[TRACE_MEMORY]);
        free(table.text);
        table = table_of(csv, "steps.csv");
        while (next_row(&table, cells)) {
            lost -= atof(cells[column_of(&table, "loss")]);
            assert_true(atof(cells[column_of(&table, "time_ns")]) > atof(cells[column_of(&table, "begun_ns")]));
        }
        assert_true(fabs(lost) < 1e-5 && table.rows == count[TRACE_STEP_END]);
        free(table.text);
        run_model_free(walk.model);
        assert_int_equal(rmdir(csv), 0);
    }
}

/* ---- JSON lines ---- */

static void same_number(const cJSON *line, const char *name, double value)
{
    const cJSON *item = json_get(line, name);
    if (isfinite(value)) assert_true(cJSON_IsNumber(item) && item->valuedouble == value);
    else assert_true(cJSON_IsNull(item));
}

static void same_text_of(const cJSON *line, const char *name, struct trace_text value)
{
    const char *got = text(line, name);
    for (size_t i = 0; i < value.bytes; i++)
        if (value.at[i] & 0x80 || !value.at[i]) return; /* not_of_this_world() is about these */
    assert_int_equal(strlen(got), value.bytes);
    assert_memory_equal(got, value.at, value.bytes);
}

#define SAME_LINE_u8(field)   same_number(line, #field, (double)of->field)
#define SAME_LINE_u16         SAME_LINE_u8
#define SAME_LINE_u32         SAME_LINE_u8
#define SAME_LINE_u64         SAME_LINE_u8
#define SAME_LINE_i64         SAME_LINE_u8
#define SAME_LINE_time        SAME_LINE_u8
#define SAME_LINE_f32(field)  same_number(line, #field, strtod(digits(of->field, 9), NULL))
#define SAME_LINE_f64(field)  same_number(line, #field, of->field)
#define SAME_LINE_text(field) same_text_of(line, #field, of->field)

static const char *digits(float value, int count)
{
    static char out[32];
    snprintf(out, sizeof out, "%.*g", count, (double)value);
    assert_true(isnan(value) || strtof(out, NULL) == value);
    return out;
}

static void check_line(const cJSON *line, const struct trace_record *record)
{
    assert_string_equal(text(line, "kind"), trace_kind_name(record->kind));
    same_number(line, "rank", record->rank);
    same_number(line, "time_ns", (double)record->time_ns);
    switch ((unsigned)record->kind) {
#define F(type, field, help) SAME_LINE_##type(field);
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    case number: {                                                                                                     \
        const struct trace_of_##name *of = &record->name;                                                              \
        FIELDS(F)                                                                                                      \
        break;                                                                                                         \
    }
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
}

static void check_lines(const char *trace)
{
    const char *path = in_folder("out.jsonl");
    write_out("jsonl", trace, path);
    struct bytes file = load(path);
    bytes_append(&file, "", 1);
    char *at = (char *)file.at;
    struct walk walk = walk_of(trace);
    while (goes_on(&walk)) {
        struct bytes one = {0};
        bytes_append(&one, at, strcspn(at, "\n"));
        cJSON *line = parse(&one);
        check_line(line, &walk.record);
        cJSON_Delete(line);
        bytes_release(&one);
        at += strcspn(at, "\n") + 1;
    }
    assert_int_equal(*at, 0);
    run_model_free(walk.model);
    bytes_release(&file);
    unlink(path);
}

static void every_record_is_a_line(void **state)
{
    (void)state;
    for (int t = 0; t < TRACES; t++) check_lines(traces[t]);
}

/* ---- traces that are not as they should be ---- */

/* The example without its END, with losses that are not numbers, texts of any bytes, a gap, and an operation of no schedule. */
static const char *odd_trace(int most)
{
    static char path[128];
    static const char odd[] = "\"\\\n\t\0\xff\xc3\xa4\xed\xa0\x80\xf0\x9f\x98\x80\xc3";
    struct trace_file *file;
    struct source *source;
    struct trace_record record, extra = {.kind = TRACE_SAMPLE, .rank = TRACE_RANK_ALL};
    snprintf(path, sizeof path, "%s", in_folder("odd.zlt"));
    assert_int_equal(trace_file_create(&file, path, NULL), 0);
    assert_int_equal(source_open_file(&source, "docs/example.zlt", NULL), 0);
    for (int n = 0; n < most && source_next(source, &record) == SOURCE_RECORD; n++) {
        if (record.kind == TRACE_STEP_END) record.step_end.loss = NAN, record.step_end.grad_norm = -INFINITY;
        if (record.kind != TRACE_END) trace_file_put(file, &record, NULL);
    }
    extra.time_ns = record.time_ns;
    extra.sample = (struct trace_of_sample){1, {odd, sizeof odd - 1}};
    trace_file_put(file, &extra, NULL);
    extra.kind = TRACE_LOG;
    extra.log = (struct trace_of_log){1, {odd, sizeof odd - 1}};
    trace_file_put(file, &extra, NULL);
    extra.kind = TRACE_GAP;
    extra.gap = (struct trace_of_gap){7, record.time_ns};
    trace_file_put(file, &extra, NULL);
    extra = op_end(0, 1, record.time_ns);
    extra.op_end.schedule = 999999;
    trace_file_put(file, &extra, NULL);
    trace_file_close(file, NULL);
    source_close(source);
    return path;
}

static int count_of(const cJSON *json, const char *kind, const char *cat)
{
    const cJSON *event;
    int count = 0;
    cJSON_ArrayForEach(event, json_get(json, "traceEvents")) count +=
        is(event, "ph", kind) && (!cat || is(event, "cat", cat));
    return count;
}

static void not_of_this_world(void **state)
{
    (void)state;
    struct export_told told;
    const char *trace = odd_trace(1 << 30);
    cJSON *json = perfetto_of(trace, &told);
    check_events(json);
    assert_int_equal(told.unplaced, 1);
    assert_int_equal(told.lost, 7);
    assert_non_null(strstr(told.defect, "no end record"));
    assert_int_equal(count_of(json, "i", "gap"), 1);
    const cJSON *event;
    cJSON_ArrayForEach(event, json_get(json, "traceEvents")) assert_false(is(event, "name", "loss"));
    cJSON_Delete(json);
    check_lines(trace);
    const char *path = in_folder("out.jsonl");
    write_out("jsonl", trace, path);
    struct bytes file = load(path);
    bytes_append(&file, "", 1);
    assert_non_null(strstr(
        (char *)file.at, "\"\\\"\\\\\\u000a\\u0009\\u0000\\ufffd\\u00e4\\ufffd\\ufffd\\ufffd\\ud83d\\ude00\\ufffd\""));
    assert_non_null(strstr((char *)file.at, "\"loss\":null,\"grad_norm\":null"));
    bytes_release(&file);
    unlink(path);
    unlink(trace);
}

/* A trace that ends in the middle of a step: what had begun is there, without an end. */
static void what_had_begun_is_open(void **state)
{
    (void)state;
    int open = 0;
    for (int most = 200; most < 1200; most += 100) {
        struct export_told told;
        const char *trace = odd_trace(most);
        struct walk walk = walk_of(trace);
        int busy = 0;
        while (goes_on(&walk)) continue;
        for (int rank = 0; rank < walk.model->ranks; rank++)
            for (int lane = 0; lane < LANES; lane++) busy += walk.model->rank[rank].lane[lane].busy;
        run_model_free(walk.model);
        cJSON *json = perfetto_of(trace, &told);
        assert_int_equal(count_of(json, "B", NULL), busy);
        open += busy;
        cJSON_Delete(json);
        unlink(trace);
    }
    assert_true(open > 0);
}

/* A file that was cut anywhere gives what its whole chunks hold, or is refused. */
static void a_cut_trace_is_written_as_far_as_it_goes(void **state)
{
    (void)state;
    struct bytes whole_trace = load("docs/example.zlt");
    char path[128];
    int written = 0;
    snprintf(path, sizeof path, "%s", in_folder("cut.zlt"));
    for (size_t bytes = 0; bytes < whole_trace.count; bytes += whole_trace.count / 41) {
        struct export_told told;
        struct error err = {.text = ""};
        const char *out = in_folder("out.json");
        save(path, whole_trace.at, bytes);
        struct export_options options = {.trace = path, .format = export_format_named("perfetto"), .path = out};
        options.out = fopen(out, "wb");
        const int status = export_trace(&options, &told, &err);
        fclose(options.out);
        assert_true(status == STATUS_OK || (status == STATUS_INPUT && *err.text));
        if (status) continue;
        cJSON_Delete(load_json(out));
        assert_true(*told.defect);
        written++;
    }
    assert_true(written > 20);
    unlink(in_folder("out.json"));
    unlink(path);
    bytes_release(&whole_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_all_records),
        cmocka_unit_test(every_record_is_a_line),
        cmocka_unit_test(not_of_this_world),
        cmocka_unit_test(what_had_begun_is_open),
        cmocka_unit_test(a_cut_trace_is_written_as_far_as_it_goes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
