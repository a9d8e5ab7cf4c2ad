/* Measures a disk with the accesses of the NVMe tier. Two rows show one direction alone, sequential and random. The
 * last row shows both directions at once, which matters while optimizer states stream through. */
#include "engine/doctor/doctor.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/statvfs.h>

#include "engine/base/printable.h"
#include "engine/base/template.h"
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

static void add_row(cJSON *row, const struct disk_job *job, const struct disk_rate *rate, int direction)
{
    const struct aio_flow *flow = &rate->flow[direction];
    const double latency_s = flow->blocks ? 1e-9 * (double)flow->latency_ns / (double)flow->blocks : 0;
    char name[32];
    snprintf(name, sizeof name, "%s %s", job->name, direction_name[direction]);
    json_put(row, TEXT("job", job->name), TEXT("direction", direction_name[direction]), NUMBER("block_bytes", job->block_bytes),
             NUMBER("bytes_per_second", bytes_per_second(rate, direction)),
             NUMBER("blocks_per_second", (double)flow->blocks / rate->seconds), NUMBER("latency_seconds", latency_s),
             NUMBER("longest_seconds", 1e-9 * (double)flow->longest_ns), TEXT(".name", name),
             TEXT(".block", job->block_bytes == SMALL_BLOCK ? "4 KiB" : "1 MiB"));
}

/* .adam_seconds explains the mixed rates: Adam keeps 12 bytes a parameter, and reads and writes all of them in every step. */
static cJSON *facts_of(const struct findings *found)
{
    const struct disk_rate *mixed = &found->rate[JOBS - 1];
    const double slower = fmin(bytes_per_second(mixed, AIO_READ), bytes_per_second(mixed, AIO_WRITE));
    cJSON *facts = json_object(TEXT("folder", found->folder), TRUTH("direct", !found->buffered_because),
                               NUMBER("free_bytes", found->free_bytes), NUMBER("file_bytes", found->file_bytes),
                               NUMBER("queue_depth", how.queue_depth), NUMBER(".each", seconds_each),
                               NUMBER_IF(".adam_seconds", slower > 0, 12e9 / slower));
    cJSON *list = cJSON_AddArrayToObject(facts, "measured");
    for (int j = 0; j < JOBS; j++)
        for (int d = 0; d < AIO_DIRECTIONS; d++)
            if (jobs[j].direction[d]) add_row(json_item(list), &jobs[j], &found->rate[j], d);
    return facts;
}

static const char page[] =
    "storage of {folder}: {free_bytes:.1B} GB free, "
    "{?direct}direct I/O{/}{!direct}no direct I/O, so this is the page cache's speed too{/}\n"
    "measured with the code that training uses: a file of {file_bytes:.2B} GB, {queue_depth} blocks in flight, {.each:.1} s each\n\n"
    "                      block           bytes         blocks  latency mean       longest\n"
    "{#measured}  {.name:-18} {.block:6}  {bytes_per_second:9.3B} GB/s  {blocks_per_second:10} /s  "
    "{latency_seconds:9.3m} ms  {longest_seconds:9.3m} ms\n{/}"
    "{?.adam_seconds}\nAdam's states of 10^9 parameters are 12 GB read and 12 GB written in every step: "
    "at least {.adam_seconds:.1} s here.\n{/}";

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
    if (!status) status = template_answer(out, json, page, facts_of(&found), err);
    disk_close(&disk);
    return status;
}
