/* What a step depends on besides its kernels: the driver's calls, in µs; and cuBLASLt's algorithms for each product of a step of gpt2,
 * of which the engine takes the first that the library proposes. With GELU in a product and beside it.
 *
 *     bench_cuda_probes [driver|products]          both
 *
 * Calls of the driver: a median, by the host's clock. Products: medians by events, on numbers (gpu_bench.h). */
#include "engine/base/clock.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/sensors.h"
#include "tests/support/gpu_bench.h"

/* ---- the driver -------------------------------------------------------------------------------------------------------- */

enum { CALLS = 101, EVENTS = 2 };

struct probe {
    struct gpu gpu;
    struct device_range range;
    struct device_event *events[EVENTS];
    struct sensors *sensors;
    uint64_t page; /* which the next call is about */
};

typedef void call_fn(struct probe *p);

static void commit_page(struct probe *p)
{
    struct error err;
    const uint64_t unit = device_info(p->gpu.device)->granularity;
    must(device_range_commit(&p->range, p->page * unit, (p->page + 1) * unit, &err), &err);
    p->page++;
}

static void return_page(struct probe *p)
{
    struct error err;
    const uint64_t unit = device_info(p->gpu.device)->granularity;
    p->page--;
    uint64_t first = p->page * unit, end = first + unit;
    must(device_range_return(&p->range, &first, &end, unit, &err), &err);
}

static void record_event(struct probe *p)
{
    struct error err;
    must(device_event_record(p->events[0], p->gpu.stream, &err), &err);
}

static void wait_for_event(struct probe *p)
{
    struct error err;
    record_event(p);
    must(device_event_wait(p->events[0], &err), &err);
}

static void await_event(struct probe *p)
{
    struct error err;
    must(device_stream_await(p->gpu.stream, p->events[1], &err), &err);
}

static void read_event(struct probe *p)
{
    struct error err;
    uint64_t ns;
    must(device_event_time(p->events[1], &ns, NULL, &err), &err);
}

static void send_kernel(struct probe *p)
{
    kernels_add(p->gpu.kernels, DTYPE_F32, p->range.base, true, DTYPE_F32, p->range.base, 8);
}

static void run_kernel(struct probe *p)
{
    send_kernel(p);
    wait_for_event(p);
}

static void read_sensors(struct probe *p)
{
    sensors_read(p->sensors);
}

static void print_call(struct probe *p, const char *name, call_fn *call)
{
    double us[CALLS];
    for (int i = 0; i < CALLS; i++) {
        const uint64_t begin_ns = clock_ns();
        call(p);
        us[i] = (double)(clock_ns() - begin_ns) * 1e-3;
    }
    gpu_wait(&p->gpu);
    const double first = us[0];
    qsort(us, CALLS, sizeof *us, bench_by_size);
    printf("  %-36s %9.1f us; the first %.1f, the longest %.1f\n", name, us[CALLS / 2], first, us[CALLS - 1]);
    fflush(stdout);
}

static void print_large(struct probe *p, uint64_t bytes)
{
    struct error err;
    const uint64_t pages = bytes / device_info(p->gpu.device)->granularity, begin_ns = clock_ns();
    must(device_range_commit(&p->range, 0, bytes, &err), &err);
    const uint64_t middle_ns = clock_ns();
    uint64_t first = 0, end = bytes;
    must(device_range_return(&p->range, &first, &end, bytes, &err), &err);
    const uint64_t end_ns = clock_ns();
    printf("  %5.0f MiB committed at once %17.1f us, %.2f a page; returned in %.1f us\n", (double)bytes / (1 << 20),
           (double)(middle_ns - begin_ns) * 1e-3, (double)(middle_ns - begin_ns) * 1e-3 / (double)pages,
           (double)(end_ns - middle_ns) * 1e-3);
}

