/* `zerolab plan --sweep`: its figures are those of `zerolab plan --json` for the same setup, what is refused keeps its row, wrong keys and
 * values are one line each, CSV is quoted, and no text of a chart lies on another, at any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include <cjson/cJSON.h>

#include "engine/advise/print.h"
#include "engine/advise/sweep.h"
#include "tui/draw/chart.h"

static int load_nano(void *user, struct config *config, const char *const *sets, int count, struct error *err)
{
    const char *all[12];
    int n = 0;
    for (const char *const *more = user; *more; more++) all[n++] = *more;
    for (int s = 0; s < count; s++) all[n++] = sets[s];
    return config_load(config, "configs/nano.json", all, n, err);
}

static struct sweep *sweep_of(const char *const *keys, const char *const *more)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    struct error err = {.text = ""};
    for (; *keys; keys++)
        if (sweep_add(sweep, *keys, &err)) fail_msg("%s", err.text);
    if (sweep_plan(sweep, &(struct sweep_loader){load_nano, (void *)more, NULL}, &err)) fail_msg("%s", err.text);
    return sweep;
}

static void done(struct sweep *sweep)
{
    sweep_release(sweep);
    free(sweep);
}

typedef int json_printer(FILE *out, const void *what, struct error *err);
static int print_sweep(FILE *out, const void *sweep, struct error *err)
{
    return sweep_print_json(out, sweep, err);
}
static int print_plan(FILE *out, const void *config, struct error *err)
{
    return plan_print(out, true, config, false, err);
}

static cJSON *printed(json_printer *print, const void *what)
{
    char *text = NULL;
    size_t bytes;
    struct error err = {.text = ""};
    FILE *out = open_memstream(&text, &bytes);
    if (print(out, what, &err)) fail_msg("%s", err.text);
    fclose(out);
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    free(text);
    return json;
}

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    if (!item) fail_msg("no %s", name);
    return cJSON_IsNull(item) ? -1 : item->valuedouble;
}

static void same(const cJSON *row, const char *figure, const cJSON *plan, const char *name)
{
    if (number(row, figure) != number(plan, name))
        fail_msg("%s is %.17g, plan's %s is %.17g", figure, number(row, figure), name, number(plan, name));
}

/* ---- the table ---- */

static void hold(const cJSON *row, const cJSON *plan)
{
    static const char *const equal[] = {"ranks", "stage", "theory_bytes", "paced_seconds"};
    const cJSON *item, *set = cJSON_GetObjectItem(plan, "flops");
    char name[SWEEP_NAME_ROOM + 8];
    double sent = 0, across = 0;
    for (size_t e = 0; e < sizeof equal / sizeof *equal; e++) same(row, equal[e], plan, equal[e]);
    same(row, "parameters", cJSON_GetObjectItem(plan, "model"), "parameters");
    same(row, "forward_flops", set, "forward");
    same(row, "backward_flops", set, "backward");
    same(row, "recomputed_flops", set, "recomputed");
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(plan, "memory"))
    {
        const char *tier = cJSON_GetObjectItem(item, "tier")->valuestring;
        snprintf(name, sizeof name, "%s_%s_bytes", tier, cJSON_GetObjectItem(item, "category")->valuestring);
        same(row, name, item, "at_peak_bytes");
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(plan, "tiers"))
    {
        static const char *const parts[] = {"peak_bytes", "resting_bytes", "budget_bytes"};
        for (int p = 0; p < 3; p++) {
            snprintf(name, sizeof name, "%s_%s", cJSON_GetObjectItem(item, "tier")->valuestring, parts[p]);
            same(row, name, item, parts[p]);
        }
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(plan, "traffic"))
    {
        snprintf(name, sizeof name, "%s_bytes", cJSON_GetObjectItem(item, "kind")->valuestring);
        same(row, name, item, "sent_bytes");
        if (!cJSON_GetObjectItem(item, "across_nodes_bytes")) continue;
        sent += number(item, "sent_bytes"), across += number(item, "across_nodes_bytes");
    }
    assert_true(number(row, "sent_bytes") == sent && number(row, "across_nodes_bytes") == across);
    assert_true(number(row, "within_nodes_bytes") == sent - across);
}

