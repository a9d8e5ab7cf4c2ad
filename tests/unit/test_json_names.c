/* Names in JSON are a promise to scripts: docs/JSON.md lists them, and what is printed has these and no others. ACCEPT=1 writes the
 * lists anew: a name may be added, but none may go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "engine/advise/accounting.h"
#include "engine/advise/analysis.h"
#include "engine/advise/conventions.h"
#include "engine/advise/knobs.h"
#include "engine/advise/fit.h"
#include "engine/advise/print.h"
#include "engine/advise/sweep.h"
#include "engine/base/template.h"
#include "engine/cli/front.h"
#include "engine/config/keys.h"
#include "tests/support/report_text.h"

/* ---- the names of an object ---- */

enum { NAMES_MAX = 300, NAME_MAX = 160 };
struct names {
    char name[NAMES_MAX][NAME_MAX];
    int count;
};

static void add_name(struct names *names, const char *name)
{
    for (int n = 0; n < names->count; n++)
        if (!strcmp(names->name[n], name)) return;
    assert_true(names->count < NAMES_MAX);
    snprintf(names->name[names->count++], NAME_MAX, "%s", name);
}

/* What names something of the run and not of the format. */
static const char *stand_in(const char *name)
{
    for (enum category c = 0; c < CATEGORIES; c++)
        if (!strcmp(name, category_name(c))) return "CATEGORY";
    for (enum tier t = 0; t < TIERS; t++)
        if (!strcmp(name, tier_name(t))) return "TIER";
    return strchr(name, '.') ? "KEY" : name;
}

static bool is_open(const char *path)
{
    return !strcmp(path, "config") || !strcmp(path, "events[].detail") || !strcmp(path, "deepspeed");
}

static void collect(struct names *names, const cJSON *json, const char *path)
{
    char below[NAME_MAX];
    const cJSON *item;
    if (*path && !cJSON_IsArray(json) && (!cJSON_IsObject(json) || is_open(path))) add_name(names, path);
    if (is_open(path)) return;
    cJSON_ArrayForEach(item, json)
    {
        if (cJSON_IsArray(json)) snprintf(below, sizeof below, "%s[]", path);
        else
            snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "",
                     strcmp(path, "busy_seconds") ? stand_in(item->string) : "LANE");
        collect(names, item, below);
    }
}

static void collect_text(struct names *names, char *text)
{
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    collect(names, json, "");
    cJSON_Delete(json);
    free(text);
}

/* ---- what is printed ---- */

static struct config setting(int number)
{
    static const char *const sets[][5] = {
        {"memory.device_budget=100MB", "topology.links.intra.bandwidth=1GB"},
        {"zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=cpu", "bf16.enabled=true",
         "memory.device_budget=7MB"},
        {"zero_optimization.stage=2", "bfloat16.enabled=true", "model.recompute=full"},
    };
    struct config config;
    struct error err = {0};
    int count = 0;
    while (count < 5 && sets[number][count]) count++;
    if (config_load(&config, "configs/nano.json", sets[number], count, &err)) fail_msg("%s", err.text);
    return config;
}
enum { SETTINGS = 3 };

static void print_fit(FILE *out, bool as_json, const struct config *config)
{
    struct error err = {0};
    struct fit_question question = {.config = config};
    for (int tier = 0; tier < TIERS; tier++) question.limits.bytes[tier] = config->budget_bytes[tier];
    struct fit_answer *answer = fit_answer(&question, &err);
    assert_non_null(answer);
    assert_int_equal(fit_print(out, as_json, &question, answer, &err), 0);
    free(answer);
}

static int load_swept(void *user, struct config *config, const char *const *sets, int count, struct error *err)
{
    (void)user;
    return config_load(config, "configs/nano.json", sets, count, err);
}

static void print_swept(FILE *out)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    struct error err = {0};
    assert_int_equal(sweep_add(sweep, "zero_optimization.stage=0,3", &err), 0);
    assert_int_equal(sweep_plan(sweep, &(struct sweep_loader){load_swept, NULL, NULL}, &err), 0);
    assert_int_equal(sweep_print_json(out, sweep, &err), 0);
    sweep_release(sweep);
    free(sweep);
}

enum page { PLAN, FIT, ADVISE, SWEEP, EXPLAIN, ACCOUNTING_PAGE, CONVENTION_PAGE, SIMULATE, ANALYZE, DIFF, REPORT, PAGES };
static const char *const titles[PAGES] = {
    [PLAN] = "zerolab plan --json",
    [FIT] = "zerolab plan --fit --json",
    [ADVISE] = "zerolab plan --advise --json",
    [SWEEP] = "zerolab plan --sweep --json",
    [EXPLAIN] = "zerolab plan --explain --json",
    [ACCOUNTING_PAGE] = "zerolab plan --accounting NAME --json",
    [CONVENTION_PAGE] = "zerolab plan --accounting NAME --json, where NAME has formulas",
    [SIMULATE] = "zerolab simulate --json",
    [ANALYZE] = "zerolab analyze --json",
    [DIFF] = "zerolab analyze --diff --json, zerolab compare --json",
    [REPORT] = "zerolab train --report",
};

