/* What the tests of `zerolab export` share: the traces, exporting and reading them, and the rules of Chrome's JSON. */
#pragma once

#include <math.h>
#include <string.h>
#include <zlib.h>

#include <cjson/cJSON.h>

#include "engine/base/json.h"
#include "engine/export/export.h"
#include "engine/observe/model.h"
#include "engine/trace/source.h"
#include "tests/support/trace_fixture.h"

static const char *const traces[] = {
    "docs/example.zlt",           "tests/reference/stage1.zlt", "tests/reference/stage3.zlt",
    "tests/reference/tiers.zlt",  "tests/reference/wide.zlt",   "tests/reference/deep.zlt",
    "tests/reference/zeropp.zlt", "tests/reference/hops.zlt",   "tests/reference/paced.zlt"};
enum { TRACES = sizeof traces / sizeof *traces };

/* ---- exporting and reading ---- */

static inline struct export_told write_out(const char *format, const char *trace, const char *path)
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

static inline struct bytes load_gz(const char *path)
{
    struct bytes text = {0};
    char part[4096];
    gzFile file = gzopen(path, "rb");
    if (!file) fail_msg("no file %s", path);
    for (int count; (count = gzread(file, part, sizeof part)) > 0;) bytes_append(&text, part, (size_t)count);
    assert_int_equal(gzclose(file), Z_OK);
    return text;
}

static inline cJSON *parse(struct bytes *text)
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

static inline cJSON *load_json(const char *path)
{
    struct bytes text = load_gz(path);
    cJSON *json = parse(&text);
    bytes_release(&text);
    unlink(path);
    return json;
}

static inline cJSON *perfetto_of(const char *trace, struct export_told *told)
{
    const char *path = in_folder("out.json");
    *told = write_out("perfetto", trace, path);
    return load_json(path);
}

static inline double number(const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    if (!cJSON_IsNumber(item)) fail_msg("no number %s in %s", name, cJSON_PrintUnformatted(object));
    return item->valuedouble;
}

static inline int whole(const cJSON *object, const char *name)
{
    const double value = number(object, name);
    assert_true(value == floor(value));
    return (int)value;
}

static inline int64_t ns(const cJSON *event, const char *name)
{
    return llround(number(event, name) * 1000);
}

static inline const char *text(const cJSON *object, const char *name)
{
    const char *found = json_get_text(object, name);
    assert_non_null(found);
    return found;
}

static inline bool is(const cJSON *object, const char *name, const char *value)
{
    const char *found = json_get_text(object, name);
    return found && !strcmp(found, value);
}

static inline bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* ---- the trace itself ---- */

struct walk {
    struct source *source;
    struct run_model *model;
    struct trace_record record;
};

static inline struct walk walk_of(const char *trace)
{
    struct walk walk = {.model = run_model_new(&(struct run_model_options){.steps = 64, .notices = 64})};
    assert_int_equal(source_open_file(&walk.source, trace, NULL), 0);
    return walk;
}

static inline bool goes_on(struct walk *walk)
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

static inline int by_place(const void *left, const void *right)
{
    const struct slice *a = left, *b = right;
    if (a->pid != b->pid) return a->pid < b->pid ? -1 : 1;
    if (a->tid != b->tid) return a->tid < b->tid ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to);
}

/* On one thread each slice ends before the next begins, or holds it. */
static inline void check_nesting(struct slice *slices, int count)
{
    qsort(slices, (size_t)count, sizeof *slices, by_place);
    for (int i = 1; i < count; i++) {
        const struct slice *a = &slices[i - 1], *b = &slices[i];
        if (a->pid != b->pid || a->tid != b->tid) continue;
        assert_true(a->to <= b->from || a->to >= b->to);
    }
}

static inline bool lies_in_one(const struct slice *slices, int count, const cJSON *end)
{
    const int64_t at = ns(end, "ts");
    for (int i = 0; i < count; i++)
        if (slices[i].pid == whole(end, "pid") && slices[i].tid == whole(end, "tid") && at >= slices[i].from &&
            (at < slices[i].to || slices[i].from == slices[i].to))
            return true;
    return false;
}

/* Arrows come in pairs, forwards in time. */
static inline int check_arrows(const cJSON *events, const struct slice *slices, int count)
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

static inline int check_events(const cJSON *json)
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
