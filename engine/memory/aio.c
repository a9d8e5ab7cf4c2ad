/* Keeps blocks in flight. Each worker has an io_context and a slot for every block that it may have in flight. A cursor over the
 * spans, under the lock, gives each worker its next block. After the first error it gives none, and every worker waits for its
 * blocks in flight, because the system may still write to that memory. */
#include "engine/memory/aio.h"

#include <errno.h>
#include <libaio.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* A block in flight. If only a part of it has moved, the rest is submitted again. */
struct slot {
    struct iocb request; /* must be first: an event has the request's address */
    int fd;
    unsigned char *memory;
    uint64_t offset, bytes, submitted_ns;
};

struct worker {
    struct aio *aio;
    io_context_t context;
    pthread_t thread;
    struct slot *slots;
    struct slot **idle;  /* a stack */
    struct iocb **ready; /* to be submitted, in this order */
    struct io_event *events;
    int idle_count, ready_count, flying;
};

struct aio {
    int worker_count, started; /* started: threads, without the caller's */
    struct aio_options options;
    struct worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signaled when a batch begins or a worker has finished it */
    bool closing;
    uint64_t batch; /* number of the current batch */
    int working;    /* threads that have not finished the batch */
    enum aio_direction direction;
    const struct aio_span *spans;
    int span_count, span; /* the cursor: next block begins at `at` of spans[span] */
    uint64_t at;
    struct aio_failure failure;         /* the first failure of the batch, */
    uint64_t error_offset, error_bytes; /* and the block that failed */
    struct aio_fault fault;
    struct aio_flow flow, last; /* of all batches; of the current or last one, without in_flight */
};

/* ---- opening ---- */

static int refuse_context(int status, int depth, struct error *err)
{
    if (status == -EAGAIN)
        return error_set(err, STATUS_RUN,
                         "the system has no room for %d more asynchronous requests; raise it with "
                         "sysctl fs.aio-max-nr=1048576, or lower aio.queue_depth",
                         depth);
    return error_set(err, STATUS_RUN, "asynchronous I/O (libaio) does not work here: %s", strerror(-status));
}

static int open_worker(struct worker *worker, struct aio *aio, struct error *err)
{
    const int depth = aio->options.queue_depth;
    worker->aio = aio;
    worker->slots = calloc((size_t)depth, sizeof *worker->slots);
    worker->idle = calloc((size_t)depth, sizeof *worker->idle);
    worker->ready = calloc((size_t)depth, sizeof *worker->ready);
    worker->events = calloc((size_t)depth, sizeof *worker->events);
    if (!worker->slots || !worker->idle || !worker->ready || !worker->events)
        return error_set(err, STATUS_RUN, "no memory for %d requests in flight", depth);
    while (worker->idle_count < depth) {
        worker->idle[worker->idle_count] = &worker->slots[worker->idle_count];
        worker->idle_count++;
    }
    int status = io_setup(depth, &worker->context);
    return status < 0 ? refuse_context(status, depth, err) : STATUS_OK;
}

static void *serve(void *argument);

static int start_threads(struct aio *aio, struct error *err)
{
    for (int w = 1; w < aio->worker_count; w++, aio->started++)
        if (pthread_create(&aio->workers[w].thread, NULL, serve, &aio->workers[w]))
            return error_set(err, STATUS_RUN, "cannot start a thread for I/O; lower aio.intra_op_parallelism");
    return STATUS_OK;
}

int aio_open(struct aio **out, const struct aio_options *options, struct error *err)
{
    struct aio *aio = *out = calloc(1, sizeof *aio);
    if (!aio) return error_set(err, STATUS_RUN, "no memory for I/O");
    aio->options = *options;
    aio->options.block_bytes = (options->block_bytes + AIO_ALIGN_BYTES - 1) / AIO_ALIGN_BYTES * AIO_ALIGN_BYTES;
    aio->worker_count = options->threads;
    pthread_mutex_init(&aio->lock, NULL);
    pthread_cond_init(&aio->changed, NULL);
    aio->workers = calloc((size_t)aio->worker_count, sizeof *aio->workers);
    int status = aio->workers ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for I/O");
    for (int w = 0; !status && w < aio->worker_count; w++) status = open_worker(&aio->workers[w], aio, err);
    if (!status) status = start_threads(aio, err);
    if (!status) return STATUS_OK;
    aio_close(aio);
    *out = NULL;
    return status;
}

static void stop_threads(struct aio *aio)
{
    pthread_mutex_lock(&aio->lock);
    aio->closing = true;
    pthread_cond_broadcast(&aio->changed);
    pthread_mutex_unlock(&aio->lock);
    for (int w = 1; w <= aio->started; w++) pthread_join(aio->workers[w].thread, NULL);
}

void aio_close(struct aio *aio)
{
    if (!aio) return;
    stop_threads(aio);
    for (int w = 0; aio->workers && w < aio->worker_count; w++) {
        struct worker *worker = &aio->workers[w];
        if (worker->context) io_destroy(worker->context);
        free(worker->slots);
        free(worker->idle);
        free(worker->ready);
        free(worker->events);
    }
    free(aio->workers);
    pthread_cond_destroy(&aio->changed);
    pthread_mutex_destroy(&aio->lock);
    free(aio);
}

