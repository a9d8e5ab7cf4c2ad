#include "engine/simulate/hardware.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"
#include "engine/base/order.h"
#include "engine/memory/disk.h"
#include "kernels/kernels.h"

/* Rows of a micro-batch, and widths: those of nano, micro and gpt2. */
enum { ROWS = 256, WIDTHS = 3, WIDEST = 768, ROUNDS = 9, ARRAY_ELEMS = 4 << 20, PINGS = 400, BETWEEN_ELEMS = ROWS * 4 * WIDEST };
static const int widths[WIDTHS] = {128, 384, WIDEST};
static const uint64_t round_ns = 20000000;

struct bench {
    struct kernels *kernels;
    float *array[4]; /* of ARRAY_ELEMS, which any type needs at most */
    struct error *err;
    int width;
    enum dtype dtype;
};

typedef int measured_work(struct bench *bench);

/* The least time of a call in ns, over rounds of at least round_ns; NAN: it failed. Processor time of this thread, because
 * others may use the machine meanwhile. */
static double least_ns(struct bench *bench, measured_work *work)
{
    double least = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t since_ns = clock_worked_ns();
        uint64_t took_ns;
        int calls = 0;
        do {
            if (work(bench)) return NAN;
            calls++;
        } while ((took_ns = clock_worked_ns() - since_ns) < round_ns);
        if (round) least = fmin(least, (double)took_ns / calls); /* the first warms up */
    }
    return least;
}

/* ---- kernels ---- */

static int product(struct bench *bench)
{
    return kernels_linear_forward(bench->kernels, bench->dtype, bench->array[0], bench->array[1], bench->array[2], NULL,
                                  NULL, ROWS, 4 * bench->width, bench->width, bench->err);
}

/* A norm and a GELU, forward and backward: what runs between products. */
static int elementwise(struct bench *bench)
{
    enum { C = 4 * WIDEST };
    float *y = bench->array[0], *x = bench->array[1], *w = bench->array[2], *mean = bench->array[3], *rstd = mean + ROWS, *dw = rstd + ROWS;
    kernels_norm_forward(bench->kernels, bench->dtype, y, mean, rstd, x, w, w + C, ROWS, C);
    kernels_gelu_forward(bench->kernels, bench->dtype, y, x, BETWEEN_ELEMS);
    kernels_gelu_backward(bench->kernels, bench->dtype, y, y, x, BETWEEN_ELEMS);
    kernels_norm_backward_both(bench->kernels, bench->dtype, y, false, dw, dw + C, NULL, false, y, x, mean, rstd, w, ROWS, C);
    return STATUS_OK;
}

static int update(struct bench *bench)
{
    const struct update_factors factors = {.gradient = 1,
                                           .keep = 1,
                                           .beta1 = 0.9f,
                                           .share1 = 0.1f,
                                           .beta2 = 0.99f,
                                           .share2 = 0.01f,
                                           .step_size = 1e-4f,
                                           .second_moment = 1,
                                           .epsilon = 1e-8f};
    const struct update_arrays arrays = {
        bench->array[0], bench->array[1], {bench->array[2], bench->array[3]}, bench->array[1]};
    kernels_update(bench->kernels, OPTIMIZER_ADAM, &factors, DTYPE_F32, DTYPE_F32, &arrays, ARRAY_ELEMS);
    return STATUS_OK;
}

static int copy(struct bench *bench)
{
    memcpy(bench->array[0], bench->array[1], ARRAY_ELEMS * sizeof *bench->array[0]);
    return STATUS_OK;
}

static int reduce(struct bench *bench)
{
    const void *const sources[] = {bench->array[1], bench->array[2]};
    kernels_reduce(DTYPE_F32, DTYPE_F32, bench->array[0], sources, 2, &(struct reduce_factors){1, 0.5f}, ARRAY_ELEMS,
                   false);
    return STATUS_OK;
}

/* FLOP/s at the best width, and the share of it at the middle one. */
static int measure_products(struct bench *bench, struct hardware *hardware)
{
    uint64_t *const figures[] = {&hardware->flops_fp32, &hardware->flops_bf16, &hardware->flops_fp16};
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    double share = 0;
    for (int t = 0; t < 3; t++) {
        double rate[WIDTHS], best = 0;
        bench->dtype = types[t];
        for (int w = 0; w < WIDTHS; w++) {
            bench->width = widths[w];
            rate[w] = 2.0 * ROWS * 4 * widths[w] * widths[w] * 1e9 / least_ns(bench, product);
            if (isnan(rate[w])) return bench->err->status;
            best = fmax(best, rate[w]);
        }
        *figures[t] = (uint64_t)best;
        share += rate[1] / best / 3;
    }
    hardware->product_efficiency = (uint64_t)(1000 * share);
    return STATUS_OK;
}

/* Forward each reads and writes an array, backward it reads two and writes one. */
static uint64_t between_rate(struct bench *bench, enum dtype dtype)
{
    bench->dtype = dtype;
    return (uint64_t)(10.0 * BETWEEN_ELEMS * (double)dtype_bytes(dtype) * 1e9 / least_ns(bench, elementwise));
}

