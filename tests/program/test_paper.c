/* The real program against the paper and against the kernel: model states and traffic of every stage to the byte, the peak
 * against the plan, the allocator's count against what /proc says, and one state hash for all stages.
 *
 * PAPER=gpt2 takes the 124M model (minutes); without it, micro, whose steps are short ones and accumulate on nano, but for FULL=1.
 * Ranks are processes: with threads Pss would be shared. */
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/plan/model.h"
#include "tests/support/effort.h"

enum { RANKS = 4, STAGES = 4, STEPS = 2 };

static struct {
    cJSON *nano, *stage[STAGES], *accumulated[STAGES];
    struct model model, accumulating;
    const char *config;
} runs;

static cJSON *run(const char *config, const char *more)
{
    char report[] = "/tmp/test_paper.XXXXXX", command[1024];
    const char *zerolab = getenv("ZEROLAB") ? getenv("ZEROLAB") : "build/release/zerolab";
    int fd = mkstemp(report);
    assert_true(fd >= 0);
    snprintf(command, sizeof command,
             "%s train %s --headless --steps %d --report %s --set bf16.enabled=true -n %d %s >%s.log 2>&1", zerolab,
             config, STEPS, report, RANKS, more, report);
    close(fd);
    if (system(command)) fail_msg("failed: %s", command);
    static char text[4 << 20];
    fd = open(report, O_RDONLY | O_CLOEXEC); /* the report is another file under that name */
    assert_true(fd >= 0);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(report);
    strcat(report, ".log");
    unlink(report);
    assert_true(length > 0);
    cJSON *json = cJSON_ParseWithLength(text, (size_t)length);
    assert_non_null(json);
    return json;
}

static int make_runs(void **state)
{
    (void)state;
    const bool gpt2 = getenv("PAPER") && strcmp(getenv("PAPER"), "gpt2") == 0, whole = gpt2 || effort_is_full();
    if (effort_is_short()) return 0; /* a sanitizer's own memory would be counted; every test then skips */
    runs.config = gpt2 ? "configs/gpt2-bf16.json" : "configs/micro.json";
    assert_int_equal(model_init(&runs.model, config_model_named(gpt2 ? "gpt2" : "micro"), DTYPE_BF16, NULL), 0);
    assert_int_equal(model_init(&runs.accumulating, config_model_named(whole ? "micro" : "nano"), DTYPE_BF16, NULL), 0);
    runs.nano = run("configs/nano.json", "");
    for (int stage = 0; stage < STAGES; stage++) {
        char sets[256];
        snprintf(sets, sizeof sets, "--set zero_optimization.stage=%d%s", stage,
                 whole ? "" : " --set data.sequence_length=32 --set train_micro_batch_size_per_gpu=1");
        runs.stage[stage] = run(runs.config, sets);
        snprintf(sets, sizeof sets,
                 "--set zero_optimization.stage=%d --set gradient_accumulation_steps=4 --set train_micro_batch_size_per_gpu=1%s",
                 stage, whole ? "" : " --set data.sequence_length=16");
        runs.accumulated[stage] = gpt2 ? NULL : run(whole ? runs.config : "configs/nano.json", sets);
    }
    return 0;
}

static int free_runs(void **state)
{
    (void)state;
    cJSON_Delete(runs.nano);
    for (int stage = 0; stage < STAGES; stage++) cJSON_Delete(runs.stage[stage]), cJSON_Delete(runs.accumulated[stage]);
    model_release(&runs.model);
    model_release(&runs.accumulating);
    return 0;
}

static const cJSON *child(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    if (!item) fail_msg("the report has no \"%s\"", name);
    return item;
}

static int64_t integer(const cJSON *object, const char *name)
{
    return (int64_t)child(object, name)->valuedouble;
}

/* Padded elements, worked out here from the rule and not by the plan: per unit, shards of a multiple of 16. */
static int64_t padded(const struct model *model)
{
    int64_t sum = 0;
    for (int u = 0; u < model->unit_count; u++)
        sum += (model->units[u].elems + 16 * RANKS - 1) / (16 * RANKS) * 16 * RANKS;
    return sum;
}