/* ---- blocks ---- */

static void fail(struct aio *aio, int error_number, const struct slot *slot)
{
    pthread_mutex_lock(&aio->lock);
    if (!aio->failure.error_number) {
        aio->failure = (struct aio_failure){error_number, slot->fd};
        aio->error_offset = slot->offset;
        aio->error_bytes = slot->bytes;
    }
    pthread_mutex_unlock(&aio->lock);
}

/* Takes the next free block. False: there is none, or the batch has failed. */
static bool next_block(struct aio *aio, struct slot *slot)
{
    pthread_mutex_lock(&aio->lock);
    while (aio->span < aio->span_count && aio->at == aio->spans[aio->span].bytes) aio->span++, aio->at = 0;
    bool more = aio->span < aio->span_count && !aio->failure.error_number;
    if (more) {
        const struct aio_span *span = &aio->spans[aio->span];
        uint64_t left = span->bytes - aio->at, block = (uint64_t)aio->options.block_bytes;
        slot->fd = span->fd;
        slot->memory = (unsigned char *)span->memory + aio->at;
        slot->offset = span->offset + aio->at;
        slot->bytes = left < block ? left : block;
        aio->at += slot->bytes;
    }
    pthread_mutex_unlock(&aio->lock);
    return more;
}

static void make_ready(struct worker *worker, struct slot *slot)
{
    struct aio *aio = worker->aio;
    (aio->direction == AIO_READ ? io_prep_pread : io_prep_pwrite)(&slot->request, slot->fd, slot->memory, slot->bytes,
                                                                  (long long)slot->offset);
    worker->ready[worker->ready_count++] = &slot->request;
}

static void fill(struct worker *worker)
{
    while (worker->idle_count && next_block(worker->aio, worker->idle[worker->idle_count - 1]))
        make_ready(worker, worker->idle[--worker->idle_count]);
}

static void put_idle(struct worker *worker, struct slot *slot)
{
    worker->idle[worker->idle_count++] = slot;
}

static void count_arrival(struct aio_flow *flow, uint64_t moved, uint64_t took_ns)
{
    flow->bytes += moved;
    flow->blocks++;
    flow->latency_ns += took_ns;
    if (took_ns > flow->longest_ns) flow->longest_ns = took_ns;
}

/* Counts `more` blocks in flight, and that there were so many at once; returns how many there are. */
static uint32_t count_flying(struct aio *aio, int more, uint32_t at_once)
{
    pthread_mutex_lock(&aio->lock);
    const uint32_t now = aio->flow.in_flight += (uint32_t)more;
    if (at_once > aio->last.deepest) aio->last.deepest = at_once;
    if (at_once > aio->flow.deepest) aio->flow.deepest = at_once;
    pthread_mutex_unlock(&aio->lock);
    return now;
}

/* Submits the first `count` ready blocks; returns how many the system took, or -errno. Blocks count as in flight, and their
 * latency begins, before the call, because io_submit() itself may take long. */
static int hand_over(struct worker *worker, int count)
{
    const uint64_t now = clock_ns();
    for (int i = 0; i < count; i++) ((struct slot *)worker->ready[i])->submitted_ns = now;
    const uint32_t before = count_flying(worker->aio, count, 0) - (uint32_t)count;
    const int status = io_submit(worker->context, count, worker->ready), taken = status > 0 ? status : 0;
    count_flying(worker->aio, taken - count, before + (uint32_t)taken);
    return status;
}

static void forget_ready(struct worker *worker, int error_number)
{
    if (worker->ready_count) fail(worker->aio, error_number, (struct slot *)worker->ready[0]);
    while (worker->ready_count) put_idle(worker, (struct slot *)worker->ready[--worker->ready_count]);
}

/* Submits all ready blocks. If the system takes none now (EAGAIN), the caller tries again after a block has arrived. */
static void submit(struct worker *worker)
{
    while (worker->ready_count) {
        int taken = hand_over(worker, worker->aio->options.single_submit ? 1 : worker->ready_count);
        if (taken == -EINTR) continue;
        if (taken == -EAGAIN && worker->flying) return;
        if (taken <= 0) {
            forget_ready(worker, taken ? -taken : EIO);
            return;
        }
        worker->ready_count -= taken;
        worker->flying += taken;
        memmove(worker->ready, worker->ready + taken, (size_t)worker->ready_count * sizeof *worker->ready);
    }
}

/* The result of a request: `moved`, or the fault that a test has injected. */
static long injected(struct aio_fault *fault, long moved)
{
    const bool now = fault->block == 1;
    if (now && fault->more) fault->more--;
    else if (fault->block) fault->block--;
    if (now && fault->error_number) return -fault->error_number;
    return now && moved > AIO_ALIGN_BYTES ? moved / 2 / AIO_ALIGN_BYTES * AIO_ALIGN_BYTES : moved;
}

