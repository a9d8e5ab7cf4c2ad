/* What `zerolab export` writes, of traces of every kind of run: the rules of each form, and the same figures as the trace's own
 * readers give. */
#include <math.h>
#include <string.h>
#include <zlib.h>

#include <cjson/cJSON.h>

#include "engine/advise/analysis.h"
#include "engine/base/json.h"
#include "engine/export/export.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"
#include "tests/support/trace_fixture.h"
#include "tui/view/op_text.h"

static const char *const traces[] = {
    "docs/example.zlt",           "tests/reference/stage1.zlt", "tests/reference/stage3.zlt",
    "tests/reference/tiers.zlt",  "tests/reference/wide.zlt",   "tests/reference/deep.zlt",
    "tests/reference/zeropp.zlt", "tests/reference/hops.zlt",   "tests/reference/paced.zlt"};
enum { TRACES = sizeof traces / sizeof *traces };

/* ---- exporting and reading ---- */

static struct export_told write_out(const char *format, const char *trace, const char *path)
{
    struct export_options options = {.trace = trace, .format = export_format_named(format), .path = path};
    struct export_told told;
    struct error err = {.text = ""};
    if (!export_is_folder(options.format)) assert_non_null(options.out = fopen(path, "wb"));
    const int status = export_trace(&options, &told, &err);
    if (options.out) fclose(options.out);
    if (status) fail_msg("%s to %s: %s", trace, format, err.text);
    return told;
}

static struct bytes load_gz(const char *path)
{
    struct bytes text = {0};
    char part[4096];
    gzFile file = gzopen(path, "rb");
    if (!file) fail_msg("no file %s", path);
    for (int count; (count = gzread(file, part, sizeof part)) > 0;) bytes_append(&text, part, (size_t)count);
    assert_int_equal(gzclose(file), Z_OK);
    return text;
}

static cJSON *parse(struct bytes *text)
{
    const char *end;
    bytes_append(text, "", 1);
    for (const char *at = (const char *)text->at; *at; at++)
        if ((unsigned char)*at > 0x7e || (*at < ' ' && *at != '\n')) fail_msg("byte %d in JSON", *at);
    cJSON *json = cJSON_ParseWithOpts((const char *)text->at, &end, false);
    assert_non_null(json);
    assert_int_equal(end[strspn(end, "\n")], 0);
    return json;
}

static cJSON *load_json(const char *path)
{
    struct bytes text = load_gz(path);
    cJSON *json = parse(&text);
    bytes_release(&text);
    unlink(path);
    return json;
}

static cJSON *perfetto_of(const char *trace, struct export_told *told)
{
    const char *path = in_folder("out.json");
    *told = write_out("perfetto", trace, path);
    return load_json(path);
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    if (!cJSON_IsNumber(item)) fail_msg("no number %s in %s", name, cJSON_PrintUnformatted(object));
    return item->valuedouble;
}

static int whole(const cJSON *object, const char *name)
{
    const double value = number(object, name);
    assert_true(value == floor(value));
    return (int)value;
}

static int64_t ns(const cJSON *event, const char *name)
{
    return llround(number(event, name) * 1000);
}

static const char *text(const cJSON *object, const char *name)
{
    const char *found = json_get_text(object, name);
    assert_non_null(found);
    return found;
}

static bool is(const cJSON *object, const char *name, const char *value)
{
    const char *found = json_get_text(object, name);
    return found && !strcmp(found, value);
}

/* ---- the trace itself ---- */

struct walk {
    struct source *source;
    struct run_model *model;
    struct trace_record record;
};

static struct walk walk_of(const char *trace)
{
    struct walk walk = {.model = run_model_new(&(struct run_model_options){.steps = 64, .notices = 64})};
    assert_int_equal(source_open_file(&walk.source, trace, NULL), 0);
    return walk;
}

static bool goes_on(struct walk *walk)
{
    if (source_next(walk->source, &walk->record) == SOURCE_RECORD)
        return run_model_fold(walk->model, &walk->record), true;
    source_close(walk->source);
    return false;
}

/* ---- Chrome's JSON ---- */

struct slice {
    int pid, tid;
    int64_t from, to;
};

static int by_place(const void *left, const void *right)
{
    const struct slice *a = left, *b = right;
    if (a->pid != b->pid) return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid) return a->tid < b->tid ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to);
}

/* On one thread each slice ends before the next begins, or holds it. */
static void check_nesting(struct slice *slices, int count)
{
    qsort(slices, (size_t)count, sizeof *slices, by_place);
    for (int i = 1; i < count; i++) {
        const struct slice *a = &slices[i - 1], *b = &slices[i];
        if (a->pid != b->pid || a->tid != b->tid) continue;
        assert_true(a->to <= b->from || a->to >= b->to);
    }
}