static bool probe_driver(void)
{
    struct probe probe = {.page = 0}, *p = &probe;
    struct error err;
    if (!gpu_open(&p->gpu)) return false;
    const uint64_t unit = device_info(p->gpu.device)->granularity,
                   large = gpu_is_fake() ? CALLS * unit : (uint64_t)4 << 30;
    must(device_range_reserve(&p->range, p->gpu.device, large, &err), &err);
    p->sensors = sensors_open(p->gpu.device);
    printf("  calls of the driver, pages of %.0f KiB\n", (double)unit / 1024);
    print_call(p, "a page committed", commit_page);
    print_call(p, "... and returned", return_page);
    print_large(p, large / 4 / unit * unit);
    print_large(p, large);
    must(device_range_commit(&p->range, 0, unit, &err), &err);
    must(device_set(p->gpu.stream, p->range.base, 0, unit, &err), &err);
    for (int e = 0; e < EVENTS; e++) must(device_event_create(&p->events[e], p->gpu.device, &err), &err);
    must(device_event_record(p->events[1], p->gpu.stream, &err), &err);
    must(device_event_wait(p->events[1], &err), &err);
    print_call(p, "an event recorded", record_event);
    print_call(p, "... and waited for", wait_for_event);
    print_call(p, "a stream told to wait for one", await_event);
    print_call(p, "an event's time read", read_event);
    print_call(p, "a small kernel sent", send_kernel);
    print_call(p, "... and waited for", run_kernel);
    if (p->sensors) print_call(p, "sensors read (NVML)", read_sensors);
    else printf("  sensors: NVML is not here, or does not know this GPU\n");
    for (int e = 0; e < EVENTS; e++) device_event_destroy(p->events[e]);
    sensors_close(p->sensors);
    device_range_release(&p->range);
    gpu_close(&p->gpu);
    return true;
}

/* ---- products ---------------------------------------------------------------------------------------------------------- */

enum { WIDE, NARROW, WEIGHT, FC, BESIDE, AREAS }; /* BESIDE: a bias or what is added */
enum { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT };

struct sizes {
    int64_t N, C, V, row;
};

struct row {
    const char *name;
    int pass;
    int64_t out, in; /* of the layer */
    bool bias, residual, accumulate;
    enum product_gelu gelu;
    int64_t row; /* of its results, where they are padded */
};

static struct product product_for(const struct row *row, int64_t N, int proposal)
{
    struct product p = row->pass == FORWARD          ? product_of(DTYPE_BF16, N, row->out, row->in)
                       : row->pass == BACKWARD_INPUT ? product_of(DTYPE_BF16, N, row->in, row->out)
                                                     : product_of(DTYPE_BF16, row->out, row->in, N);
    p.transpose_b = row->pass == FORWARD;
    p.transpose_a = row->pass == BACKWARD_WEIGHT;
    p.bias = row->bias, p.residual = row->residual, p.accumulate = row->accumulate, p.gelu = row->gelu;
    *(row->pass == FORWARD ? &p.c_row : &p.a_row) = row->row;
    p.proposal = proposal;
    return p;
}

static struct product_data data_for(const struct row *row, const struct area *areas)
{
    static const int places[3][3] = {
        {WIDE, NARROW, WEIGHT}, {NARROW, WIDE, WEIGHT}, {WEIGHT, WIDE, NARROW}}; /* c, a, b */
    const int *at = places[row->pass];
    return (struct product_data){areas[at[0]].at,
                                 areas[at[1]].at,
                                 areas[at[2]].at,
                                 row->bias ? areas[BESIDE].at : NULL,
                                 row->residual ? areas[BESIDE].at : NULL,
                                 row->gelu ? areas[FC].at : NULL};
}

struct run {
    struct products *products;
    struct product product;
    struct product_data data;
    int status;
    struct error err;
};

static void run_product(void *user)
{
    struct run *run = user;
    if (!run->status) run->status = cuda_products_run(run->products, &run->product, &run->data, &run->err);
}

/* Returns the time of the first; 0: there is none. */
static double print_product(struct bench_gpu *bench, struct products *products, const struct row *row,
                            const struct area *areas, int64_t N)
{
    double seconds[PRODUCT_PROPOSALS], best = INFINITY;
    int count = 0, best_one = 0;
    struct run run = {products, product_for(row, N, 0), data_for(row, areas), STATUS_OK, {.text = "not fused here"}};
    areas_fill(bench, areas, AREAS);
    printf("  %-27s", row->name);
    for (; count < PRODUCT_PROPOSALS; count++) {
        run.product.proposal = count;
        if (row->gelu && !cuda_products_can(products, &run.product, &run.data)) break;
        seconds[count] = bench_seconds(bench, run_product, &run);
        if (run.status) break;
        if (seconds[count] < best) best = seconds[count], best_one = count;
        printf(" %6.3f", seconds[count] * 1e3);
        fflush(stdout);
    }
    if (count == 0) return printf(" none: %s\n", run.err.text), 0;
    const double operations = 2.0 * (double)run.product.M * (double)run.product.N * (double)run.product.K;
    printf(" ms; %.0f TFLOP/s, number %d %.2f times as fast%s\n", operations / seconds[0] * 1e-12, best_one + 1,
           seconds[0] / best, areas_are_finite(bench, areas, AREAS) ? "" : "  NOT FINITE");
    return seconds[0];
}

