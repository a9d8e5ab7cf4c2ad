/* Measures a disk: each lane moves batches of blocks until its time is over. Batches double in size until one takes so long that
 * its end, where fewer blocks are in flight, does not matter. */
#include "engine/memory/disk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"

enum { BATCH_BLOCKS_MAX = 4096, BATCH_BYTES_MAX = 64 << 20 };
static const uint64_t long_enough_ns = 100000000;

struct lane {
    struct storage *storage;
    const struct disk_job *job;
    enum aio_direction direction;
    uint64_t blocks_in_file, drawn, at; /* random places drawn so far; the next one in order */
    uint64_t until_ns;
    unsigned char *memory;
    struct aio_span *spans;
    int status;
    struct error err;
};

static uint64_t next_block(struct lane *lane)
{
    if (lane->job->random) return rng_u64(1, (uint64_t)lane->direction, lane->drawn++) % lane->blocks_in_file;
    return lane->at++ % lane->blocks_in_file;
}

static int move_batch(struct lane *lane, int blocks)
{
    const uint64_t bytes = (uint64_t)lane->job->block_bytes;
    for (int b = 0; b < blocks; b++)
        lane->spans[b] = storage_span(lane->storage, CATEGORY_OPTIMIZER, next_block(lane) * bytes,
                                      lane->memory + (uint64_t)b * bytes % BATCH_BYTES_MAX, bytes);
    return storage_move(lane->storage, lane->direction, lane->spans, blocks, &lane->err);
}

/* Each lane begins in its own half of the file, so that reads do not find blocks that were just written. It moves one batch at
 * least: on a busy machine its thread may start after the time is over. */
static void *run_lane(void *argument)
{
    struct lane *lane = argument;
    const int64_t fit = BATCH_BYTES_MAX / lane->job->block_bytes;
    const int most = fit < BATCH_BLOCKS_MAX ? (int)fit : BATCH_BLOCKS_MAX;
    lane->at = lane->direction == AIO_WRITE ? lane->blocks_in_file / 2 : 0;
    int blocks = most < 16 ? most : 16;
    do {
        const uint64_t begun = clock_ns();
        lane->status = move_batch(lane, blocks);
        if (clock_ns() - begun < long_enough_ns && blocks * 2 <= most) blocks *= 2;
    } while (!lane->status && clock_ns() < lane->until_ns);
    return NULL;
}

/* Bytes that no disk can compress. */
static unsigned char *make_bytes(void)
{
    unsigned char *memory = aligned_alloc(AIO_ALIGN_BYTES, BATCH_BYTES_MAX);
    for (uint64_t i = 0; memory && i < BATCH_BYTES_MAX; i += 8) {
        uint64_t value = rng_u64(1, 1, i);
        memcpy(memory + i, &value, sizeof value);
    }
    return memory;
}

static int prepare(struct lane *lane, const struct disk *disk, const struct disk_job *job, enum aio_direction direction)
{
    *lane = (struct lane){.storage = disk->storage,
                          .job = job,
                          .direction = direction,
                          .blocks_in_file = disk->file_bytes / (uint64_t)job->block_bytes};
    if (!job->direction[direction]) return STATUS_OK;
    lane->memory = make_bytes();
    lane->spans = malloc(BATCH_BLOCKS_MAX * sizeof *lane->spans);
    return lane->memory && lane->spans ? STATUS_OK : STATUS_RUN;
}

static int run_lanes(struct lane lanes[AIO_DIRECTIONS], double seconds, struct error *err)
{
    pthread_t thread;
    struct lane *first = lanes[AIO_READ].memory ? &lanes[AIO_READ] : &lanes[AIO_WRITE];
    struct lane *second = lanes[AIO_READ].memory && lanes[AIO_WRITE].memory ? &lanes[AIO_WRITE] : NULL;
    for (int d = 0; d < AIO_DIRECTIONS; d++) lanes[d].until_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    if (second && pthread_create(&thread, NULL, run_lane, second))
        return error_set(err, STATUS_RUN, "cannot start a thread to measure with");
    run_lane(first);
    if (second) pthread_join(thread, NULL);
    struct lane *failed = first->status ? first : second && second->status ? second : NULL;
    return failed ? error_set(err, failed->status, "%s", failed->err.text) : STATUS_OK;
}

int disk_measure(struct disk *disk, const struct disk_job *job, double seconds, struct disk_rate *rate,
                 struct error *err)
{
    struct lane lanes[AIO_DIRECTIONS];
    int status = STATUS_OK;
    for (int d = 0; d < AIO_DIRECTIONS; d++) status |= prepare(&lanes[d], disk, job, d);
    if (status) error_set(err, status, "no memory to measure with; 64 MiB a direction are needed");
    for (int d = 0; d < AIO_DIRECTIONS; d++) aio_restart_flow(storage_aio(disk->storage, d));
    const uint64_t begun = clock_ns();
    if (!status) status = run_lanes(lanes, seconds, err);
    rate->seconds = (double)(clock_ns() - begun) * 1e-9;
    for (int d = 0; d < AIO_DIRECTIONS; d++) {
        rate->flow[d] = aio_flow(storage_aio(disk->storage, d));
        free(lanes[d].memory), free(lanes[d].spans);
    }
    return status;
}

/* Writes batch by batch until the file is whole or the time is over. */
static int lay_out(struct disk *disk, uint64_t file_bytes, double seconds, struct error *err)
{
    unsigned char *memory = make_bytes();
    int status = memory ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to measure with; 64 MiB are needed");
    const uint64_t until_ns = clock_ns() + (uint64_t)(seconds * 1e9);
    uint64_t written = 0;
    while (!status && written + BATCH_BYTES_MAX <= file_bytes && (written == 0 || clock_ns() < until_ns)) {
        struct aio_span span = storage_span(disk->storage, CATEGORY_OPTIMIZER, written, memory, BATCH_BYTES_MAX);
        status = storage_reserve(disk->storage, CATEGORY_OPTIMIZER, written, written + span.bytes, err);
        if (!status) status = storage_move(disk->storage, AIO_WRITE, &span, 1, err);
        written += span.bytes;
    }
    disk->file_bytes = written;
    free(memory);
    return status;
}

int disk_open(struct disk *disk, const char *folder, const struct aio_options *options, uint64_t file_bytes,
              double seconds, struct error *err)
{
    *disk = (struct disk){0};
    const struct storage_range ranges[CATEGORIES] = {[CATEGORY_OPTIMIZER] = {folder, file_bytes}};
    int status = storage_open(&disk->storage, ranges, options, err);
    if (!status) status = storage_use(disk->storage, CATEGORY_OPTIMIZER, &disk->buffered_because, err);
    if (!status) status = lay_out(disk, file_bytes, seconds, err);
    if (status) disk_close(disk);
    return status;
}

void disk_close(struct disk *disk)
{
    storage_close(disk->storage);
    *disk = (struct disk){0};
}