/* The standard output of a command line; the caller frees it. */
static char *printed(const char *const argv[], int argc)
{
    struct cli cli;
    struct error err = {0};
    FILE *file = tmpfile();
    char *text = NULL;
    size_t room = 0;
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    assert_true(file && before >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    int status = cli_parse(&cli, argc, (char *const *)argv, &err);
    if (!status) status = cli.verb == VERB_PLAN ? front_plan(&cli, &err) : front_simulate(&cli, &err);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    if (status) fail_msg("%s", err.text);
    rewind(file);
    assert_true(getdelim(&text, &room, '\0', file) > 0);
    fclose(file);
    return text;
}

static void collect_program(struct names *names, enum page page)
{
    static const char *const advice[] = {"zerolab", "plan", "--advise", "--model", "gpt2-xl", "--hardware", "t4",
                                         "--json", "-n", "8", "--set", "fp16.enabled=true", NULL};
    static const char *const nano[] = {"zerolab", "simulate", "configs/nano.json", "--hardware", "a100", "--json",
                                       "--tokens", "1B", "--price", "2", NULL};
    if (page == ADVISE) collect_text(names, printed(advice, 12));
    else collect_text(names, printed(nano, 10));
}

/* The caller frees. */
static char *planned(enum page page, bool as_json, const struct config *config)
{
    struct error err = {0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int status = 0;
    if (page == PLAN) status = plan_print(out, as_json, config, false, &err);
    if (page == FIT) print_fit(out, as_json, config);
    if (page == SWEEP) print_swept(out);
    if (page == EXPLAIN) status = explain_print(out, as_json, config, "it", &err);
    const struct accounting *accounting;
    if (page == ACCOUNTING_PAGE) status = accounting_find(&accounting, "ds18", &err);
    if (page == ACCOUNTING_PAGE && !status) status = accounting_print(out, as_json, accounting, config, &err);
    if (page == CONVENTION_PAGE)
        status = convention_print(out, as_json, &convention_rows[0], config, &(struct text_list){0}, &err);
    assert_int_equal(status, 0);
    fclose(out);
    return text;
}

static void collect_plan(struct names *names, enum page page)
{
    for (int s = 0; s < SETTINGS; s++) {
        struct config config = setting(s);
        collect_text(names, planned(page, true, &config));
        config_release(&config);
    }
}

static void collect_traces(struct names *names, enum page page)
{
    static const char *const paths[] = {"docs/example.zlt", "tests/reference/tiers.zlt", "tests/reference/paced.zlt", "tests/reference/zeropp.zlt"};
    enum { TRACES = sizeof paths / sizeof *paths };
    struct analysis analysis[TRACES];
    struct error err = {0};
    for (int t = 0; t < TRACES; t++)
        if (analysis_read(&analysis[t], paths[t], &(struct analysis_options){0}, &err)) fail_msg("%s", err.text);
    const struct trace_record host = {.kind = TRACE_HOST, .host.name = {"a", 1}}; /* as of a run on several */
    run_model_fold(analysis[0].model, &host);
    for (int t = 0; t < TRACES; t++) {
        bool equal;
        if (page == ANALYZE) collect_text(names, json_lines(template_strip(analysis_facts(&analysis[t]))));
        if (page == DIFF)
            collect_text(names, json_lines(template_strip(analysis_diff_facts(&analysis[0], &analysis[t], &equal))));
        if (page == REPORT) collect_text(names, report_json(analysis[t].model, &(struct report_screen){1, 1}));
    }
    for (int t = 0; t < TRACES; t++) analysis_release(&analysis[t]);
}

/* ---- the page ---- */

static const char head[] =
    "# Names in JSON\n\nWhat scripts may rely on. A name may be added, but none goes or changes its meaning; "
    "`tests/unit/test_json_names.c` holds\n"
    "the lists. `[]` is each element of a list; CATEGORY, TIER, LANE and KEY stand for the name of one. What is not known is null. "
    "Units are\n"
    "in the names: `_bytes`, `_seconds`; shares are of 1. A member that a run has no use for may be left out.\n";

static char *page_made(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fputs(head, out);
    for (int page = 0; page < PAGES; page++) {
        struct names *names = calloc(1, sizeof *names);
        if (page == ADVISE || page == SIMULATE) collect_program(names, (enum page)page);
        else if (page < ANALYZE) collect_plan(names, (enum page)page);
        else collect_traces(names, (enum page)page);
        assert_true(names->count > 5);
        fprintf(out, "\n## %s\n\n```\n", titles[page]);
        for (int n = 0; n < names->count; n++) fprintf(out, "%s\n", names->name[n]);
        fputs("```\n", out);
        free(names);
    }
    fclose(out);
    return text;
}

static void names_are_as_written_down(void **state)
{
    (void)state;
    char *made = page_made(), *page = NULL;
    size_t room = 0;
    FILE *file = fopen("docs/JSON.md", getenv("ACCEPT") ? "w+b" : "rb");
    assert_non_null(file);
    if (getenv("ACCEPT")) fputs(made, file), rewind(file);
    assert_true(getdelim(&page, &room, '\0', file) > 0);
    fclose(file);
    size_t at = 0;
    while (made[at] && made[at] == page[at]) at++;
    while (at && made[at - 1] != '\n') at--;
    if (strcmp(made, page) != 0)
        fail_msg("docs/JSON.md differs: printed is %.*s, written down is %.*s", (int)strcspn(made + at, "\n"),
                 made + at, (int)strcspn(page + at, "\n"), page + at);
    free(made);
    free(page);
}

/* A field whose name nothing has stands in the text as it is. */
static void texts_name_what_there_is(void **state)
{
    (void)state;
    static const enum page pages[] = {PLAN, FIT, EXPLAIN, ACCOUNTING_PAGE, CONVENTION_PAGE};
    for (int s = 0; s < SETTINGS; s++) {
        struct config config = setting(s);
        for (size_t p = 0; p < sizeof pages / sizeof *pages; p++) {
            char *text = planned(pages[p], false, &config);
            assert_true(strlen(text) > 400);
            if (strchr(text, '{')) fail_msg("%s: %.60s", titles[pages[p]], strchr(text, '{'));
            free(text);
        }
        config_release(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_as_written_down), cmocka_unit_test(texts_name_what_there_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