static bool lies_in_one(const struct slice *slices, int count, const cJSON *end)
{
    const int64_t at = ns(end, "ts");
    for (int i = 0; i < count; i++)
        if (slices[i].pid == whole(end, "pid") && slices[i].tid == whole(end, "tid") && at >= slices[i].from &&
            (at < slices[i].to || slices[i].from == slices[i].to))
            return true;
    return false;
}

/* Arrows come in pairs, forwards in time. */
static int check_arrows(const cJSON *events, const struct slice *slices, int count)
{
    const cJSON *event, *open = NULL;
    int arrows = 0;
    cJSON_ArrayForEach(event, events)
    {
        if (!is(event, "ph", "s") && !is(event, "ph", "f")) continue;
        assert_true(lies_in_one(slices, count, event));
        assert_true(is(event, "ph", open ? "f" : "s"));
        if (!open) {
            open = event;
            continue;
        }
        assert_true(number(open, "id") == number(event, "id") && ns(open, "ts") <= ns(event, "ts"));
        assert_true(is(event, "bp", "e"));
        open = NULL;
        arrows++;
    }
    assert_null(open);
    return arrows;
}

static int check_events(const cJSON *json)
{
    const cJSON *events = json_get(json, "traceEvents"), *event;
    struct slice *slices = calloc((size_t)cJSON_GetArraySize(events) + 1, sizeof *slices);
    int count = 0;
    cJSON_ArrayForEach(event, events)
    {
        const struct slice at = {whole(event, "pid"), whole(event, "tid"), 0, 0};
        assert_non_null(strchr("MXBCisf", text(event, "ph")[0]));
        if (!is(event, "ph", "M")) assert_true(ns(event, "ts") >= 0);
        if (!is(event, "ph", "X")) continue;
        assert_true(number(event, "dur") >= 0 && *text(event, "name") && *text(event, "cat"));
        slices[count] = at;
        slices[count].from = ns(event, "ts");
        slices[count++].to = ns(event, "ts") + ns(event, "dur");
    }
    check_nesting(slices, count);
    assert_true(check_arrows(events, slices, count) > 0);
    free(slices);
    return count;
}

static void chrome_json_keeps_its_rules(void **state)
{
    (void)state;
    for (int t = 0; t < TRACES; t++) {
        struct export_told told;
        cJSON *json = perfetto_of(traces[t], &told);
        struct walk walk = walk_of(traces[t]);
        int ops = 0;
        while (goes_on(&walk)) ops += walk.record.kind == TRACE_OP_END;
        assert_int_equal(check_events(json), ops);
        assert_int_equal(told.unplaced, 0);
        assert_string_equal(told.defect, "");
        run_model_free(walk.model);
        cJSON_Delete(json);
    }
}

static const cJSON *next_of(const cJSON *event, const char *kind)
{
    do event = event->next;
    while (event && !is(event, "ph", kind));
    return event;
}

/* Every slice is an OP_END record, in the same order, with the label of the timeline. */
static void slices_say_what_records_do(void **state)
{
    (void)state;
    for (int t = 0; t < TRACES; t++) {
        struct export_told told;
        cJSON *json = perfetto_of(traces[t], &told);
        struct walk walk = walk_of(traces[t]);
        const cJSON *slice = json_get(json, "traceEvents")->child;
        uint64_t base_ns = 0;
        while (goes_on(&walk)) {
            const struct trace_of_op_end *from = &walk.record.op_end;
            char label[LABEL_ROOM];
            if (!base_ns) base_ns = walk.record.time_ns;
            if (walk.record.kind != TRACE_OP_END) continue;
            slice = next_of(slice, "X");
            const cJSON *args = json_get(slice, "args");
            assert_true(op_label(label, walk.model, from->schedule, (int)from->op));
            assert_string_equal(text(slice, "name"), label);
            assert_int_equal(whole(slice, "pid"), walk.record.rank);
            assert_int_equal(ns(slice, "ts"), from->started_ns - base_ns);
            assert_int_equal(ns(slice, "dur"), walk.record.time_ns - from->started_ns);
            assert_int_equal(number(args, "step"), from->step);
            assert_int_equal(number(args, "sent_bytes"), from->sent_bytes);
            assert_int_equal(number(args, "peers_ns"), from->peers_ns);
            assert_int_equal(number(args, "waited_ns"), from->ready_ns - from->issued_ns);
        }
        assert_null(next_of(slice, "X"));
        run_model_free(walk.model);
        cJSON_Delete(json);
    }
}

