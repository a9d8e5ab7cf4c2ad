/* Traces of other programs: of real jobs against what the jobs counted themselves (tests/foreign/make_traces.py), and small texts for what
 * those do not have: kernels and NCCL, clocks of two hosts, missing ranks, damage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/json.h"
#include "engine/import/import.h"
#include "engine/observe/model.h"
#include "engine/observe/questions.h"
#include "engine/trace/check.h"
#include "engine/trace/source.h"
#include "tests/support/kineto_text.h"

/* ---- real jobs ---- */

struct count {
    int64_t count, bytes;
};

static int64_t elem_bytes(const char *dtype)
{
    return strstr(dtype, "64") ? 8 : strstr(dtype, "16") ? 2 : strstr(dtype, "32") ? 4 : 1;
}

static enum op_kind kind_named(const char *name)
{
    return !strcmp(name, "all_gather")       ? OP_GATHER
           : !strcmp(name, "reduce_scatter") ? OP_REDUCE_SCATTER
           : !strcmp(name, "all_reduce")     ? OP_ALL_REDUCE
                                             : OP_EXCHANGE;
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    struct stat there;
    if (!file) fail_msg("%s is not there", path);
    assert_int_equal(fstat(fileno(file), &there), 0);
    char *text = calloc(1, (size_t)there.st_size + 1);
    assert_int_equal(fread(text, 1, (size_t)there.st_size, file), there.st_size);
    fclose(file);
    return text;
}

/* What the import found of a step of a rank. */
static void found_in(struct count out[OP_KINDS], const struct job *job, int rank, uint32_t number)
{
    const struct job_rank *of = &job->ranks[rank];
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < of->lane[l].count; i++) {
            const struct job_op *op = &job->ops[of->lane[l].at[i].op];
            const uint32_t step = of->lane[l].at[i].step;
            if (op_lane(op->kind) != LANE_COMM || step == UINT32_MAX || of->lane[JOB_STEPS].at[step].number != number)
                continue;
            out[op->kind].count++;
            out[op->kind].bytes += (int64_t)op->bytes;
        }
}

static void told_in(struct count out[OP_KINDS], const cJSON *step)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, json_get(step, "collectives"))
    {
        const double in = json_get_number(one, "input_elems", 1e15, 0),
                     to = json_get_number(one, "output_elems", 1e15, 0);
        struct count *at = &out[kind_named(json_get_text(one, "kind"))];
        at->count++;
        at->bytes += (int64_t)(in > to ? in : to) * elem_bytes(json_get_text(one, "dtype"));
    }
}

/* The step as the profiler bounds it and as the job's own clock did: they differ by what the job does around it. */
static void same_time(const struct job_rank *rank, uint32_t number, double seconds)
{
    for (int s = 0; s < rank->lane[JOB_STEPS].count; s++)
        if (rank->lane[JOB_STEPS].at[s].number == number) {
            const double found =
                (double)(rank->lane[JOB_STEPS].at[s].ended_ns - rank->lane[JOB_STEPS].at[s].started_ns) * 1e-9;
            assert_true(fabs(found - seconds) <
                        0.02); /* steps of 70 ms and more; the job's own clock is read outside them */
            return;
        }
    fail_msg("step %u was not found", number);
}

static void check_job(const char *name, const char *recognised)
{
    char folder[256], path[300];
    struct import import;
    struct error err;
    snprintf(folder, sizeof folder, "tests/foreign/traces/%s", name);
    snprintf(path, sizeof path, "%s/truth.json", folder);
    char *text = read_text(path);
    cJSON *truth = cJSON_Parse(text);
    assert_non_null(truth);
    if (import_files(&import, (const char *const[]){folder}, 1, &err)) fail_msg("%s: %s", name, err.text);
    assert_string_equal(import.job.recognised, recognised);
    assert_int_equal(import.job.world, (int)json_get_number(truth, "ranks", 1e6, 0));
    assert_int_equal(import.beside_count, 1); /* truth.json is JSON, but no trace */
    const cJSON *step;
    int steps = 0;
    cJSON_ArrayForEach(step, json_get(truth, "steps"))
    {
        struct count told[OP_KINDS] = {0}, found[OP_KINDS] = {0};
        const int rank = (int)json_get_number(step, "rank", 1e6, 0);
        const uint32_t number = (uint32_t)json_get_number(step, "step", 1e6, 0);
        told_in(told, step);
        found_in(found, &import.job, rank, number);
        for (int kind = 0; kind < OP_KINDS; kind++)
            if (told[kind].count != found[kind].count || told[kind].bytes != found[kind].bytes)
                fail_msg("%s, rank %d, step %u, kind %d: the job counted %lld of %lld bytes, found were %lld of %lld",
                         name, rank, number, kind, (long long)told[kind].count, (long long)told[kind].bytes,
                         (long long)found[kind].count, (long long)found[kind].bytes);
        same_time(&import.job.ranks[rank], number, json_get_number(step, "seconds", 1e9, 0));
        steps++;
    }
    assert_true(steps >= 4);
    assert_true(import.job.matched >= 2);
    import_release(&import);
    cJSON_Delete(truth);
    free(text);
}

