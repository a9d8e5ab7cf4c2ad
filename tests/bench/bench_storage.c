/* The traffic of an optimizer on NVMe against what fio gets out of the same disk: sub-groups of three arrays stream through
 * three buffers, k+1 being read while k-1 is written. fio (libaio, O_DIRECT) moves blocks of the same size, half of them reads,
 * with as many in flight as both our directions have together. The two take turns; medians over the rounds.
 *
 *     bench_storage [FOLDER]      on the disk to be measured; 1 GiB is needed twice */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/memory/storage.h"

enum {
    ROUNDS = 7,
    BUFFERS = 3,
    ARRAYS = 3,
    BLOCK_BYTES = 1 << 20,
    DEPTH = 8,
    SUB_GROUPS = 42,
    ARRAY_BYTES = 8 << 20,
    SUB_GROUP_BYTES = ARRAYS * ARRAY_BYTES,
    HUGE_BYTES = 2 << 20,
};
static const double goal = 0.85, seconds_each = 2;

static void stop(const char *what)
{
    fprintf(stderr, "bench_storage: %s\n", what);
    exit(1);
}

/* ---- ours ---- */

/* Two lanes in lock step: sub-group k is written after it was read, and k+3 read into its buffer after it was written. */
struct stream {
    struct storage *storage;
    unsigned char *buffer[BUFFERS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long done[AIO_DIRECTIONS];
    uint64_t until_ns;
    bool over;
};

static bool may_begin(struct stream *stream, enum aio_direction direction, long k)
{
    pthread_mutex_lock(&stream->lock);
    while (direction == AIO_READ ? k >= stream->done[AIO_WRITE] + BUFFERS
                                 : k >= stream->done[AIO_READ] && !stream->over)
        pthread_cond_wait(&stream->changed, &stream->lock);
    if (direction == AIO_READ && clock_ns() >= stream->until_ns) stream->over = true;
    bool begin = direction == AIO_READ ? !stream->over : k < stream->done[AIO_READ];
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return begin;
}

static void has_ended(struct stream *stream, enum aio_direction direction)
{
    pthread_mutex_lock(&stream->lock);
    stream->done[direction]++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static void run_lane(struct stream *stream, enum aio_direction direction)
{
    for (long k = 0; may_begin(stream, direction, k); k++) {
        struct aio_span spans[ARRAYS];
        struct error err;
        for (int a = 0; a < ARRAYS; a++) {
            uint64_t offset = (uint64_t)(k % SUB_GROUPS) * SUB_GROUP_BYTES + (uint64_t)a * ARRAY_BYTES;
            spans[a] = storage_span(stream->storage, CATEGORY_OPTIMIZER, offset,
                                    stream->buffer[k % BUFFERS] + a * ARRAY_BYTES, ARRAY_BYTES);
        }
        if (storage_move(stream->storage, direction, spans, ARRAYS, &err)) stop(err.text);
        has_ended(stream, direction);
    }
}

static void *write_lane(void *stream)
{
    run_lane(stream, AIO_WRITE);
    return NULL;
}

static double ours(struct stream *stream)
{
    pthread_t thread;
    const uint64_t begun = clock_ns();
    stream->done[AIO_READ] = stream->done[AIO_WRITE] = 0;
    stream->over = false;
    stream->until_ns = begun + (uint64_t)(seconds_each * 1e9);
    if (pthread_create(&thread, NULL, write_lane, stream)) stop("no thread");
    run_lane(stream, AIO_READ);
    pthread_join(thread, NULL);
    double bytes = (double)(stream->done[AIO_READ] + stream->done[AIO_WRITE]) * SUB_GROUP_BYTES;
    return bytes / (1e-9 * (double)(clock_ns() - begun));
}

static void open_stream(struct stream *stream, const char *folder)
{
    const struct aio_options how = {
        .block_bytes = BLOCK_BYTES, .queue_depth = DEPTH, .threads = 1, .overlap_events = true};
    const uint64_t bytes = (uint64_t)SUB_GROUPS * SUB_GROUP_BYTES;
    struct error err;
    *stream = (struct stream){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const struct storage_range ranges[CATEGORIES] = {[CATEGORY_OPTIMIZER] = {folder, bytes}};
    if (storage_open(&stream->storage, ranges, &how, &err) ||
        storage_use(stream->storage, CATEGORY_OPTIMIZER, NULL, &err) ||
        storage_reserve(stream->storage, CATEGORY_OPTIMIZER, 0, bytes, &err))
        stop(err.text);
    for (int b = 0; b < BUFFERS; b++) {
        stream->buffer[b] = aligned_alloc(HUGE_BYTES, SUB_GROUP_BYTES);
        if (!stream->buffer[b]) stop("no memory");
        madvise(stream->buffer[b], SUB_GROUP_BYTES, MADV_HUGEPAGE); /* as staging has them */
        memset(stream->buffer[b], b + 1, SUB_GROUP_BYTES);
    }
    for (int k = 0; k < SUB_GROUPS; k++) { /* written once, so that later writes find their blocks as fio's do */
        struct aio_span span = storage_span(stream->storage, CATEGORY_OPTIMIZER, (uint64_t)k * SUB_GROUP_BYTES,
                                            stream->buffer[0], SUB_GROUP_BYTES);
        if (storage_move(stream->storage, AIO_WRITE, &span, 1, &err)) stop(err.text);
    }
}

/* ---- fio ---- */

/* Bytes per second, both directions together; -1: there is no fio. */
static double fio(const char *folder)
{
    enum { FIELD_READ_KIB = 7, FIELD_WRITE_KIB = 48 };
    char command[1024], line[8192], *rest = line;
    double kib = 0;
    snprintf(
        command, sizeof command,
        "fio --name=zerolab --directory='%s' --ioengine=libaio --direct=1 --rw=rw --rwmixread=50 --bs=%d --iodepth=%d "
        "--size=%ld --time_based --runtime=%g --output-format=terse --terse-version=3 2>/dev/null",
        folder, BLOCK_BYTES, 2 * DEPTH, (long)SUB_GROUPS * SUB_GROUP_BYTES, seconds_each);
    FILE *pipe = popen(command, "r");
    if (!pipe) return -1;
    char *read = fgets(line, sizeof line, pipe);
    if (pclose(pipe) || !read) return -1;
    for (int field = 1; rest; field++) {
        char *value = strsep(&rest, ";");
        if (field == FIELD_READ_KIB || field == FIELD_WRITE_KIB) kib += atof(value);
    }
    return kib * 1024;
}

static void remove_fio_file(const char *folder)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/zerolab.0.0", folder);
    unlink(path);
}

/* ---- both ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static int compare(struct stream *stream, const char *folder)
{
    double own[ROUNDS], theirs[ROUNDS], ratio[ROUNDS];
    bool have_fio = fio(folder) > 0; /* lays out its file, too */
    ours(stream);
    for (int i = 0; i < ROUNDS; i++) {
        own[i] = ours(stream);
        theirs[i] = have_fio ? fio(folder) : 1;
        ratio[i] = own[i] / theirs[i];
    }
    remove_fio_file(folder);
    printf("reading k+1 while writing k-1, %d MiB sub-groups, %d KiB blocks, %d in flight each way, median of %d\n",
           SUB_GROUP_BYTES >> 20, BLOCK_BYTES >> 10, DEPTH, ROUNDS);
    printf("ours %5.2f GB/s", 1e-9 * median(own));
    if (!have_fio) return puts("  (fio is not installed: nothing to compare with)"), 0;
    double share = median(ratio);
    printf("  fio %5.2f GB/s  %.0f %%  (target %.0f %%: %s)\n", 1e-9 * median(theirs), 100 * share, 100 * goal,
           share >= goal ? "met" : "missed");
    return 0;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    struct stream stream;
    open_stream(&stream, folder);
    int status = compare(&stream, folder);
    for (int b = 0; b < BUFFERS; b++) free(stream.buffer[b]);
    storage_close(stream.storage);
    return status;
}