/* The last counter of each rank and tier holds what the model does at the end; losses are those of the steps. */
static void counters_are_the_models(void **state)
{
    (void)state;
    struct export_told told;
    cJSON *json = perfetto_of("tests/reference/tiers.zlt", &told);
    struct walk walk = walk_of("tests/reference/tiers.zlt");
    double loss = 0;
    int losses = 0, seen = 0;
    while (goes_on(&walk)) continue;
    const cJSON *event, *last[2][TIERS] = {{NULL}};
    cJSON_ArrayForEach(event, json_get(json, "traceEvents"))
    {
        if (!is(event, "ph", "C")) continue;
        for (int tier = 0; tier < TIERS; tier++)
            if (!strncmp(text(event, "name"), tier_name((enum tier)tier), strlen(tier_name((enum tier)tier))))
                last[whole(event, "pid")][tier] = event;
        if (is(event, "name", "loss")) loss = number(json_get(event, "args"), "loss"), losses++;
    }
    for (int rank = 0; rank < 2; rank++)
        for (int tier = 0; tier < TIERS; tier++)
            for (int c = 0; c < CATEGORIES; c++) {
                const struct run_memory *memory = &walk.model->rank[rank].tier[tier].category[c];
                if (!memory->known) continue;
                assert_int_equal(number(json_get(last[rank][tier], "args"), category_name((enum category)c)),
                                 memory->live_bytes);
                seen |= 1 << tier;
            }
    assert_int_equal(seen, 7); /* all tiers */
    assert_int_equal(losses, walk.model->steps_seen);
    assert_true((float)loss == run_last_step(walk.model)->loss);
    run_model_free(walk.model);
    cJSON_Delete(json);
}

/* ---- HTA ---- */

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* HTA's patterns (hta/utils/utils.py): ^nccl.*Kernel; (^Memcpy)|(^Memset)|(^dma). */
static bool is_communication(const char *name)
{
    return begins(name, "nccl") && strstr(name, "Kernel");
}

static bool is_moving(const char *name)
{
    return is_communication(name) || begins(name, "Memcpy") || begins(name, "Memset") || begins(name, "dma");
}

/* Numbers of launches are in order: those of a step are from the first that lies in it to the last. */
static const cJSON *launch_of(const cJSON *events, double correlation)
{
    const cJSON *event;
    cJSON_ArrayForEach(event, events) if (is(event, "cat", "cuda_runtime") &&
                                          number(json_get(event, "args"), "correlation") == correlation) return event;
    fail();
    return NULL;
}

static void add_step(struct temporal *sum, const cJSON *events, const cJSON *step)
{
    const int room = cJSON_GetArraySize(events);
    struct intervals of[3] = {0}; /* compute, communication, all that moves */
    struct temporal one;
    const cJSON *event;
    for (int k = 0; k < 3; k++) of[k].at = calloc((size_t)room, sizeof *of[k].at);
    cJSON_ArrayForEach(event, events)
    {
        const cJSON *args = json_get(event, "args");
        if (!json_get(args, "stream")) continue;
        const int64_t launched = ns(launch_of(events, number(args, "correlation")), "ts"), from = ns(step, "ts");
        const struct interval busy = {(uint64_t)ns(event, "ts"), (uint64_t)(ns(event, "ts") + ns(event, "dur"))};
        const char *name = text(event, "name");
        assert_true(whole(args, "stream") > 0 &&
                    is(event, "cat", begins(name, "Memcpy") || begins(name, "dma") ? "gpu_memcpy" : "kernel"));
        assert_true((uint64_t)launched <= busy.from_ns);
        if (launched < from || launched >= from + ns(step, "dur")) continue;
        if (!is_moving(name)) of[0].at[of[0].count++] = busy;
        if (is_communication(name)) of[1].at[of[1].count++] = busy;
        if (is_moving(name)) of[2].at[of[2].count++] = busy;
    }
    temporal_of(&one, of[0], of[1], of[2]);
    for (size_t i = 0; i < sizeof one / sizeof(uint64_t); i++) ((uint64_t *)sum)[i] += ((uint64_t *)&one)[i];
    for (int k = 0; k < 3; k++) free(of[k].at);
}