static void real_jobs(void **state)
{
    (void)state;
    check_job("ddp-2", "DDP");
    check_job("fsdp2-2", "FSDP (FSDP2)");
    check_job("zero1-2", "ZeRO-1 or ZeRO-2 (likely)");
    check_job("zero3-2", "ZeRO-3");
    check_job("zero3-no-prefetch-2", "ZeRO-3");
}

/* ---- small texts ---- */

static char scratch[64];

static const char *write_file(const char *name, const char *text)
{
    static char path[4][160];
    static int next;
    char *at = path[next++ % 4];
    snprintf(at, sizeof path[0], "%s/%s", scratch, name);
    FILE *file = fopen(at, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return at;
}

static const struct job_span *only_span(const struct job *job, enum lane lane)
{
    assert_int_equal(job->ranks[0].lane[lane].count, 1);
    return job->ranks[0].lane[lane].at;
}

static void kernels_are_of_the_phase_that_launched_them(void **state)
{
    struct import import;
    struct error err;
    const char *path = write_file("gpu.json", kineto_gpu);
    (void)state;
    if (import_files(&import, &path, 1, &err)) fail_msg("%s", err.text);
    const struct job *job = &import.job;
    const struct job_lane *compute = &job->ranks[0].lane[LANE_COMPUTE];
    assert_int_equal(compute->count, 2);
    assert_string_equal(job->ops[compute->at[0].op].name, "gemm");
    assert_int_equal(job->ops[compute->at[0].op].phase, PHASE_FORWARD);
    assert_int_equal(job->ops[compute->at[1].op].phase, PHASE_BACKWARD);
    const struct job_span *reduce = only_span(job, LANE_COMM);
    assert_int_equal(job->ops[reduce->op].kind, OP_ALL_REDUCE);
    assert_int_equal(job->ops[reduce->op].phase, PHASE_BACKWARD);
    assert_int_equal(job->ops[reduce->op].bytes, 2000);
    assert_int_equal(job->ops[reduce->op].ranks, 4);
    assert_int_equal(reduce->issued_ns, 200 * 1000);
    assert_int_equal(job_sent_bytes(job, &job->ops[reduce->op]), 3000);
    assert_int_equal(job->ops[only_span(job, LANE_H2D)->op].kind, OP_COPY_H2D);
    assert_int_equal(job->ops[only_span(job, LANE_HOST)->op].kind, OP_HOST_WORK);
    assert_int_equal(job->ranks[0].lane[JOB_STEPS].count,
                     1); /* as the GPU runs it: from its first kernel to its last */
    assert_int_equal(job->ranks[0].lane[JOB_STEPS].at[0].number, 7);
    assert_int_equal(job->ranks[0].lane[JOB_STEPS].at[0].started_ns, 100 * 1000);
    assert_int_equal(job->ranks[0].lane[JOB_STEPS].at[0].ended_ns, 300 * 1000);
    assert_int_equal(job->ranks[0].lane[JOB_MEMORY].count, 1);
    assert_int_equal(job->ranks[0].lane[JOB_MEMORY].at[0].live_bytes, 4096);
    import_release(&import);
}

/* Rank `rank` of two, whose clock is `ahead` ms ahead; its collective begins at `begun` ms and ends at 30. */
static const char *rank_file(int rank, const char *host, int ahead, int begun)
{
    char name[32], text[2048];
    const int at = ahead * 1000;
    snprintf(name, sizeof name, "rank%d.json", rank);
    snprintf(text, sizeof text,
             "{\"distributedInfo\":{\"rank\":%d,\"world_size\":2},\"host_name\":\"%s\",\"traceEvents\":["
             "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":1,\"ts\":%d,"
             "\"dur\":40000},"
             "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c10d::allreduce_\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":10,"
             "\"args\":{\"Input Dims\":[[[10]]],\"Input type\":[\"TensorList\"]}},"
             "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"gloo:all_reduce\",\"pid\":1,\"tid\":2,\"ts\":%d,"
             "\"dur\":%d,"
             "\"args\":{\"Input Dims\":[[10]],\"Input type\":[\"float\"]}}]}",
             rank, host, at, at + begun * 1000 - 5, at + begun * 1000, (30 - begun) * 1000);
    return write_file(name, text);
}

static void clocks_are_aligned_by_collectives(void **state)
{
    struct import import;
    struct error err;
    (void)state;
    const char *paths[2] = {rank_file(0, "a", 0, 10), rank_file(1, "b", 5000, 25)};
    if (import_files(&import, paths, 2, &err)) fail_msg("%s", err.text);
    assert_int_equal(import.job.ranks[0].offset_ns, 0);
    assert_int_equal(import.job.ranks[1].offset_ns, INT64_C(5000000000));
    assert_int_equal(import.job.matched, 1);
    assert_int_equal(import.job.apart_ns, 0);
    assert_int_equal(only_span(&import.job, LANE_COMM)->peers_ns, 15 * 1000 * 1000); /* rank 1 comes 15 ms later */
    assert_int_equal(import.job.ranks[1].lane[LANE_COMM].at[0].peers_ns, 0);
    assert_int_equal(import.job.ops[only_span(&import.job, LANE_COMM)->op].bytes, 40);
    import_release(&import);
    paths[1] = rank_file(1, "a", 5000, 25); /* one host has one clock: what is far apart there is far apart */
    if (import_files(&import, paths, 2, &err)) fail_msg("%s", err.text);
    assert_int_equal(import.job.ranks[1].offset_ns, 0);
    assert_int_equal(import.job.apart_ns, INT64_C(5000000000));
    import_release(&import);
}

/* Modules of the Python stack, below the root: of each rank, the second too. */
static void modules_are_units_of_every_rank(void **state)
{
    static const char format[] =
        "{\"distributedInfo\":{\"rank\":%d,\"world_size\":2},\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: GPT_0\",\"pid\":1,\"tid\":0,\"ts\":0,\"dur\":1000},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::zeros\",\"pid\":1,\"tid\":1,\"ts\":-9,\"dur\":5},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: GPT_0\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":100},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: Block_0\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":15,\"dur\":5},"
        "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: Block_1\",\"pid\":1,\"tid\":1,\"ts\":40,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":45,\"dur\":5},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":70,\"dur\":5}]}";
    struct import import;
    struct error err;
    char text[2][1024];
    const char *paths[2];
    (void)state;
    for (int r = 0; r < 2; r++) {
        snprintf(text[r], sizeof text[r], format, r);
        paths[r] = write_file(r ? "rank1.json" : "rank0.json", text[r]);
    }
    if (import_files(&import, paths, 2, &err)) fail_msg("%s", err.text);
    assert_int_equal(import.job.unit_count, 2);
    for (int r = 0; r < 2; r++) {
        const struct job_lane *lane = &import.job.ranks[r].lane[LANE_COMPUTE];
        assert_int_equal(lane->count, 4);
        for (int i = 0; i < 4; i++)
            assert_int_equal(import.job.ops[lane->at[i].op].unit, i == 1 || i == 2 ? i - 1 : JOB_NO_UNIT);
    }
    import_release(&import);
}

