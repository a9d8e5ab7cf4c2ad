/* Reads a Chrome trace like that of PyTorch's profiler, made here, and prints megabytes of uncompressed text per second of one
 * core's time, plain and gzip: the fastest of the rounds. zlib alone limits gzip.
 *
 *     bench_import_events [MEGABYTES [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/import/events.h"

/* Writes kernels and the operators that launch them, as torch.profiler.export_chrome_trace() does. */
static void make_trace(FILE *out, long bytes)
{
    fprintf(
        out,
        "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 8},\n"
        "  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": [\n");
    for (long i = 0; ftell(out) < bytes; i++) {
        const double us = 1716000000000000.0 + (double)i * 13.25;
        fprintf(
            out,
            "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4242, \"tid\": 4242,\n"
            "    \"ts\": %.3f, \"dur\": %ld.%03ld,\n    \"args\": {\n      \"External id\": %ld,\"Record function "
            "id\": 0, "
            "\"Concrete Inputs\": [\"\", \"\", \"\", \"1\", \"1\"], \"Input type\": [\"float\", \"float\", \"float\", "
            "\"Scalar\", \"Scalar\"], \"Input Dims\": [[768], [4096, 768], [768, 768], [], []], \"Ev Idx\": %ld\n    "
            "}\n  },\n",
            us, i % 50, i % 1000, i, i);
        fprintf(
            out,
            "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
            "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_"
            "relu_bf16_64x64_64x6_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm::Params)\", \"pid\": 0, \"tid\": 7,\n"
            "    \"ts\": %.3f, \"dur\": %ld.%03ld,\n    \"args\": {\n      \"External id\": %ld,\n      \"queued\": 0, "
            "\"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %ld,\n      \"registers per "
            "thread\": 128,\n"
            "      \"shared memory\": 73728,\n      \"blocks per SM\": 1.777778,\n      \"grid\": [12, 16, 1],\n      "
            "\"block\": [128, 1, 1],\n      \"est. achieved occupancy %%\": 11\n    }\n  },\n",
            us + 5.5, i % 90, i % 997, i, i);
    }
    fprintf(out, "  {}],\n  \"traceName\": \"trace.json\"\n}\n");
    fflush(out);
}

/* Of this process, so that others on the machine count less. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(const char *what, int fd, int rounds)
{
    char path[64];
    double best = 0;
    uint64_t bytes = 0, events = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    while (rounds--) {
        struct event_reader reader;
        struct event event;
        enum event_result result;
        int64_t sum = 0, number;
        const double begin = cpu_seconds();
        event_reader_open(&reader, path);
        for (events = 0; (result = event_reader_next(&reader, &event)) >= EVENT; events += result == EVENT)
            if (event_arg_int64(&event, "External id", &number)) sum += event.dur_ns + number;
        const double seconds = cpu_seconds() - begin;
        bytes = event_reader_bytes(&reader);
        if (result == EVENT_BAD || !sum) fprintf(stderr, "bench_import_events: %s\n", reader.err.text), exit(1);
        event_reader_close(&reader);
        if ((double)bytes / 1e6 / seconds > best) best = (double)bytes / 1e6 / seconds;
    }
    printf("%-6s %7.1f MB, %8llu events: %7.1f MB/s\n", what, (double)bytes / 1e6, (unsigned long long)events, best);
}

int main(int argc, char **argv)
{
    const long megabytes = argc > 1 ? atol(argv[1]) : 200;
    const int rounds = argc > 2 ? atoi(argv[2]) : 5;
    FILE *plain = fdopen(memfd_create("plain", MFD_CLOEXEC), "w+");
    const int fd = memfd_create("packed", MFD_CLOEXEC);
    if (!plain || fd < 0) return 1;
    make_trace(plain, megabytes * 1000000);
    gzFile packed = gzdopen(dup(fd), "w6");
    static char piece[1 << 16];
    rewind(plain);
    for (size_t got; (got = fread(piece, 1, sizeof piece, plain)) > 0;) gzwrite(packed, piece, (unsigned)got);
    gzclose(packed);
    measure("plain", fileno(plain), rounds);
    measure("gzip", fd, rounds);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("memory at most %ld MiB\n", usage.ru_maxrss / 1024);
    return 0;
}
