#include "engine/train/records.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/advise/print.h"
#include "engine/base/clock.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/text_stream.h"
#include "engine/device/gpu.h"
#include "kernels/cuda/device.h"

static struct trace_text text_of(const char *text)
{
    return (struct trace_text){text, strlen(text)};
}

void record_now(struct trace_ring *ring, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = clock_ns();
    trace_emit(ring, &record);
}

static void emit(struct trace_ring *ring, struct trace_record record)
{
    record_now(ring, TRACE_RANK_ALL, record);
}

void record_run(struct trace_ring *ring, const char *json)
{
    emit(ring, (struct trace_record){.kind = TRACE_RUN, .run.json = text_of(json)});
}

void record_state(struct trace_ring *ring, int64_t steps_done, enum run_state state, const char *reason)
{
    emit(ring, (struct trace_record){
                   .kind = TRACE_STATE,
                   .state = {.step = (uint32_t)steps_done, .state = (uint8_t)state, .reason = text_of(reason)}});
}

void record_command(struct trace_ring *ring, int64_t steps_done, const char *line, const char *refusal)
{
    char text[1024];
    snprintf(text, sizeof text, refusal ? "%s\t%s" : "%s", line, refusal);
    emit(ring, (struct trace_record){
                   .kind = TRACE_COMMAND,
                   .command = {.step = (uint32_t)steps_done + 1, .accepted = refusal == NULL, .text = text_of(text)}});
}

void record_event(struct trace_ring *ring, int64_t step, const char *kind, cJSON *detail)
{
    cJSON *json = json_object(TEXT("kind", kind));
    cJSON_AddItemToObject(json, "detail", detail);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text)
        emit(ring,
             (struct trace_record){.kind = TRACE_EVENT, .event = {.step = (uint32_t)step, .json = text_of(text)}});
    free(text);
}

void record_log(struct trace_ring *ring, int level, const char *text)
{
    const struct trace_record record = trace_log(level, text, clock_ns());
    trace_emit(ring, &record);
}

void record_pinning(struct trace_ring *ring, const struct memory *memory, bool *told)
{
    struct memory_snapshot now;
    struct error why;
    char text[sizeof why.text + 160], pinned[32], all[32];
    if (*told || !memory_pin_refused(memory, &why)) return;
    *told = true;
    memory_snapshot(memory, &now);
    snprintf(text, sizeof text, "pin_memory: %s of %s host bytes are locked, no more may be: %s",
             grouped(pinned, (int64_t)now.pinned_bytes[TIER_HOST]),
             grouped(all, (int64_t)now.tier[TIER_HOST].reserved_bytes), why.text);
    record_log(ring, 1, text);
}

void record_gelu(struct trace_ring *ring, const struct gpu_rank *gpu, bool *told)
{
    struct error why;
    char text[sizeof why.text + 160];
    if (*told || !gpu_rank_gelu_refused(gpu, &why)) return;
    *told = true;
    snprintf(text, sizeof text,
             "topology.fused_gelu: a kernel of its own computes GELU now, with other bits (set it to false for these): %s",
             why.text);
    record_log(ring, 1, text);
}

void record_lines(struct trace_ring *ring, char *text)
{
    for (char *line; (line = strsep(&text, "\n"));)
        if (*line) record_log(ring, 0, line);
}

void record_plan_notes(struct trace_ring *ring, const struct model *model, const struct config_zero *zero)
{
    struct text_stream text;
    FILE *out = ring ? text_stream_open(&text) : NULL;
    if (!out) return;
    plan_notes(out, "", model, zero);
    char *notes = text_stream_close(&text);
    if (notes) record_lines(ring, notes);
    free(notes);
}

void record_end(struct trace_ring *ring, enum outcome outcome, const char *error)
{
    emit(ring, (struct trace_record){.kind = TRACE_END, .end = {.outcome = (uint8_t)outcome, .error = text_of(error)}});
}

