/* Measures the speed of a disk with the I/O code of training, as `fio` does with the same block size and queue depth. */
#pragma once

#include "engine/memory/storage.h"

struct disk_job {
    const char *name;
    bool direction[AIO_DIRECTIONS]; /* both: two threads, one each, until the time is over; writes start mid-file */
    bool random;                    /* each block at a random place; false: one after another */
    int64_t block_bytes;            /* at most options.block_bytes of disk_open() */
};

struct disk_rate { double seconds; struct aio_flow flow[AIO_DIRECTIONS]; };

/* buffered_because: why its bytes go through the page cache (a line for the log, owned by storage); NULL: they do not. */
struct disk { struct storage *storage; uint64_t file_bytes; const char *buffered_because; };

/* Writes a file without a name in `folder`: at most file_bytes, in steps of 64 MiB, for about `seconds`. disk_close() removes it.
 * Errors: those of storage_open(), storage_use(), storage_reserve() and storage_move(). */
int disk_open(struct disk *disk, const char *folder, const struct aio_options *options, uint64_t file_bytes, double seconds, struct error *err);
void disk_close(struct disk *disk);

/* Runs a job for about `seconds`. STATUS_RUN: no memory (64 MiB for each direction), or a transfer failed. */
int disk_measure(struct disk *disk, const struct disk_job *job, double seconds, struct disk_rate *rate, struct error *err);