/* ---- as a trace ---- */

static struct run_model *fold_file(const char *path)
{
    struct source *source;
    struct trace_record record;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    assert_int_equal(source_open_file(&source, path, NULL), STATUS_OK);
    while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record);
    source_close(source);
    return model;
}

static void a_missing_rank_is_not_waited_for(void **state)
{
    struct trace_check check;
    struct error err;
    char path[64];
    int fd;
    (void)state;
    const char *paths[1] = {rank_file(1, "a", 0, 10)};
    if (import_to_unnamed(paths, 1, path, &fd, &err)) fail_msg("%s", err.text);
    struct run_model *model = fold_file(path);
    assert_int_equal(model->header.ranks, 2);
    assert_int_equal(model->header.missing, 1);
    assert_string_equal(model->header.program, "PyTorch profiler");
    const struct run_step *step = run_last_step(model);
    assert_non_null(step);
    assert_int_equal(step->total_ns, 40 * 1000 * 1000);
    assert_null(run_training(model)); /* what was observed is no schedule */
    assert_string_equal(run_op_name(model, TRACE_OBSERVED, 0), "all_reduce");
    assert_string_equal(run_lane_name(model, LANE_COMM), "thread 2");
    assert_string_equal(model->problem, "");
    run_model_free(model);
    assert_int_equal(trace_check(&check, path, &err), STATUS_OK);
    assert_int_equal(check.ops_homeless, 0);
    assert_true(check.usable[TRACE_USE_REPLAY] && !check.usable[TRACE_USE_LEARNING]);
    close(fd);
}