static void hold_all(const char *const *keys, const char *const *more)
{
    struct sweep *sweep = sweep_of(keys, more);
    cJSON *json = printed(print_sweep, sweep), *rows = cJSON_GetObjectItem(json, "rows");
    int at = 0;
    const cJSON *row;
    assert_int_equal(cJSON_GetArraySize(rows), sweep->row_count);
    cJSON_ArrayForEach(row, rows)
    {
        const char *sets[SWEEP_KEYS_MAX];
        char text[SWEEP_KEYS_MAX][256];
        int count = 0;
        const cJSON *set;
        struct config config;
        struct error err = {.text = ""};
        cJSON_ArrayForEach(set, cJSON_GetObjectItem(row, "set"))
        {
            assert_string_equal(set->valuestring, sweep->key[count].value[sweep_at(sweep, at, count)]);
            snprintf(text[count], sizeof text[count], "%s=%s", set->string, set->valuestring);
            sets[count] = text[count], count++;
        }
        if (load_nano((void *)more, &config, sets, count, &err)) {
            assert_string_equal(cJSON_GetObjectItem(row, "refused")->valuestring, err.text);
        } else {
            cJSON *plan = printed(print_plan, &config);
            assert_true(cJSON_IsNull(cJSON_GetObjectItem(row, "refused")));
            hold(row, plan);
            cJSON_Delete(plan);
            config_release(&config);
        }
        at++;
    }
    cJSON_Delete(json);
    done(sweep);
}

static void figures_are_those_of_plan(void **state)
{
    (void)state;
    hold_all((const char *[]){"zero_optimization.stage=0..3", "topology.ranks=1,2,3,8..16*2", "model.name=nano,micro", NULL},
             (const char *[]){"bf16.enabled=true", "memory.device_budget=20MB", NULL});
    hold_all((const char *[]){"zero_optimization.offload_optimizer.device=none,cpu", "zero_optimization.stage=1,2,3", NULL},
             (const char *[]){"model.recompute=full", "topology.ranks=4", "topology.ranks_per_node=2",
                              "topology.links.inter.bandwidth=1GB", NULL});
}

static void what_is_refused_keeps_its_row(void **state)
{
    (void)state;
    struct sweep *sweep = sweep_of((const char *[]){"topology.ranks=2,3,4", "topology.ranks_per_node=2", NULL},
                                   (const char *[]){NULL});
    assert_int_equal(sweep->row_count, 3);
    assert_null(sweep->rows[0].refusal);
    assert_non_null(strstr(sweep->rows[1].refusal, "topology.ranks_per_node"));
    assert_true(isnan(sweep->rows[1].figure[SWEEP_SENT]));
    assert_null(sweep->rows[2].refusal);
    done(sweep);
    hold_all((const char *[]){"topology.ranks=2,3,4", "topology.ranks_per_node=2,3", NULL}, (const char *[]){NULL});
}

static void wrong_keys_and_values_are_one_line(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } wrong[] = {
        {"zero_optimization.stage", "give KEY=A,B,..."}, {"=1,2", "give KEY=A,B,..."},
        {"zero_optimization.stages=1", "did you mean"}, {"topology.ranks=", "topology.ranks: value 1 is empty"},
        {"topology.ranks=1,,2", "topology.ranks: value 2 is empty"}, {"topology.ranks=1,2,", "value 3 is empty"},
        {"topology.ranks=nan", "topology.ranks = \"nan\""}, {"topology.ranks=1,-2", "topology.ranks = -2"},
        {"topology.ranks=2,4,2", "value 2 is there twice"}, {"topology.ranks=2,2e0", "value 2e0 is there twice"},
        {"memory.device_budget=1GB,1000MB", "value 1000MB is there twice"}, {"topology.ranks=1.5", "topology.ranks = 1.5"},
        {"topology.ranks=4..1", "range 4..1"}, {"topology.ranks=1..8*1", "range 1..8*1"},
        {"topology.ranks=1..8+0", "range 1..8+0"}, {"topology.ranks=0..8*2", "range 0..8*2"},
        {"topology.ranks=1..8x2", "topology.ranks = \"1..8x2\""}, {"data.seed=1..100", "more than 64 values"},
        {"data.path=0123456789012345678901234567890123456789012345678", "longer than 47"},
        {"data.seed=1..9223372036854775807*999999999", "data.seed"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct sweep sweep = {.key_count = 0};
        struct error err = {.text = ""};
        assert_int_equal(sweep_add(&sweep, wrong[w].text, &err), STATUS_USAGE);
        if (!strstr(err.text, wrong[w].says) || strchr(err.text, '\n')) fail_msg("%s: %s", wrong[w].text, err.text);
    }
}

