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

/* Rows of a micro-batch; the widths of micro and gpt2. */
enum { ROWS = 256, WIDTH = 384, WIDEST = 768, ROUNDS = 9, ARRAY_ELEMS = 4 << 20, PINGS = 200, BETWEEN_ELEMS = ROWS * 4 * WIDEST };
static const uint64_t round_ns = 20000000;

struct bench {
    struct kernels *kernels;
    float *array[4]; /* of ARRAY_ELEMS, which any type needs at most */
    struct error *err;
    enum dtype dtype;
};

typedef int measured_work(struct bench *bench);

/* The time of a call in ns, over at least round_ns; NAN: it failed. Processor time of this thread, because others may use the
 * machine meanwhile. */
static double call_ns(struct bench *bench, measured_work *work)
{
    if (work(bench)) return NAN; /* fills the caches */
    const uint64_t since_ns = clock_worked_ns();
    uint64_t took_ns;
    int calls = 0;
    do {
        if (work(bench)) return NAN;
        calls++;
    } while ((took_ns = clock_worked_ns() - since_ns) < round_ns);
    return (double)took_ns / calls;
}

/* ---- kernels ---- */

/* The three products of a layer: forward, and backward to its input and its weight. */
static int products(struct bench *bench)
{
    enum { IN = WIDTH, OUT = 4 * WIDTH };
    float *y = bench->array[0], *dx = y + BETWEEN_ELEMS, *x = bench->array[1], *w = bench->array[2], *dw = bench->array[3];
    int status =
        kernels_linear_forward(bench->kernels, bench->dtype, y, x, w, NULL, NULL, ROWS, OUT, IN, OUT, bench->err);
    if (!status)
        status = kernels_linear_backward_input(bench->kernels, bench->dtype, dx, false, y, w, ROWS, OUT, IN, OUT,
                                               bench->err);
    if (!status)
        status = kernels_linear_backward_weight(bench->kernels, bench->dtype, dw, false, y, x, ROWS, OUT, IN, OUT,
                                                bench->err);
    return status;
}

