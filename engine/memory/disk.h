/* How fast a disk is, measured with the code that training uses: what `fio` would do with the same blocks and depth. */
#ifndef ENGINE_MEMORY_DISK_H
#define ENGINE_MEMORY_DISK_H

#include "engine/memory/storage.h"

struct disk_job {
    const char *name;
    bool direction[AIO_DIRECTIONS]; /* both: half of the bytes each, at the same time, by two threads as the lanes do */
    bool random;                    /* every block anywhere, or one after another */
    int64_t block_bytes;            /* at most that of the options the disk was opened with */
};

struct disk_rate { double seconds; struct aio_flow flow[AIO_DIRECTIONS]; };

/* buffered_because: its bytes go through the page cache (a line for the log); NULL: they do not. */
struct disk { struct storage *storage; uint64_t file_bytes; const char *buffered_because; };

/* Makes and writes a file of at most file_bytes, less where that takes longer than `seconds`. It has no name, and it is gone
 * with disk_close(). */
int disk_open(struct disk *disk, const char *folder, const struct aio_options *options, uint64_t file_bytes, double seconds, struct error *err);
void disk_close(struct disk *disk);

/* Runs a job for about that long. */
int disk_measure(struct disk *disk, const struct disk_job *job, double seconds, struct disk_rate *rate, struct error *err);

#endif