/* What HTA's definitions give on the exported files is what `zerolab analyze` says of the trace, to the nanosecond. */
static void hta_sees_the_times_of_analyze(void **state)
{
    (void)state;
    static const char *const some[] = {"docs/example.zlt", "tests/reference/stage1.zlt", "tests/reference/tiers.zlt"};
    for (int t = 0; t < 3; t++) {
        struct analysis analysis;
        char path[160], hta[128];
        snprintf(hta, sizeof hta, "%s", in_folder("hta"));
        write_out("hta", some[t], hta);
        assert_int_equal(analysis_read(&analysis, some[t], &(struct analysis_options){0}, NULL), 0);
        for (int rank = 0; rank < analysis.model->ranks; rank++) {
            struct temporal got = {0}, want = {0};
            uint64_t host_ns = 0;
            snprintf(path, sizeof path, "%s/rank_%d.json.gz", hta, rank);
            cJSON *json = load_json(path);
            const cJSON *step, *events = json_get(json, "traceEvents"), *info = json_get(json, "distributedInfo");
            assert_int_equal(whole(info, "rank"), rank);
            assert_int_equal(whole(info, "world_size"), analysis.model->ranks);
            cJSON_ArrayForEach(step, events) if (begins(text(step, "name"), "ProfilerStep#"))
                add_step(&got, events, step);
            for (int s = 0; s < analysis.section_count; s++) {
                const struct totals *of = &analysis.sections[s].rank[rank];
                for (size_t i = 0; i < sizeof want / sizeof(uint64_t); i++)
                    ((uint64_t *)&want)[i] += ((const uint64_t *)&of->temporal)[i];
                host_ns += of->busy_ns[LANE_HOST];
            }
            assert_int_equal(got.compute_ns, want.compute_ns);
            assert_int_equal(got.communication_ns, want.communication_ns);
            assert_int_equal(got.overlapped_ns, want.overlapped_ns);
            if (!host_ns) assert_memory_equal(&got, &want, sizeof got); /* PyTorch has no stream of the host */
            else assert_true(got.non_compute_ns < want.non_compute_ns);
            cJSON_Delete(json);
        }
        analysis_release(&analysis);
        rmdir(hta);
    }
}

/* HTA finds the rank by the pattern "rank":\s+(\d+) in a line (hta/common/trace_file.py). */
static void hta_finds_the_rank(void **state)
{
    (void)state;
    char hta[128], path[160];
    snprintf(hta, sizeof hta, "%s", in_folder("hta"));
    write_out("hta", "tests/reference/wide.zlt", hta);
    for (int rank = 0; rank < 16; rank++) {
        char wanted[32];
        snprintf(path, sizeof path, "%s/rank_%d.json.gz", hta, rank);
        snprintf(wanted, sizeof wanted, "\"rank\": %d,", rank);
        struct bytes file = load_gz(path);
        bytes_append(&file, "", 1);
        assert_non_null(strstr((char *)file.at, wanted));
        bytes_release(&file);
        unlink(path);
    }
    assert_int_equal(rmdir(hta), 0);
}

/* ---- PyTorch's memory events ---- */

static void memory_events_add_up(void **state)
{
    (void)state;
    /* by category of ours: PyTorch's index, as docs/EXPORT.md has it */
    static const int torch[CATEGORIES] = {0, 5, 1, 4, 3, 0, 3, 3, 0};
    char out[128], path[160];
    struct walk walk = walk_of("tests/reference/tiers.zlt");
    while (goes_on(&walk)) continue;
    snprintf(out, sizeof out, "%s", in_folder("memory"));
    write_out("memory-timeline", "tests/reference/tiers.zlt", out);
    for (int rank = 0; rank < 2; rank++)
        for (int tier = 0; tier < TIERS; tier++) {
            double got[8] = {0}, want[8] = {0}, before = -1;
            snprintf(path, sizeof path, "%s/rank_%d_%s.raw.json.gz", out, rank, tier_name((enum tier)tier));
            cJSON *json = load_json(path);
            const cJSON *event;
            cJSON_ArrayForEach(event, json)
            {
                const double at = cJSON_GetArrayItem(event, 0)->valuedouble,
                             bytes = cJSON_GetArrayItem(event, 2)->valuedouble;
                const int action = cJSON_GetArrayItem(event, 1)->valueint,
                          category = cJSON_GetArrayItem(event, 3)->valueint;
                assert_int_equal(cJSON_GetArraySize(event), 4);
                assert_true(at >= before && category >= 0 && category < 8);
                assert_int_equal(action, at < 0 ? 1 : bytes > 0 ? 2 : 4);
                got[category] += bytes;
                assert_true(got[category] >= 0);
                before = at;
            }
            assert_true(before > 0);
            for (int c = 0; c < CATEGORIES; c++)
                want[torch[c]] += (double)walk.model->rank[rank].tier[tier].category[c].live_bytes;
            assert_memory_equal(got, want, sizeof got);
            cJSON_Delete(json);
        }
    run_model_free(walk.model);
    assert_int_equal(rmdir(out), 0);
}

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
        cmocka_unit_test(chrome_json_keeps_its_rules),
        cmocka_unit_test(slices_say_what_records_do),
        cmocka_unit_test(counters_are_the_models),
        cmocka_unit_test(hta_sees_the_times_of_analyze),
        cmocka_unit_test(hta_finds_the_rank),
        cmocka_unit_test(memory_events_add_up),
        cmocka_unit_test(tables_have_all_records),
        cmocka_unit_test(every_record_is_a_line),
        cmocka_unit_test(not_of_this_world),
        cmocka_unit_test(what_had_begun_is_open),
        cmocka_unit_test(a_cut_trace_is_written_as_far_as_it_goes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