static void test_model_states(void **state)
{
    (void)state;
    if (!runs.nano) skip();
    const int64_t p = padded(&runs.model), want[STAGES] = {16 * p, 4 * p + 12 * p / RANKS, 2 * p + 14 * p / RANKS, 16 * p / RANKS};
    for (int stage = 0; stage < STAGES; stage++)
        for (int rank = 0; rank < RANKS; rank++) {
            int64_t sum = 0;
            const cJSON *row;
            cJSON_ArrayForEach(row, child(runs.stage[stage], "memory"))
            {
                const char *category = child(row, "category")->valuestring;
                if (integer(row, "rank") != rank || strcmp(child(row, "tier")->valuestring, "device")) continue;
                if (strcmp(category, "parameters") && strcmp(category, "gradients") && strcmp(category, "optimizer"))
                    continue;
                assert_int_equal(integer(row, "peak_bytes"), integer(row, "predicted_peak_bytes"));
                sum += integer(row, "peak_bytes");
            }
            assert_int_equal(sum, want[stage]);
        }
    print_message("%s: Psi %lld, %lld elements of padding; model states of a rank: %lld, %lld, %lld, %lld bytes\n",
                  runs.config, (long long)runs.model.elems, (long long)(p - runs.model.elems), (long long)want[0],
                  (long long)want[1], (long long)want[2], (long long)want[3]);
}

static void test_peak_is_as_planned(void **state)
{
    (void)state;
    if (!runs.nano) skip();
    for (int stage = 0; stage < STAGES; stage++) {
        const cJSON *row;
        double least = 2;
        cJSON_ArrayForEach(row, child(runs.stage[stage], "peak"))
        {
            if (strcmp(child(row, "tier")->valuestring, "device")) continue;
            double ratio = (double)integer(row, "bytes") / (double)integer(row, "predicted_bytes");
            assert_true(ratio <= 1 && ratio >= 0.98);
            if (ratio < least) least = ratio;
        }
        assert_true(least < 2);
        print_message("stage %d: measured peak / planned at least %.4f\n", stage, least);
    }
}

/* What a process holds besides tensors, measured on nano and taken as the same for every model and stage. */
static double baseline(int rank)
{
    const cJSON *mark;
    double bytes = -1;
    cJSON_ArrayForEach(mark, child(runs.nano, "process_memory")) if (integer(mark, "rank") == rank) bytes =
        (double)(integer(mark, "pss_bytes") - integer(mark, "counted_reserved_bytes"));
    assert_true(bytes > 0);
    return bytes;
}

static void test_count_against_the_kernel(void **state)
{
    (void)state;
    if (!runs.nano) skip();
    for (int stage = 0; stage < STAGES; stage++) {
        const cJSON *mark;
        double worst = 0;
        int marks = 0;
        cJSON_ArrayForEach(mark, child(runs.stage[stage], "process_memory"))
        {
            double counted = (double)integer(mark, "counted_reserved_bytes"), pss = (double)integer(mark, "pss_bytes");
            double off = (pss - baseline((int)integer(mark, "rank")) - counted) / counted;
            if (off < 0) off = -off;
            if (off > worst) worst = off;
            marks++;
        }
        print_message("stage %d: %d marks, Pss without the baseline differs from the count by %.2f %% at most\n", stage,
                      marks, 100 * worst);
        assert_int_equal(marks, 3 * RANKS);
        assert_true(worst <= 0.05);
    }
}

/* Every rank sends so many times what a ring passes on of the model in 16 bits. */
static void check_traffic(const cJSON *report, const struct model *model, int volumes)
{
    const int64_t wanted = volumes * 2 * (padded(model) / RANKS) * (RANKS - 1);
    const cJSON *step, *sent;
    int steps = 0;
    cJSON_ArrayForEach(step, child(report, "steps"))
    {
        cJSON_ArrayForEach(sent, child(step, "sent_bytes")) assert_int_equal((int64_t)sent->valuedouble, wanted);
        steps++;
    }
    assert_int_equal(steps, STEPS);
}

static void test_traffic(void **state)
{
    (void)state;
    if (!runs.nano) skip();
    const int plain[STAGES] = {2, 2, 2, 3}, accumulated[STAGES] = {2, 2, 5, 12};
    for (int stage = 0; stage < STAGES; stage++) {
        check_traffic(runs.stage[stage], &runs.model, plain[stage]);
        if (runs.accumulated[stage]) check_traffic(runs.accumulated[stage], &runs.accumulating, accumulated[stage]);
    }
}

static void test_one_hash_for_all_stages(void **state)
{
    (void)state;
    if (!runs.nano) skip();
    for (int stage = 1; stage < STAGES; stage++)
        assert_string_equal(child(runs.stage[stage], "state_hash")->valuestring,
                            child(runs.stage[0], "state_hash")->valuestring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_states),
        cmocka_unit_test(test_peak_is_as_planned),
        cmocka_unit_test(test_count_against_the_kernel),
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_one_hash_for_all_stages),
    };
    return cmocka_run_group_tests(tests, make_runs, free_runs);
}