/* The value behind the last one is past the largest integer. */
static void ranges_end_at_the_largest_integer(void **state)
{
    (void)state;
    struct sweep sweep = {.key_count = 0};
    struct error err = {.text = ""};
    assert_int_equal(sweep_add(&sweep, "zero_optimization.reduce_bucket_size=1..999999999999999999*3037000500", &err), STATUS_OK);
    assert_int_equal(sweep.key[0].count, 2);
    assert_string_equal(sweep.key[0].value[1], "3037000500");
}

static void some_sweeps_are_refused(void **state)
{
    (void)state;
    static const char *const all[] = {"topology.ranks=3,5", "topology.ranks_per_node=2"},
                            *const many[] = {"data.seed=1..64", "topology.ranks=1..64", "model.layers=1..4"};
    static struct sweep sweep, large;
    struct error err = {.text = ""};
    for (int k = 0; k < 2; k++) assert_int_equal(sweep_add(&sweep, all[k], &err), STATUS_OK);
    assert_int_equal(sweep_add(&sweep, "ranks=1", &err), STATUS_USAGE);
    assert_int_equal(sweep_add(&sweep, "topology.ranks=1", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "is given twice"));
    assert_int_equal(sweep_plan(&sweep, &(struct sweep_loader){load_nano, (const char *[]){NULL}, NULL}, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "every combination is refused"));
    sweep_release(&sweep);
    for (int k = 0; k < 3; k++) assert_int_equal(sweep_add(&large, many[k], &err), STATUS_OK);
    assert_int_equal(sweep_add(&large, "model.heads=1", &err), STATUS_USAGE);
    assert_int_equal(sweep_plan(&large, &(struct sweep_loader){load_nano, (const char *[]){NULL}, NULL}, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "16384 combinations"));
    sweep_release(&large);
}

/* Splits a line of CSV in place by the rule of RFC 4180. */
static int split(char *line, char *cells[], int most)
{
    int count = 0;
    for (char *from = line, *to; count < most; from++) {
        const bool quoted = *from == '"';
        cells[count++] = to = from += quoted;
        for (; *from && *from != '\n' && (quoted || *from != ','); *to++ = *from++)
            if (quoted && *from == '"' && *++from != '"') break;
        const bool more = *from == ',';
        *to = '\0';
        if (!more) break;
    }
    return count;
}

static void csv_reads_back(void **state)
{
    (void)state;
    struct sweep *sweep = sweep_of((const char *[]){"optimizer.params.betas=[0.9,0.99],[0.8,0.999]", "topology.ranks=2,3", NULL},
                                   (const char *[]){"topology.ranks_per_node=2", NULL});
    char *text = NULL, *cells[SWEEP_FIGURES + 4], *line = NULL, name[SWEEP_NAME_ROOM];
    size_t bytes, room = 0;
    FILE *out = open_memstream(&text, &bytes);
    sweep_print_csv(out, sweep);
    fclose(out);
    FILE *in = fmemopen(text, bytes, "r");
    for (int row = -1; row < sweep->row_count; row++) {
        assert_true(getline(&line, &room, in) > 0);
        assert_int_equal(split(line, cells, SWEEP_FIGURES + 4), 3 + SWEEP_FIGURES);
        const char *refusal = row < 0 ? "refused" : sweep->rows[row].refusal;
        assert_string_equal(cells[0], row < 0 ? "optimizer.params.betas" : sweep->key[0].value[sweep_at(sweep, row, 0)]);
        assert_string_equal(cells[2], refusal ? refusal : "");
        for (int f = 0; f < SWEEP_FIGURES; f++) {
            const double value = row < 0 ? 0 : sweep->rows[row].figure[f];
            if (row < 0) assert_string_equal(cells[3 + f], sweep_figure_name(name, f));
            else if (isnan(value)) assert_string_equal(cells[3 + f], "");
            else assert_true(strtod(cells[3 + f], NULL) == value);
        }
    }
    assert_true(getline(&line, &room, in) < 0);
    fclose(in);
    free(line);
    free(text);
    done(sweep);
}

