/* No string of a file that the program reads reaches the terminal with its control characters: traces, checkpoints, weights,
 * vocabularies, texts. See foreign.h; test_foreign.c has arguments, configurations, labs and live screens. */
#include "tests/support/foreign.h"

#include "engine/checkpoint/crc32c.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"

/* ---- traces ---- */

#define NO_TEXT(field)  (void)one;
#define TEXT_u8         NO_TEXT
#define TEXT_u16        NO_TEXT
#define TEXT_u32        NO_TEXT
#define TEXT_u64        NO_TEXT
#define TEXT_i64        NO_TEXT
#define TEXT_f32        NO_TEXT
#define TEXT_f64        NO_TEXT
#define TEXT_time       NO_TEXT
#define TEXT_text(name) return &one->name;

/* The text of a record; NULL: its kind has none. */
static struct trace_text *text_in(struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) TEXT_##type(field)
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    case number: {                                                                                                     \
        struct trace_of_##name *one = &record->name;                                                                   \
        FIELDS(F)                                                                                                      \
        return NULL;                                                                                                   \
    }
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
    return NULL;
}

/* run.zlt as evil.zlt, where the first record of `kind` has this text; where there is none, one stands before the end. */
static void write_trace(enum trace_kind kind, const char *text)
{
    struct source *source;
    struct trace_file *file;
    struct trace_record record, other = {.kind = kind, .rank = kind == TRACE_GPU ? 0 : TRACE_RANK_ALL};
    struct error err;
    bool done = false;
    assert_int_equal(source_open_file(&source, "run.zlt", &err), 0);
    assert_int_equal(trace_file_create(&file, "evil.zlt", &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD) {
        if (!done && (record.kind == kind || record.kind == TRACE_END)) {
            if (record.kind != kind) other.time_ns = record.time_ns;
            struct trace_record *with = record.kind == kind ? &record : &other;
            *text_in(with) = (struct trace_text){text, strlen(text)};
            if (with == &other) trace_file_put(file, &other, &err);
            done = true;
        }
        trace_file_put(file, &record, &err);
    }
    source_close(source);
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_true(done);
}

static enum trace_kind planted_kind;

static void look_at_trace(const char *text)
{
    write_trace(planted_kind, text);
    CLEAN("analyze", "evil.zlt");
    CLEAN("replay", "evil.zlt", "--frame", "150x60", "--view", planted_kind == TRACE_EVENT ? "events" : "overview");
}

/* The first text of a kind in run.zlt, to be freed; NULL: none. */
static char *text_of_kind(enum trace_kind kind)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    char *text = NULL;
    assert_int_equal(source_open_file(&source, "run.zlt", &err), 0);
    while (!text && source_next(source, &record) == SOURCE_RECORD)
        if (record.kind == kind) text = strndup(text_in(&record)->at, text_in(&record)->bytes);
    source_close(source);
    return text;
}

static const char *const events[] = {
    "{\"kind\": \"note\", \"detail\": {\"text\": \"said\"}}",
    "{\"kind\": \"set\", \"detail\": {\"key\": \"checkpoint.path\", \"from\": \"a\", \"to\": \"b\"}}",
    "{\"kind\": \"checkpoint\", \"detail\": {\"state\": \"saved\", \"tag\": \"one\", \"folder\": \"two\", \"text\": "
    "\"three\"}}",
    "{\"kind\": \"oom\", \"detail\": {\"tier\": \"device\", \"op\": \"gather\", \"text\": \"x\", \"fits\": "
    "[{\"command\": \"stage=3\", \"peak_bytes\": 1}]}}",
};

static const char lesson[] =
    "{\"title\": \"t\", \"step_title\": \"s\", \"step\": 1, \"waits\": true, \"to_do\": \"do\", \"look\": \"memory\", "
    "\"marks\": [\"right\"], \"page\": [[\"text\", \"page\"]]}";

static void plant_kind(enum trace_kind kind)
{
    struct trace_record record = {.kind = kind};
    if (!trace_kind_name(kind) || !text_in(&record)) return;
    char *text = text_of_kind(kind);
    planted_kind = kind;
    if (kind == TRACE_LESSON) plant_each(lesson, false, look_at_trace);
    else if (text && *text == '{') plant_each(text, false, look_at_trace);
    for (int e = 0; kind == TRACE_EVENT && e < (int)(sizeof events / sizeof *events); e++)
        plant_each(events[e], true, look_at_trace);
    look_at_trace(EVIL);
    free(text);
}