/* Attention of a sequence of ROWS tokens, forward and backward. */
static int attention(struct bench *bench)
{
    enum { HEADS = WIDEST / 64 };
    const struct attention_shape shape = {1, ROWS, WIDEST, HEADS};
    float *qkv = bench->array[1], *out = bench->array[2], *dout = out + ROWS * WIDEST, *lse = dout + ROWS * WIDEST;
    kernels_attention_forward(bench->kernels, bench->dtype, out, lse, qkv, &shape, bench->array[3]);
    kernels_attention_backward(bench->kernels, bench->dtype, bench->array[0], dout, out, lse, qkv, &shape, bench->array[3]);
    return STATUS_OK;
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

/* The time of a call of each, in ns. */
struct times {
    double products[3], attention[3], between[2], update, copy, reduce;
};

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

static void measure_round(struct bench *bench, struct times *times)
{
    for (int t = 0; t < 3; t++) {
        bench->dtype = types[t];
        times->products[t] = call_ns(bench, products);
        times->attention[t] = call_ns(bench, attention);
        if (t < 2) times->between[t] = call_ns(bench, elementwise);
    }
    times->update = call_ns(bench, update);
    times->copy = call_ns(bench, copy);
    times->reduce = call_ns(bench, reduce);
}

/* Of each the median over rounds of all kernels in turns: a machine is slower at times, for longer than the rounds of one would take, and
 * steps are then, too. */
static int measure_kernels(struct bench *bench, struct times *times)
{
    struct times rounds[ROUNDS];
    for (int round = 0; round < ROUNDS && !bench->err->status; round++) measure_round(bench, &rounds[round]);
    for (size_t d = 0; d < sizeof *times / sizeof(double) && !bench->err->status; d++) {
        double of_rounds[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) of_rounds[round] = ((const double *)&rounds[round])[d];
        qsort(of_rounds, ROUNDS, sizeof *of_rounds, ascending_double);
        ((double *)times)[d] = of_rounds[ROUNDS / 2];
    }
    return bench->err->status;
}

/* FLOP/s of products of each type; the share of it that attention reaches, mean over types. Attention: see op_attention_flops(). */
static void rate_products(const struct times *times, struct hardware *hardware)
{
    uint64_t *const figures[] = {&hardware->flops_fp32, &hardware->flops_bf16, &hardware->flops_fp16};
    const double attention_flops = 7.0 * ROWS * (ROWS + 1) * WIDEST;
    double attention = 0;
    for (int t = 0; t < 3; t++) {
        const double rate = 6.0 * ROWS * 4 * WIDTH * WIDTH * 1e9 / times->products[t];
        *figures[t] = (uint64_t)rate;
        attention += attention_flops * 1e9 / times->attention[t] / rate / 3;
    }
    hardware->product_efficiency = 1000;
    hardware->attention_efficiency = (uint64_t)fmax(1, 1000 * attention);
}

static uint64_t per_second(double bytes, double took_ns)
{
    return (uint64_t)(bytes * 1e9 / took_ns);
}

/* Of the kernels between products, forward each reads and writes an array, backward it reads two and writes one. The update's bytes are
 * counted as tile_bytes() counts them in fp32. Gathers copy, reductions add. */
static void rate_memory(const struct times *times, struct hardware *hardware)
{
    const double array_bytes = (double)ARRAY_ELEMS * sizeof(float);
    hardware->kernel_rate = per_second(10.0 * BETWEEN_ELEMS * (double)dtype_bytes(types[0]), times->between[0]);
    hardware->kernel_half_rate = per_second(10.0 * BETWEEN_ELEMS * (double)dtype_bytes(types[1]), times->between[1]);
    hardware->memory_rate = hardware->host_rate = per_second(7 * array_bytes, times->update);
    hardware->pcie_rate = per_second(array_bytes, times->copy);
    hardware->intra_rate = per_second(2 * array_bytes, times->copy + times->reduce);
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

/* What it costs an operation to wake a lane that has slept for the time of an operation, and how long that lane takes to go on. A tenth
 * took less: others may use the machine meanwhile. */
static int measure_wake(struct hardware *hardware, struct error *err)
{
    const uint64_t sleep_ns = 300000;
    struct ball ball = {0};
    pthread_t thread;
    uint64_t thrown_ns[PINGS], woken_ns[PINGS];
    if (pthread_create(&thread, NULL, answer, &ball)) return error_set(err, STATUS_RUN, "cannot start a thread");
    for (int p = 0; p < PINGS; p++) {
        for (const uint64_t until_ns = clock_ns() + sleep_ns; clock_ns() < until_ns;) { }
        const uint64_t since_ns = clock_ns();
        throw(&ball, 2 * (uint32_t)p + 1);
        thrown_ns[p] = clock_ns() - since_ns;
        wait_for(&ball, 2 * (uint32_t)p + 2);
        woken_ns[p] = ball.seen_ns - since_ns;
    }
    qsort(thrown_ns, PINGS, sizeof *thrown_ns, ascending_u64);
    qsort(woken_ns, PINGS, sizeof *woken_ns, ascending_u64);
    hardware->op_ns = thrown_ns[PINGS / 10];
    hardware->wake_ns = woken_ns[PINGS / 10];
    hardware->call_ns = 2 * hardware->wake_ns; /* a barrier before, one after */
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
    struct times times;
    if (!status) status = measure_kernels(bench, &times);
    if (status) return free(arrays), status;
    rate_products(&times, hardware);
    rate_memory(&times, hardware);
    status = measure_wake(hardware, err);
    if (!status && disk) status = measure_disk(hardware, disk, err);
    free(arrays);
    return status;
}

int calibrate_machine(struct hardware *hardware, const char *disk, struct error *err)
{
    struct bench bench = {.err = err};
    *hardware = (struct hardware){.way = WAY_DIRECT, .memory_efficiency = 1000, .link_efficiency = 1000};
    hardware->node_devices = hardware->node_cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    hardware->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    int status = kernels_create(&bench.kernels, 1, NULL, err);
    if (status) return status;
    status = measure(&bench, hardware, disk, err);
    kernels_free(bench.kernels);
    return status;
}