/* A short read that is not a number of whole pages has reached the end of the file. */
static bool met_end(const struct aio *aio, uint64_t moved)
{
    return aio->direction == AIO_READ && (moved == 0 || moved % AIO_ALIGN_BYTES);
}

static void arrive(struct worker *worker, struct slot *slot, long result)
{
    struct aio *aio = worker->aio;
    const uint64_t took_ns = clock_ns() - slot->submitted_ns;
    pthread_mutex_lock(&aio->lock);
    result = injected(&aio->fault, result);
    const uint64_t got = result > 0 ? (uint64_t)result : 0;
    const uint64_t moved = result >= 0 && got < slot->bytes && met_end(aio, got) ? slot->bytes : got;
    aio->flow.in_flight--;
    count_arrival(&aio->flow, moved, took_ns);
    count_arrival(&aio->last, moved, took_ns);
    pthread_mutex_unlock(&aio->lock);
    memset(slot->memory + got, 0, moved - got);
    if (result < 0) fail(aio, (int)-result, slot);
    else if (moved == 0) fail(aio, ENOSPC, slot); /* nothing was written, and no reason given */
    else if (moved < slot->bytes) {
        slot->memory += moved, slot->offset += moved, slot->bytes -= moved;
        make_ready(worker, slot);
        return;
    }
    put_idle(worker, slot);
}

static void await(struct worker *worker)
{
    const int least = worker->aio->options.overlap_events ? 1 : worker->flying;
    int arrived = io_getevents(worker->context, least, worker->flying, worker->events, NULL);
    if (arrived == -EINTR) return;
    if (arrived < 0) abort(); /* only a context that was never set up makes this fail */
    worker->flying -= arrived;
    for (int i = 0; i < arrived; i++) arrive(worker, (struct slot *)worker->events[i].obj, (long)worker->events[i].res);
}

static void pump(struct worker *worker)
{
    for (;;) {
        if (worker->aio->options.overlap_events || !worker->flying) fill(worker);
        submit(worker);
        if (worker->flying) await(worker);
        else if (!worker->ready_count) return;
    }
}

/* ---- batches ---- */

static void *serve(void *argument)
{
    struct worker *worker = argument;
    struct aio *aio = worker->aio;
    pthread_mutex_lock(&aio->lock);
    for (uint64_t done = 0;;) {
        while (!aio->closing && aio->batch == done) pthread_cond_wait(&aio->changed, &aio->lock);
        if (aio->closing) break;
        done = aio->batch;
        pthread_mutex_unlock(&aio->lock);
        pump(worker);
        pthread_mutex_lock(&aio->lock);
        aio->working--;
        pthread_cond_broadcast(&aio->changed);
    }
    pthread_mutex_unlock(&aio->lock);
    return NULL;
}

static void begin_batch(struct aio *aio, enum aio_direction direction, const struct aio_span *spans, int count)
{
    pthread_mutex_lock(&aio->lock);
    aio->direction = direction;
    aio->spans = spans;
    aio->span_count = count;
    aio->span = 0;
    aio->at = 0;
    aio->failure = (struct aio_failure){0, -1};
    aio->last = (struct aio_flow){0};
    aio->working = aio->started;
    aio->batch++;
    pthread_cond_broadcast(&aio->changed);
    pthread_mutex_unlock(&aio->lock);
}

static void end_batch(struct aio *aio, uint64_t begun_ns)
{
    pthread_mutex_lock(&aio->lock);
    while (aio->working) pthread_cond_wait(&aio->changed, &aio->lock);
    aio->last.busy_ns = clock_ns() - begun_ns;
    aio->flow.busy_ns += aio->last.busy_ns;
    pthread_mutex_unlock(&aio->lock);
}

int aio_move(struct aio *aio, enum aio_direction direction, const struct aio_span *spans, int count,
             struct aio_failure *failure, struct error *err)
{
    const uint64_t begun_ns = clock_ns();
    begin_batch(aio, direction, spans, count);
    pump(&aio->workers[0]);
    end_batch(aio, begun_ns);
    if (failure) *failure = aio->failure;
    if (!aio->failure.error_number) return STATUS_OK;
    return error_set(err, STATUS_RUN, "%s %llu bytes at %llu failed: %s", direction == AIO_READ ? "reading" : "writing",
                     (unsigned long long)aio->error_bytes, (unsigned long long)aio->error_offset,
                     strerror(aio->failure.error_number));
}

struct aio_flow aio_flow(struct aio *aio)
{
    pthread_mutex_lock(&aio->lock);
    const struct aio_flow flow = aio->flow;
    pthread_mutex_unlock(&aio->lock);
    return flow;
}

struct aio_flow aio_last_flow(const struct aio *aio)
{
    return aio->last;
}

void aio_restart_flow(struct aio *aio)
{
    aio->flow = (struct aio_flow){0};
}

void aio_inject(struct aio *aio, struct aio_fault fault)
{
    pthread_mutex_lock(&aio->lock);
    aio->fault = fault;
    pthread_mutex_unlock(&aio->lock);
}