static void traces(void **state)
{
    (void)state;
    static const char *const views[] = {
#define VIEW(ID, name) #name,
#include "tui/view/views.def"
#undef VIEW
    };
    tried = bad_runs = 0;
    for (int kind = 0; kind < 64; kind++) plant_kind((enum trace_kind)kind);
    write_trace(TRACE_END, EVIL);
    for (size_t v = 0; v < sizeof views / sizeof *views; v++)
        CLEAN("replay", "evil.zlt", "--frame", "150x60", "--view", views[v]);
    CLEAN_SCREEN("\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\tn", "replay", "evil.zlt");
    hold();
}

/* ---- checkpoints and weights ---- */

static char manifest[200];
static int planted_manifests;

/* The checksum is made anew: it stands last, and is over all before the comma in front of it. */
static void look_at_manifest(const char *text)
{
    const char *last = strstr(text, ",\n\t\"checksum\"");
    char *whole;
    if (!last) return; /* its own name was the string */
    const size_t length = (size_t)(last - text);
    assert_true(asprintf(&whole, "%.*s,\n\t\"checksum\":\t\"%08x\"\n}\n", (int)length, text, crc32c(0, text, length)) >
                0);
    write_text(manifest, whole);
    free(whole);
    CLEAN("checkpoint", "inspect", "saves");
    if (planted_manifests++ % 8 == 0)
        CLEAN("train", "--resume", "saves", "--headless", "--steps", "2", "--set", "checkpoint.at_end=false");
}

static void checkpoints(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    snprintf(manifest, sizeof manifest, "%s/saves/step-1/manifest.json", root);
    char *text = text_of(manifest);
    look_at_manifest(text);
    assert_non_null(
        strstr((const char *)printed.at, "finished after step 2")); /* the checksum is made as the program makes it */
    plant_each(text, false, look_at_manifest);
    write_text(manifest, text);
    free(text);
    write_text("saves/latest", EVIL);
    CLEAN("checkpoint", "inspect", "saves");
    write_text("saves/latest", "step-1");
    hold();
}

static struct bytes weights;

static void look_at_weights(const char *header)
{
    const uint64_t length = strlen(header);
    uint64_t was;
    memcpy(&was, weights.at, sizeof was);
    struct bytes file = {0};
    assert_true(bytes_append(&file, &length, sizeof length) && bytes_append(&file, header, length) &&
                bytes_append(&file, weights.at + 8 + was, weights.count - 8 - was));
    write_bytes("evil.safetensors", file.at, file.count);
    bytes_release(&file);
    CLEAN("checkpoint", "inspect", "evil.safetensors");
    CLEAN("checkpoint", "convert", "evil.safetensors", "-o", "other.bin");
}

static void files_of_weights(void **state)
{
    (void)state;
    uint64_t length;
    tried = bad_runs = 0;
    read_bytes("weights.safetensors", &weights);
    memcpy(&length, weights.at, sizeof length);
    char *header = strndup((const char *)weights.at + 8, length);
    plant_each(header, true, look_at_weights);
    free(header);
    bytes_release(&weights);
    hold();
}

/* ---- tokenizers ---- */

static void look_at_vocabulary(const char *text)
{
    write_text("evil-vocab.json", text);
    CLEAN("data", "encode", "text.txt", "-o", "evil.bin", "--vocabulary", "evil-vocab.json", "--merges", "merges.txt");
}

static void tokenizers(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    char *text = text_of("vocab.json");
    plant_each(text, true, look_at_vocabulary);
    free(text);
    write_text("evil-merges.txt", "a b\na" EVIL " b\n");
    CLEAN("data", "encode", "text.txt", "-o", "evil.bin", "--vocabulary", "vocab.json", "--merges", "evil-merges.txt");
    write_text("evil.txt", EVIL);
    CLEAN("data", "info", "evil.txt");
    CLEAN("train", "config.json", "--headless", "--steps", "1", "--sample", "64", "--set", "data.path=evil.txt");
    hold();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traces),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(files_of_weights),
        cmocka_unit_test(tokenizers),
    };
    return cmocka_run_group_tests(tests, set_up, remove_all);
}