struct gelu {
    struct bench_gpu *bench;
    const struct area *areas;
    int64_t n;
    bool backward;
};

static void run_gelu(void *user)
{
    const struct gelu *g = user;
    struct kernels *kernels = g->bench->gpu.kernels;
    if (g->backward)
        kernels_gelu_backward(kernels, DTYPE_BF16, g->areas[WIDE].at, g->areas[WIDE].at, g->areas[FC].at, g->n);
    else kernels_gelu_forward(kernels, DTYPE_BF16, g->areas[WIDE].at, g->areas[FC].at, g->n);
}

static void print_gelu(struct bench_gpu *bench, const struct area *areas, int64_t n, bool backward, double fused,
                       double split)
{
    struct gelu gelu = {bench, areas, n, backward};
    areas_fill(bench, areas, AREAS);
    const double alone = bench_seconds(bench, run_gelu, &gelu);
    printf("  GELU %s: beside the product %.3f + %.3f = %.3f ms, in it ", backward ? "backward" : "forward",
           split * 1e3, alone * 1e3, (split + alone) * 1e3);
    if (fused > 0) printf("%.3f ms\n", fused * 1e3);
    else printf("not offered\n");
}

static bool probe_products(void)
{
    const struct sizes s = gpu_is_fake() ? (struct sizes){64, 64, 496, 512} : (struct sizes){65536, 768, 50256, 50304};
    const int64_t N = s.N, C = s.C;
    struct area areas[AREAS] = {{AREA_BF16, N * s.row * 2, NULL},
                                {AREA_BF16, N * 4 * C * 2, NULL},
                                {AREA_BF16, s.V * C * 2, NULL},
                                {AREA_BF16, N * 4 * C * 2, NULL},
                                {AREA_BF16, N * C * 2, NULL}};
    const struct row rows[] = {
        {"fc forward", FORWARD, 4 * C, C, true, false, false, GELU_NONE, 0},
        {"fc forward, GELU in it", FORWARD, 4 * C, C, true, false, false, GELU_FORWARD, 0},
        {"proj input", BACKWARD_INPUT, C, 4 * C, false, false, false, GELU_NONE, 0},
        {"proj input, GELU in it", BACKWARD_INPUT, C, 4 * C, false, false, false, GELU_BACKWARD, 0},
        {"qkv forward", FORWARD, 3 * C, C, true, false, false, GELU_NONE, 0},
        {"attention proj, residual", FORWARD, C, C, true, true, false, GELU_NONE, 0},
        {"proj forward, residual", FORWARD, C, 4 * C, true, true, false, GELU_NONE, 0},
        {"head forward", FORWARD, s.V, C, false, false, false, GELU_NONE, s.row},
        {"head input", BACKWARD_INPUT, s.V, C, false, false, true, GELU_NONE, s.row},
        {"head weight", BACKWARD_WEIGHT, s.V, C, false, false, false, GELU_NONE, s.row},
        {"proj weight", BACKWARD_WEIGHT, C, 4 * C, false, false, false, GELU_NONE, 0},
        {"fc input", BACKWARD_INPUT, 4 * C, C, false, false, false, GELU_NONE, 0},
        {"fc weight", BACKWARD_WEIGHT, 4 * C, C, false, false, false, GELU_NONE, 0},
        {"attention proj, input", BACKWARD_INPUT, C, C, false, false, false, GELU_NONE, 0},
        {"attention proj, weight", BACKWARD_WEIGHT, C, C, false, false, false, GELU_NONE, 0},
        {"qkv input", BACKWARD_INPUT, 3 * C, C, false, false, false, GELU_NONE, 0},
        {"qkv weight", BACKWARD_WEIGHT, 3 * C, C, false, false, false, GELU_NONE, 0},
    };
    struct bench_gpu bench;
    struct products *products;
    struct error err;
    double first[sizeof rows / sizeof *rows];
    if (!bench_open(&bench, areas, AREAS)) return false;
    must(cuda_products_create(&products, bench.gpu.stream, &err), &err);
    printf("  products of %lld rows, bf16: ms of each of the library's algorithms; the engine takes the first\n",
           (long long)N);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        first[r] = print_product(&bench, products, &rows[r], areas, N);
        if (r % 2 && r < 4) print_gelu(&bench, areas, N * 4 * C, r == 3, first[r], first[r - 1]);
    }
    cuda_products_free(products);
    bench_close(&bench);
    return true;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    if (strcmp(only, "products") && !probe_driver()) return 0;
    if (strcmp(only, "driver")) probe_products();
    return 0;
}