/* PyTorch's first step is 0; what ran before it is of no step. */
static void what_ran_before_a_step_is_not_its_traffic(void **state)
{
    static const char text[] =
        "{\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#0\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":40000},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"gloo:all_reduce\",\"pid\":1,\"tid\":2,\"ts\":-900,\"dur\":100,"
        "\"args\":{\"Input Dims\":[[10]],\"Input type\":[\"float\"]}},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"gloo:all_reduce\",\"pid\":1,\"tid\":2,\"ts\":900,\"dur\":100,"
        "\"args\":{\"Input Dims\":[[10]],\"Input type\":[\"float\"]}}]}";
    struct error err;
    char path[64];
    int fd;
    uint64_t count = 0;
    (void)state;
    const char *paths[1] = {write_file("first.json", text)};
    if (import_to_unnamed(paths, 1, path, &fd, &err)) fail_msg("%s", err.text);
    struct run_model *model = fold_file(path);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++) count += model->traffic[kind][link].count;
    assert_int_equal(count, 1);
    run_model_free(model);
    close(fd);
}

/* ---- what is wrong is said in one line ---- */

static void refused(const char *const *paths, int count, int status, const char *part)
{
    struct import import;
    struct error err;
    assert_int_equal(import_files(&import, paths, count, &err), status);
    if (!strstr(err.text, part)) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    assert_null(import.job.ranks);
}

static void wrong_files(void **state)
{
    (void)state;
    const char *two[2] = {rank_file(0, "a", 0, 10), NULL};
    two[1] = two[0];
    refused(two, 2, STATUS_INPUT, "of rank 0, as another file");
    const char *one = write_file("other.json", "{\"a\":1}");
    refused(&one, 1, STATUS_INPUT, "no traceEvents");
    one = write_file("empty.json", "{\"traceEvents\":[]}");
    refused(&one, 1, STATUS_INPUT, "without an event of a training job");
    assert_true(import_is_foreign(one));
    one = write_file("plain.txt", "hello");
    assert_false(import_is_foreign(one));
}

/* Cut at every byte: an error, or a part of the job; never a crash. */
static void a_file_cut_anywhere(void **state)
{
    char text[sizeof kineto_gpu];
    struct error err;
    (void)state;
    for (size_t cut = 0; cut < sizeof kineto_gpu; cut += 7) {
        struct import import;
        snprintf(text, cut + 1, "%s", kineto_gpu);
        const char *path = write_file("cut.json", text);
        if (import_files(&import, &path, 1, &err)) continue;
        if (cut + 2 < sizeof kineto_gpu) assert_string_not_equal(import.cut, "");
        import_release(&import);
    }
}

static int make_scratch(void **state)
{
    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.40s/import-XXXXXX", folder && *folder ? folder : "/tmp");
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    static const char *const names[] = {"gpu.json",   "rank0.json", "rank1.json", "other.json",
                                        "empty.json", "plain.txt",  "cut.json",   "first.json"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", scratch, names[i]);
        unlink(path);
    }
    return rmdir(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_jobs),
        cmocka_unit_test(kernels_are_of_the_phase_that_launched_them),
        cmocka_unit_test(clocks_are_aligned_by_collectives),
        cmocka_unit_test(modules_are_units_of_every_rank),
        cmocka_unit_test(a_missing_rank_is_not_waited_for),
        cmocka_unit_test(what_ran_before_a_step_is_not_its_traffic),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(a_file_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
