/* Checks of GPUs: their memory, and the bandwidth to the first GPU and back. The measurement works as a lane does:
 * one copy after another on a stream, from pinned memory (as offload uses) and from pageable memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/doctor/doctor.h"
#include "kernels/cuda/device.h"

static const uint64_t COPY_BYTES = 32u << 20;

/* The driver's own words, where it has a file with them: "535.104.05". */
static void read_driver(char version[32])
{
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    version[0] = '\0';
    if (!file) return;
    if (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "Module");
        if (at && sscanf(at, "Module for %*s %31s", version) != 1) sscanf(at, "Module %31s", version);
    }
    fclose(file);
}

void look_gpu_memory(struct finding *finding)
{
    struct device_info info = {0};
    struct error err;
    uint64_t free_bytes;
    char driver[32], others[48] = "";
    const int gpus = device_count();
    if (gpus == 0) return doctor_good(finding, "no GPU that this program can use");
    if (device_look(0, &info, &free_bytes, &err))
        return doctor_note(finding, "topology.backend=cpu needs none", "%.200s", err.text);
    read_driver(driver);
    if (gpus > 1) snprintf(others, sizeof others, "; %d more", gpus - 1);
    doctor_good(finding, "GPU 0: %s, compute capability %d.%d, %.2f GiB, %.2f GiB free%s%s%s", info.name, info.major,
                info.minor, (double)info.total_bytes / (1 << 30), (double)free_bytes / (1 << 30),
                *driver ? ", driver " : "", driver, others);
}

struct bench {
    struct device *device;
    struct device_stream *stream;
    struct device_range range;
    void *host;
};

static int open_bench(struct bench *bench, struct error *err)
{
    int status = device_open(&bench->device, 0, err);
    if (!status) status = device_stream_create(&bench->stream, bench->device, "doctor", err);
    if (!status) status = device_range_reserve(&bench->range, bench->device, COPY_BYTES, err);
    if (!status) status = device_range_commit(&bench->range, 0, bench->range.bytes, err);
    bench->host = aligned_alloc(2 << 20, COPY_BYTES);
    if (!status && !bench->host) status = error_set(err, STATUS_RUN, "no memory to copy from");
    if (!status) memset(bench->host, 1, COPY_BYTES);
    return status;
}

static void close_bench(struct bench *bench)
{
    device_range_release(&bench->range);
    if (bench->stream) device_stream_destroy(bench->stream);
    if (bench->device) device_close(bench->device);
    free(bench->host);
}

/* GB/s of the best of three copies. */
static int measure(struct bench *bench, bool up, double *rate, struct error *err)
{
    enum { TIMES = 3 };
    void *to = up ? (void *)bench->range.base : bench->host, *from = up ? bench->host : (void *)bench->range.base;
    int status = STATUS_OK;
    *rate = 0;
    for (int i = 0; i < TIMES && !status; i++) {
        const uint64_t begun_ns = clock_ns();
        status = device_copy(bench->stream, to, from, COPY_BYTES, err);
        if (!status) status = device_stream_wait(bench->stream, err);
        const double now = (double)COPY_BYTES / (double)(clock_ns() - begun_ns);
        if (now > *rate) *rate = now;
    }
    return status;
}

static int measure_both(struct bench *bench, double rate[2], struct error *err)
{
    int status = measure(bench, true, &rate[0], err);
    return status ? status : measure(bench, false, &rate[1], err);
}

void look_gpu_link(struct finding *finding)
{
    struct bench bench = {0};
    struct error err;
    double pageable[2], pinned[2];
    if (device_count() == 0) return doctor_good(finding, "nothing to measure");
    int status = open_bench(&bench, &err);
    if (!status) status = measure_both(&bench, pageable, &err);
    if (!status) status = device_pin(bench.device, bench.host, COPY_BYTES, &err);
    if (!status) {
        status = measure_both(&bench, pinned, &err);
        device_unpin(bench.device, bench.host, NULL);
    }
    close_bench(&bench);
    if (status) return doctor_note(finding, "topology.backend=cpu needs none", "%.200s", err.text);
    doctor_good(finding, "measured, GB/s up and down: %.1f and %.1f pinned, %.1f and %.1f not", pinned[0], pinned[1],
                pageable[0], pageable[1]);
}