/* ---- charts ---- */

static const char *const words[] = {"1", "16", "256", "65536", "gpt2-medium", "nano", "7", "1e9"};
enum { WORDS = sizeof words / sizeof *words };

static struct chart chart_with(enum chart_kind kind, int places, int groups, double *values)
{
    struct chart chart = {.kind = kind, .title = "Bytes that a rank sends", .unit = "B", .key = {"topology.ranks", "model.name"},
                          .places = places, .groups = groups, .series_count = kind == CHART_BARS ? 3 : 1, .values = values,
                          .limits = values + places * groups * 3};
    for (int v = 0; v < WORDS; v++) chart.place[v] = words[v], chart.group[v] = words[(v + 3) % WORDS];
    for (int s = 0; s < 3; s++) chart.series[s] = (struct chart_series){words[4 + s], (char)('A' + s), '#', STYLE_PARAMETERS};
    for (int i = 0; i < places * groups * 3; i++) values[i] = i % 7 == 5 ? NAN : pow(3, i % 19) * 1e3;
    for (int i = 0; i < places * groups; i++) values[places * groups * 3 + i] = i % 5 ? 4e9 : NAN;
    return chart;
}

/* Letters of bars and figures of cells stand on their areas; no text stands on another. */
static void check_texts(const struct drawing *drawing)
{
    char *taken = calloc((size_t)(drawing->columns * drawing->rows), 1);
    for (int s = 0; s < drawing->count; s++) {
        const struct shape *shape = &drawing->shapes[s];
        const int y = (int)floor(shape->y + 0.5);
        assert_true(isfinite(shape->x) && isfinite(shape->y));
        if (shape->kind != SHAPE_TEXT || !shape->text[0]) continue;
        if (shape->x < 0 || y < 0 || y >= drawing->rows || shape->x + utf8_columns(shape->text) > drawing->columns)
            fail_msg("%d x %d: \"%s\" at %g, %d is outside", drawing->columns, drawing->rows, shape->text, shape->x, y);
        for (int x = (int)shape->x; x < (int)shape->x + utf8_columns(shape->text); x++)
            if (taken[y * drawing->columns + x]++)
                fail_msg("%d x %d: \"%s\" at %d, %d lies on another text", drawing->columns, drawing->rows, shape->text, x, y);
    }
    free(taken);
}

static void texts_do_not_overlap(void **state)
{
    (void)state;
    static double values[4 * WORDS * WORDS];
    int drawn[3] = {0};
    for (int size = 0; size < 40; size++)
        for (int counts = 0; counts < WORDS * WORDS; counts++)
            for (enum chart_kind kind = CHART_BARS; kind <= CHART_HEAT; kind++) {
                const struct chart chart = chart_with(kind, 1 + counts / WORDS, 1 + counts % WORDS, values);
                struct drawing drawing = {.columns = 40 + 7 * (size % 20), .rows = 12 + 17 * (size / 20)};
                if (chart_draw(&chart, &drawing)) check_texts(&drawing), drawn[kind]++;
                drawing_release(&drawing);
            }
    for (int kind = 0; kind < 3; kind++) assert_true(drawn[kind] > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_plan),          cmocka_unit_test(what_is_refused_keeps_its_row),
        cmocka_unit_test(wrong_keys_and_values_are_one_line), cmocka_unit_test(some_sweeps_are_refused),
        cmocka_unit_test(csv_reads_back),                     cmocka_unit_test(texts_do_not_overlap),
        cmocka_unit_test(ranges_end_at_the_largest_integer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
