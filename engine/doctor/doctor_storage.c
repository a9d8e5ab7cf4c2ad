/* Measures a disk with the accesses of the NVMe tier. Two rows show one direction alone, sequential and random. The
 * last row shows both directions at once, which matters while optimizer states stream through. */
#include "engine/doctor/doctor.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "engine/base/printable.h"
#include "engine/memory/disk.h"

enum { LARGE_BLOCK = 1 << 20, SMALL_BLOCK = 4096 };
static const uint64_t FILE_BYTES_MAX = 1u << 30, FILE_BYTES_MIN = 64u << 20;
static const double seconds_each = 1.5, seconds_layout = 4;

/* aio's defaults, which are DeepSpeed's. */
static const struct aio_options how = {
    .block_bytes = LARGE_BLOCK, .queue_depth = 8, .threads = 1, .overlap_events = true};

static const struct disk_job jobs[] = {
    {"sequential", {[AIO_READ] = true}, false, LARGE_BLOCK},
    {"sequential", {[AIO_WRITE] = true}, false, LARGE_BLOCK},
    {"random", {[AIO_READ] = true}, true, SMALL_BLOCK},
    {"random", {[AIO_WRITE] = true}, true, SMALL_BLOCK},
    {"mixed", {true, true}, false, LARGE_BLOCK},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static const char *const direction_name[AIO_DIRECTIONS] = {"read", "write"};

struct findings {
    const char *folder, *buffered_because; /* the latter NULL: direct */
    uint64_t free_bytes, file_bytes;
    struct disk_rate rate[JOBS];
};

static double bytes_per_second(const struct disk_rate *rate, int direction)
{
    return (double)rate->flow[direction].bytes / rate->seconds;
}

static double blocks_per_second(const struct disk_rate *rate, int direction)
{
    return (double)rate->flow[direction].blocks / rate->seconds;
}

static double latency_s(const struct disk_rate *rate, int direction)
{
    const struct aio_flow *flow = &rate->flow[direction];
    return flow->blocks ? 1e-9 * (double)flow->latency_ns / (double)flow->blocks : 0;
}

/* ---- measuring ---- */

static void say(FILE *progress, const char *what, const char *how_long)
{
    if (!progress) return;
    fputs("\r\033[K", printable_below(progress));
    fprintf(progress, "measuring: %s%s", what, how_long);
    fflush(progress);
}

/* The test file takes at most a quarter of the free space, and at most 1 GiB. */
static int file_size(const char *folder, struct findings *found, struct error *err)
{
    struct statvfs disk;
    if (statvfs(folder, &disk))
        return error_set(err, STATUS_USAGE, "cannot look at %s: %s; give a folder on the disk to be measured", folder,
                         strerror(errno));
    found->free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    found->file_bytes = found->free_bytes / 4 < FILE_BYTES_MAX ? found->free_bytes / 4 : FILE_BYTES_MAX;
    if (found->file_bytes >= FILE_BYTES_MIN) return STATUS_OK;
    return error_set(err, STATUS_RUN,
                     "%s has %llu MiB free and measuring needs %llu; free some, or give another folder", folder,
                     (unsigned long long)(found->free_bytes >> 20), (unsigned long long)(4 * FILE_BYTES_MIN >> 20));
}

static int measure(struct findings *found, struct disk *disk, FILE *progress, struct error *err)
{
    int status = STATUS_OK;
    found->buffered_because = disk->buffered_because;
    found->file_bytes = disk->file_bytes;
    for (int j = 0; j < JOBS && !status; j++) {
        const bool *direction = jobs[j].direction;
        say(progress, jobs[j].name,
            direction[AIO_READ] ? direction[AIO_WRITE] ? " read and write" : " read" : " write");
        status = disk_measure(disk, &jobs[j], seconds_each, &found->rate[j], err);
    }
    return status;
}

/* ---- telling ---- */

static void print_row(FILE *out, const struct disk_job *job, const struct disk_rate *rate, int direction)
{
    char name[32];
    snprintf(name, sizeof name, "%s %s", job->name, direction_name[direction]);
    fprintf(out, "  %-18s %6s  %9.3f GB/s  %10.0f /s  %9.3f ms  %9.3f ms\n", name,
            job->block_bytes == SMALL_BLOCK ? "4 KiB" : "1 MiB", 1e-9 * bytes_per_second(rate, direction),
            blocks_per_second(rate, direction), 1e3 * latency_s(rate, direction),
            1e-6 * (double)rate->flow[direction].longest_ns);
}

/* Explains the mixed rates: Adam keeps 12 bytes a parameter, and reads and writes all of them in every step. */
static void print_meaning(FILE *out, const struct disk_rate *mixed)
{
    double read = bytes_per_second(mixed, AIO_READ), write = bytes_per_second(mixed, AIO_WRITE);
    if (read <= 0 || write <= 0) return;
    double slower = read < write ? read : write;
    fprintf(
        out,
        "\nAdam's states of 10^9 parameters are 12 GB read and 12 GB written in every step: at least %.1f s here.\n",
        12e9 / slower);
}

static void print_text(FILE *out, const struct findings *found)
{
    fprintf(out, "storage of %s: %.1f GB free, %s\n", found->folder, 1e-9 * (double)found->free_bytes,
            found->buffered_because ? "no direct I/O, so this is the page cache's speed too" : "direct I/O");
    fprintf(out, "measured with the code that training uses: a file of %.2f GB, %d blocks in flight, %.1f s each\n\n",
            1e-9 * (double)found->file_bytes, how.queue_depth, seconds_each);
    fprintf(out, "  %-18s %6s  %14s  %13s  %12s  %12s\n", "", "block", "bytes", "blocks", "latency mean", "longest");
    for (int j = 0; j < JOBS; j++)
        for (int d = 0; d < AIO_DIRECTIONS; d++)
            if (jobs[j].direction[d]) print_row(out, &jobs[j], &found->rate[j], d);
    print_meaning(out, &found->rate[JOBS - 1]);
}

static void print_json_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') putc('\\', out);
        if (*c < 0x20) fprintf(out, "\\u%04x", *c);
        else putc(*c, out);
    }
    putc('"', out);
}

