/* What `zerolab export` writes for programs that show profiles, of traces of every kind of run: the rules of each form, and the
 * same figures as the trace's own readers give. */
#include "engine/advise/analysis.h"
#include "tests/support/export_fixture.h"
#include "tui/view/op_text.h"

/* ---- Chrome's JSON ---- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chrome_json_keeps_its_rules),
        cmocka_unit_test(slices_say_what_records_do),
        cmocka_unit_test(counters_are_the_models),
        cmocka_unit_test(hta_sees_the_times_of_analyze),
        cmocka_unit_test(hta_finds_the_rank),
        cmocka_unit_test(memory_events_add_up),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