static void measure_memory(struct bench *bench, struct hardware *hardware)
{
    const double array_bytes = (double)ARRAY_ELEMS * sizeof *bench->array[0];
    const double copied_ns = least_ns(bench, copy), reduced_ns = least_ns(bench, reduce);
    hardware->kernel_rate = between_rate(bench, DTYPE_F32);
    hardware->kernel_half_rate = between_rate(bench, DTYPE_BF16);
    hardware->memory_rate = hardware->host_rate =
        (uint64_t)(7 * array_bytes * 1e9 / least_ns(bench, update)); /* as tile_bytes() counts in fp32 */
    hardware->pcie_rate = (uint64_t)(array_bytes * 1e9 / copied_ns);
    hardware->intra_rate =
        (uint64_t)(2 * array_bytes * 1e9 / (copied_ns + reduced_ns)); /* gathers copy, reductions add */
}

/* ---- waking another thread, which a lane does at the end of an operation, and a rank in a collective ---- */

struct ball {
    _Atomic uint32_t turn;
    uint64_t seen_ns; /* when it was answered; read after the answer */
};

static void wait_for(struct ball *ball, uint32_t turn)
{
    for (uint32_t seen; (seen = atomic_load(&ball->turn)) != turn;) futex_wait(&ball->turn, seen, 0);
}

static void throw(struct ball *ball, uint32_t turn)
{
    atomic_store(&ball->turn, turn);
    futex_wake_all(&ball->turn);
}

static void *answer(void *argument)
{
    struct ball *ball = argument;
    for (uint32_t turn = 1; turn < 2 * PINGS; turn += 2) {
        wait_for(ball, turn);
        ball->seen_ns = clock_ns();
        throw(ball, turn + 1);
    }
    return NULL;
}

/* Half of the shortest way there and back, which is what an operation costs. And how long one takes to wake that has slept, as a lane does
 * for the time of an operation: the first tenth, because others may use the machine meanwhile. */
static int measure_wake(struct hardware *hardware, struct error *err)
{
    const uint64_t sleep_ns = 300000;
    struct ball ball = {0};
    pthread_t thread;
    uint64_t least = UINT64_MAX, woken_ns[PINGS];
    if (pthread_create(&thread, NULL, answer, &ball)) return error_set(err, STATUS_RUN, "cannot start a thread");
    for (int p = 0; p < PINGS; p++) {
        for (const uint64_t until_ns = clock_ns() + (p % 2 ? sleep_ns : 0); clock_ns() < until_ns;) { }
        const uint64_t since_ns = clock_ns();
        throw(&ball, 2 * (uint32_t)p + 1);
        wait_for(&ball, 2 * (uint32_t)p + 2);
        const uint64_t took_ns = clock_ns() - since_ns;
        if (took_ns < least) least = took_ns;
        woken_ns[p / 2] = ball.seen_ns - since_ns; /* that of the sleeper stays */
    }
    qsort(woken_ns, PINGS / 2, sizeof *woken_ns, ascending_u64);
    hardware->op_ns = least / 2;
    hardware->call_ns = 2 * hardware->op_ns; /* one barrier before, one after */
    hardware->wake_ns = woken_ns[PINGS / 20];
    return pthread_join(thread, NULL), STATUS_OK;
}

/* As zerolab doctor --storage does. */
static int measure_disk(struct hardware *hardware, const char *folder, struct error *err)
{
    static const struct aio_options how = {
        .block_bytes = 1 << 20, .queue_depth = 8, .threads = 1, .overlap_events = true};
    struct disk disk;
    int status = disk_open(&disk, folder, &how, 1u << 30, 2, err);
    if (status) return status;
    for (int way = 0; way < AIO_DIRECTIONS && !status; way++) {
        struct disk_job job = {.name = "sequential", .block_bytes = how.block_bytes};
        struct disk_rate rate;
        job.direction[way] = true;
        status = disk_measure(&disk, &job, 1, &rate, err);
        if (!status)
            *(way == AIO_READ ? &hardware->nvme_read_rate : &hardware->nvme_write_rate) =
                (uint64_t)((double)rate.flow[way].bytes / rate.seconds);
    }
    disk_close(&disk);
    return status;
}

/* ---- all ---- */

static int measure(struct bench *bench, struct hardware *hardware, const char *disk, struct error *err)
{
    const size_t bytes = 4 * (size_t)ARRAY_ELEMS * sizeof(float);
    float *arrays = malloc(bytes);
    int status = arrays ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to calibrate");
    if (!status) memset(arrays, 0x3c, bytes); /* small numbers: pages that nobody wrote to would be one page of zeros */
    for (int a = 0; a < 4; a++) bench->array[a] = arrays + (size_t)a * ARRAY_ELEMS;
    snprintf(hardware->name, sizeof hardware->name, "CPU, %s", kernels_isa(bench->kernels));
    if (!status) status = measure_products(bench, hardware);
    if (!status) measure_memory(bench, hardware);
    if (!status) status = measure_wake(hardware, err);
    if (!status && disk) status = measure_disk(hardware, disk, err);
    free(arrays);
    return status;
}

int calibrate_machine(struct hardware *hardware, const char *disk, struct error *err)
{
    struct bench bench = {.err = err};
    *hardware = (struct hardware){.way = WAY_DIRECT, .memory_efficiency = 1000, .link_efficiency = 1000};
    hardware->node_devices = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    hardware->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int status = kernels_create(&bench.kernels, 1, NULL, err);
    if (status) return status;
    status = measure(&bench, hardware, disk, err);
    kernels_free(bench.kernels);
    return status;
}