static void print_json(FILE *out, const struct findings *found)
{
    fputs("{\"folder\": ", out);
    print_json_string(out, found->folder);
    fprintf(out, ", \"direct\": %s, \"free_bytes\": %llu, \"file_bytes\": %llu, \"queue_depth\": %d, \"measured\": [",
            found->buffered_because ? "false" : "true", (unsigned long long)found->free_bytes,
            (unsigned long long)found->file_bytes, how.queue_depth);
    const char *separator = "";
    for (int j = 0; j < JOBS; j++) {
        for (int d = 0; d < AIO_DIRECTIONS; d++) {
            if (!jobs[j].direction[d]) continue;
            fprintf(
                out,
                "%s\n  {\"job\": \"%s\", \"direction\": \"%s\", \"block_bytes\": %lld, \"bytes_per_second\": %.0f, ",
                separator, jobs[j].name, direction_name[d], (long long)jobs[j].block_bytes,
                bytes_per_second(&found->rate[j], d));
            fprintf(out, "\"blocks_per_second\": %.1f, \"latency_seconds\": %.9f, \"longest_seconds\": %.9f}",
                    blocks_per_second(&found->rate[j], d), latency_s(&found->rate[j], d),
                    1e-9 * (double)found->rate[j].flow[d].longest_ns);
            separator = ",";
        }
    }
    fputs("\n]}\n", out);
}

int doctor_storage(const char *folder, bool json, FILE *out, FILE *progress, struct error *err)
{
    struct findings found = {.folder = folder};
    struct disk disk = {0};
    int status = file_size(folder, &found, err);
    if (status) return status;
    say(progress, "writing a file", " to measure with");
    status = disk_open(&disk, folder, &how, found.file_bytes, seconds_layout, err);
    if (!status) status = measure(&found, &disk, progress, err);
    if (progress) fputs("\r\033[K", printable_below(progress));
    if (!status) (json ? print_json : print_text)(out, &found);
    disk_close(&disk);
    return status;
}