void record_gpu(struct trace_ring *ring, int rank, const struct gpu_rank *gpu)
{
    const struct gpu_place place = gpu_rank_place(gpu);
    record_now(ring, rank,
               (struct trace_record){.kind = TRACE_GPU,
                                     .gpu = {.gpu = (uint32_t)place.gpu,
                                             .first_rank = (uint32_t)place.first_rank,
                                             .ranks = (uint32_t)place.ranks,
                                             .total_bytes = place.info->total_bytes,
                                             .name = text_of(place.info->name)}});
}

void record_outside(struct trace_ring *ring, int rank, const struct gpu_rank *gpu, uint64_t *told_bytes)
{
    const struct gpu_place place = gpu_rank_place(gpu);
    uint64_t bytes, free_bytes;
    if (place.first_rank != rank || !gpu_rank_outside(gpu, &bytes, &free_bytes)) return;
    const uint64_t change = bytes > *told_bytes ? bytes - *told_bytes : *told_bytes - bytes;
    if (change < place.info->granularity) return;
    record_now(ring, rank, (struct trace_record){.kind = TRACE_OUTSIDE, .outside = {bytes, free_bytes}});
    *told_bytes = bytes;
}

void record_sensors(struct trace_ring *ring, int rank, const struct gpu_rank *gpu, uint64_t *told_ns)
{
    static const uint64_t second_ns = 1000000000;
    const uint64_t now_ns = clock_ns();
    if (gpu_rank_place(gpu).first_rank != rank || (*told_ns && now_ns - *told_ns < second_ns)) return;
    const struct sensor_reading now = gpu_rank_sensors(gpu);
    *told_ns = now_ns;
    record_now(ring, rank,
               (struct trace_record){.kind = TRACE_SENSORS, .sensors = {now.power_mw, now.clock_mhz, now.slowed_by}});
}

/* The value of "name:  1234 kB" in the text of a file of /proc, in bytes; 0: not there. */
static uint64_t proc_bytes(const char *text, const char *name)
{
    unsigned long long kib = 0;
    const char *at = strstr(text, name);
    if (at) sscanf(at + strlen(name), " %llu", &kib);
    return kib * 1024;
}

/* "" where there is no such file. Read at once, in the step loop: the kernel makes the text anew for each reading. */
static void proc_read(char *text, size_t capacity, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t count = fd < 0 ? 0 : read(fd, text, capacity - 1);
    text[count > 0 ? count : 0] = 0;
    if (fd >= 0) close(fd);
}

static void read_process(struct trace_of_process *out, bool with_pss)
{
    char text[4096];
    proc_read(text, sizeof text, "/proc/self/status");
    out->rss_bytes = proc_bytes(text, "\nVmRSS:");
    out->peak_rss_bytes = proc_bytes(text, "\nVmHWM:");
    if (!with_pss) return;
    proc_read(text, sizeof text, "/proc/self/smaps_rollup");
    out->pss_bytes = proc_bytes(text, "\nPss:");
}

void record_process(struct trace_ring *ring, int rank, int64_t step, const struct memory *memory,
                    struct process_told *told, bool at_once)
{
    static const uint64_t ms = 1000000;
    enum { PSS_EVERY_MS = 1000, PSS_STEPS = 50 };
    const uint64_t now_ns = clock_ns();
    const bool with_pss = at_once || (step % PSS_STEPS == 0 && now_ns - told->pss_ns >= PSS_EVERY_MS * ms);
    struct memory_snapshot counted;
    if (!with_pss && now_ns - told->at_ns < PROCESS_EVERY_MS * ms) return;
    told->at_ns = now_ns;
    if (with_pss) told->pss_ns = now_ns;
    memory_snapshot(memory, &counted);
    struct trace_record record = {.kind = TRACE_PROCESS, .rank = (uint16_t)rank, .time_ns = now_ns};
    record.process = (struct trace_of_process){
        .pid = (uint32_t)getpid(),
        .step = (uint32_t)step,
        .live_bytes = counted.tier[TIER_DEVICE].live_bytes + counted.tier[TIER_HOST].live_bytes,
        .reserved_bytes = counted.tier[TIER_DEVICE].reserved_bytes + counted.tier[TIER_HOST].reserved_bytes,
    };
    read_process(&record.process, with_pss);
    trace_emit(ring, &record);
}
