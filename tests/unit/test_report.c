/* The JSON report of a run model: its names, what is unknown, and steps that the model has dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "tests/support/report_text.h"
#include "tests/support/synthetic.h"

enum { PSI = 834304, RANKS = 4 };

static void fold(void *model, const struct trace_record *record)
{
    run_model_fold(model, record);
}

static void what_is_unknown_is_null(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct trace_record record = {.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .run = {synthetic_text("{\"ranks\": 2}")}};
    (void)state;
    run_model_fold(model, &record);
    char *text = report_json(model, &(struct report_screen){0});
    cJSON *report = cJSON_Parse(text);
    static const char *const names[] = {"outcome", "state_hash", "validation_loss", "tokens_per_second"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(report, names[i])));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(report, "rss_peak_bytes"), 0)));
    cJSON_Delete(report);
    free(text);
    run_model_free(model);
}

/* Of the last step only its beginning and end have come, as to a slow viewer. */
static void times_of_a_step_without_details_are_null(void **state)
{
    struct synthetic run;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct trace_record begin = {.kind = TRACE_STEP_BEGIN, .step_begin = {7, 1, 0}},
                        end = {.kind = TRACE_STEP_END, .step_end = {.step = 7, .schedule = 1}};
    (void)state;
    synthetic_story(&run, RANKS, STORY_STAGE0, fold, model);
    run_model_fold(model, &(struct trace_record){.kind = TRACE_GAP, .rank = TRACE_RANK_ALL, .gap = {12, 0}});
    for (int rank = 0; rank < RANKS; rank++) begin.rank = (uint16_t)rank, run_model_fold(model, &begin);
    for (int rank = 0; rank < RANKS; rank++) end.rank = (uint16_t)rank, run_model_fold(model, &end);
    char *text = report_json(model, &(struct report_screen){0});
    cJSON *report = cJSON_Parse(text);
    const cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "steps"), 6);
    assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(step, "step")), 7);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(step, "seconds"), "forward")));
    cJSON_Delete(report);
    free(text);
    run_model_free(model);
}

static void keep_in_file(void *user, const struct run_step *step)
{
    assert_true(report_step(user, step));
}

/* A report that takes dropped steps from a file is the report of a model that keeps them all. */
static void report_has_steps_that_were_dropped(void **state)
{
    char *bounded = NULL;
    size_t bytes;
    FILE *past = tmpfile();
    struct run_model *all = run_model_new(&(struct run_model_options){0}),
                     *some = run_model_new(
                         &(struct run_model_options){.steps = 10, .on_step_dropped = keep_in_file, .user = past});
    struct run_model *const models[] = {all, some};
    (void)state;
    for (int m = 0; m < 2; m++) {
        struct synthetic run;
        synthetic_start(&run, 2, 0, 0, fold, models[m]);
        for (uint32_t step = 1; step <= 55; step++) synthetic_step(&run, step);
    }
    assert_true(some->step_count < 20 && all->step_count == 55);
    FILE *out = open_memstream(&bounded, &bytes);
    assert_true(report_write(out, some, &(struct report_screen){0}, past));
    fclose(out);
    char *whole = report_json(all, &(struct report_screen){0}),
         *without = report_json(some, &(struct report_screen){0});
    assert_string_equal(bounded, whole);
    assert_non_null(strstr(whole, "\"steps_left_out\":\t0"));
    assert_null(strstr(without, "\"steps_left_out\":\t0"));
    free(bounded), free(whole), free(without);
    fclose(past);
    run_model_free(all), run_model_free(some);
}

static double number_at(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void report_has_the_promised_names(void **state)
{
    static const char *const names[] = {"version",
                                        "outcome",
                                        "error",
                                        "config",
                                        "model",
                                        "ranks",
                                        "threads_per_rank",
                                        "backend",
                                        "steps",
                                        "state_hash",
                                        "memory",
                                        "peak",
                                        "traffic",
                                        "events",
                                        "rss_peak_bytes",
                                        "validation_loss",
                                        "tokens_per_second"};
    static const char *const in_step[] = {"step",      "stage",         "loss",       "loss_bits",
                                          "grad_norm", "learning_rate", "loss_scale", "skipped",
                                          "tokens",    "micro_steps",   "seconds",    "sent_bytes"};
    static const char *const in_seconds[] = {
        "total",           "forward",     "backward",   "optimizer", "communication_exposed",
        "offload_exposed", "host_update", "io_exposed", "paused"};
    struct synthetic run;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    synthetic_story(&run, RANKS, STORY_ENDED, fold, model);
    char *text = report_json(model, &(struct report_screen){10, 1234}), bits[12];
    cJSON *report = cJSON_Parse(text);
    (void)state;
    assert_non_null(report);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) assert_true(cJSON_HasObjectItem(report, names[i]));
    const cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "steps"), 24);
    for (size_t i = 0; i < sizeof in_step / sizeof in_step[0]; i++) assert_true(cJSON_HasObjectItem(step, in_step[i]));
    const cJSON *seconds = cJSON_GetObjectItem(step, "seconds");
    for (size_t i = 0; i < sizeof in_seconds / sizeof in_seconds[0]; i++)
        assert_true(cJSON_HasObjectItem(seconds, in_seconds[i]));
    float loss = synthetic_loss(25);
    uint32_t pattern;
    memcpy(&pattern, &loss, sizeof pattern);
    snprintf(bits, sizeof bits, "%08x", pattern);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(step, "loss_bits")), bits);
    assert_true(fabs(number_at(seconds, "communication_exposed") - 0.00405) < 1e-12);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(step, "sent_bytes")), RANKS);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(report, "outcome")), "finished");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(report, "state_hash")), "1234abcd5678ef90");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(report, "memory")), RANKS * CATEGORIES);
    assert_true(number_at(cJSON_GetArrayItem(cJSON_GetObjectItem(report, "peak"), 1), "bytes") ==
                4.0 * PSI + 5200000 - 1000);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(report, "events")), 6);
    cJSON_Delete(report);
    free(text);
    run_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unknown_is_null),
        cmocka_unit_test(times_of_a_step_without_details_are_null),
        cmocka_unit_test(report_has_steps_that_were_dropped),
        cmocka_unit_test(report_has_the_promised_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
