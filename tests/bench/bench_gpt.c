/* How fast one rank trains, without ZeRO: forward, backward, gradient norm, AdamW of GPT-2 124M. Steps take turns with a
 * loop of nothing but their matrix products and AdamW over the same memory: what the rest costs is the ratio of the two.
 *
 *     bench_gpt [-m MODEL] [-b BATCH] [-t TOKENS] [-n THREADS] [-s STEPS] [-i ISA] [-l LLMC] [-c]
 *
 * LLMC is a folder with a built train_gpt2 of llm.c and the files it reads; it is run first (B=4, T=64 is fixed there) and
 * its median step is compared with ours. -c counts processor time instead of time. */
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "tests/support/gpt_fixture.h"

enum { STEPS_MAX = 200, PARTS = 4 };

static const char *const part_names[PARTS] = {"forward", "backward", "norm", "adamw"};

struct options {
    const char *model, *isa, *llmc;
    int B, T, threads, steps;
};

struct bench {
    struct fixture f;
    struct guarded master[FIXTURE_UNITS_MAX], m[FIXTURE_UNITS_MAX], v[FIXTURE_UNITS_MAX];
    int32_t *tokens, *targets;
    int64_t step;
};

static bool count_cpu;

/* Processor time says what work costs on a machine that others use too; with one thread only, as waiting threads spin. */
static double seconds_now(void)
{
    struct timespec cpu;
    if (!count_cpu) return 1e-9 * (double)clock_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *values, int count)
{
    double sorted[STEPS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return sorted[count / 2];
}

static void bench_open(struct bench *bench, const struct options *options, enum dtype dtype)
{
    *bench = (struct bench){0};
    const struct config_model *shape = config_model_named(options->model);
    fixture_open(&bench->f, shape, dtype, options->B, options->T, options->threads, options->isa);
    for (int u = 0; u < bench->f.model.unit_count; u++) {
        const int64_t elems = bench->f.model.units[u].elems;
        bench->m[u] = guarded_new(elems * 4);
        bench->v[u] = guarded_new(elems * 4);
        bench->master[u] = dtype == DTYPE_F32 ? bench->f.parameters[u] : guarded_new(elems * 4);
        gpt_initial_values(&bench->f.model, u, 1, 0, elems, (float *)bench->master[u].at);
        if (dtype != DTYPE_F32)
            kernels_cast(bench->f.kernels, dtype, bench->f.parameters[u].at, DTYPE_F32, bench->master[u].at, elems);
    }
    const int N = options->B * options->T;
    bench->tokens = malloc((size_t)N * sizeof *bench->tokens);
    bench->targets = malloc((size_t)N * sizeof *bench->targets);
    for (int n = 0; n < N; n++) {
        bench->tokens[n] = (int32_t)(rng_u64(2, 0, (uint64_t)n) % (uint64_t)shape->vocabulary);
        bench->targets[n] = (int32_t)(rng_u64(2, 1, (uint64_t)n) % (uint64_t)shape->vocabulary);
    }
}

static void bench_close(struct bench *bench)
{
    for (int u = 0; u < FIXTURE_UNITS_MAX; u++) {
        if (bench->f.model.dtype != DTYPE_F32) free(bench->master[u].at);
        free(bench->m[u].at), free(bench->v[u].at);
    }
    free(bench->tokens), free(bench->targets);
    fixture_close(&bench->f);
}

static void update(struct bench *bench, float gradient_factor)
{
    static const struct config_optimizer adamw = {
        .rule = OPTIMIZER_ADAMW, .epsilon = 1e-8, .weight_decay = 0.1, .bias_correction = true};
    const struct optimizer_step step = {&adamw, {1e-4, 0.9, 0.999}, gradient_factor, bench->step};
    for (int u = 0; u < bench->f.model.unit_count; u++) {
        const struct update_arrays arrays = {bench->f.gradients[u].at,
                                             (float *)bench->master[u].at,
                                             {(float *)bench->m[u].at, (float *)bench->v[u].at},
                                             bench->f.parameters[u].at};
        optimizer_update(bench->f.kernels, &bench->f.model, u, 0, bench->f.model.units[u].elems, &step,
                         bench->f.model.dtype, &arrays);
    }
}

/* One training step; returns its loss, and the seconds of each part. */
static float train_step(struct bench *bench, double seconds[PARTS])
{
    struct fixture *f = &bench->f;
    double at[PARTS + 1], squares = 0;
    bench->step++;
    at[0] = seconds_now();
    const float loss = fixture_forward(f, bench->tokens, bench->targets, 1);
    at[1] = seconds_now();
    fixture_backward(f, bench->tokens, false);
    at[2] = seconds_now();
    for (int u = 0; u < f->model.unit_count; u++)
        squares += kernels_sum_squares(f->kernels, f->model.dtype, f->gradients[u].at, f->model.units[u].elems);
    const double norm = sqrt(squares);
    at[3] = seconds_now();
    update(bench, norm > 1 ? (float)(1 / norm) : 1);
    at[4] = seconds_now();
    for (int p = 0; p < PARTS; p++) seconds[p] = at[p + 1] - at[p];
    return loss;
}

/* The three products of a linear layer, forward and backward. */
static void linear_products(struct fixture *f, const void *w, void *dw, void *x, void *y, int64_t out, int64_t in)
{
    const int64_t N = (int64_t)f->gpt.B * f->gpt.T;
    const enum dtype dtype = f->model.dtype;
    if (kernels_linear_forward(f->kernels, dtype, y, x, w, NULL, NULL, N, out, in, out, NULL) ||
        kernels_linear_backward_weight(f->kernels, dtype, dw, false, y, x, N, out, in, out, NULL) ||
        kernels_linear_backward_input(f->kernels, dtype, x, false, y, w, N, out, in, out, NULL))
        abort();
}

static double products_step(struct bench *bench, double *update_seconds)
{
    static const struct {
        enum tensor_id weight;
        enum saved_buffer from, to;
        int x, y;
    } linears[] = {{TENSOR_QKV_W, SAVED_ATTENTION, SAVED_ATTENTION, ATTENTION_LN1, ATTENTION_QKV},
                   {TENSOR_ATTPROJ_W, SAVED_ATTENTION, SAVED_MLP, ATTENTION_ATT, MLP_MID},
                   {TENSOR_FC_W, SAVED_MLP, SAVED_MLP, MLP_LN2, MLP_FC},
                   {TENSOR_FCPROJ_W, SAVED_MLP, SAVED_MLP, MLP_GELU, MLP_LN2}};
    struct fixture *f = &bench->f;
    const double start = seconds_now();
    for (int l = 1; l <= f->model.shape.layers; l++)
        for (int i = 0; i < 4; i++) {
            const enum tensor_id id = linears[i].weight;
            const struct tensor *tensor = &f->model.units[l].tensors[id - TENSOR_FC_W];
            linear_products(f, f->weights[l].at[id], f->gradient[l].at[id],
                            fixture_slot(f, l, linears[i].from, linears[i].x),
                            fixture_slot(f, l, linears[i].to, linears[i].y), tensor->rows, tensor->columns);
        }
    linear_products(f, f->weights[0].at[TENSOR_WTE], f->gradient[0].at[TENSOR_WTE],
                    f->outputs[f->model.shape.layers + 1].at,
                    fixture_slot(f, f->model.shape.layers + 2, SAVED_HEAD, HEAD_LOGITS), f->model.shape.vocabulary,
                    f->model.shape.hidden);
    const double products = seconds_now();
    update(bench, 0);
    const double end = seconds_now();
    *update_seconds = end - products;
    return products - start;
}

/* Products run on whatever the last step left; large values would only slow them down, so activations start over. */
static double bench_dtype(const struct options *options, enum dtype dtype, double llmc_seconds)
{
    struct bench *bench = malloc(sizeof *bench);
    double whole[STEPS_MAX], part[PARTS][STEPS_MAX], products[STEPS_MAX], updates[STEPS_MAX], bare[STEPS_MAX],
        seconds[PARTS], unused;
    float loss = 0;
    if (!bench) abort();
    bench_open(bench, options, dtype);
    train_step(bench, seconds);
    products_step(bench, &unused);
    for (int s = 0; s < options->steps; s++) {
        loss = train_step(bench, seconds);
        whole[s] = 0;
        for (int p = 0; p < PARTS; p++) part[p][s] = seconds[p], whole[s] += seconds[p];
        products[s] = products_step(bench, &updates[s]);
        bare[s] = products[s] + updates[s];
    }
    const double step = median(whole, options->steps), loop = median(bare, options->steps);
    const int64_t N = (int64_t)options->B * options->T;
    printf("%s %s, B=%d T=%d, %d threads, %s, products in %s: step %.1f ms, %.0f tokens/s, loss %.4f\n  ",
           options->model, dtype_name(dtype), options->B, options->T, options->threads, kernels_isa(bench->f.kernels),
           dtype_name(kernels_native_products(bench->f.kernels, dtype) ? dtype : DTYPE_F32), 1e3 * step,
           (double)N / step, (double)loss);
    for (int p = 0; p < PARTS; p++) printf("%s %.1f ms  ", part_names[p], 1e3 * median(part[p], options->steps));
    printf("\n  only products %.1f ms + AdamW %.1f ms = %.1f ms: ratio %.2f (wanted: 0.80)\n",
           1e3 * median(products, options->steps), 1e3 * median(updates, options->steps), 1e3 * loop, loop / step);
    if (llmc_seconds > 0)
        printf("  llm.c %.1f ms: %.1fx its tokens/s (wanted: %s)\n", 1e3 * llmc_seconds, llmc_seconds / step,
               dtype == DTYPE_F32 ? "3.5x, aim 4x" : "7x, aim 8x");
    bench_close(bench);
    free(bench);
    return step;
}

/* Median of the steps that llm.c's train_gpt2 reports ("step 3: train loss ... (took 5200.1 ms)"). */
static double run_llmc(const char *folder, int threads, int steps)
{
    char command[4400], line[512];
    double took[STEPS_MAX];
    int count = 0;
    snprintf(command, sizeof command, "cd '%s' && OMP_NUM_THREADS=%d ./train_gpt2 2>/dev/null", folder, threads);
    FILE *pipe = popen(command, "r");
    if (!pipe) return 0;
    while (count < steps + 1 && fgets(line, sizeof line, pipe)) {
        const char *at = strstr(line, "(took ");
        double ms;
        if (at && sscanf(at, "(took %lf ms)", &ms) == 1) took[count++] = ms * 1e-3;
    }
    pclose(pipe); /* it gets SIGPIPE when it prints on */
    return count > 1 ? median(took + 1, count - 1) : 0;
}

int main(int count, char **arguments)
{
    struct options options = {.model = "gpt2", .B = 4, .T = 64, .threads = 2, .steps = 10};
    for (int option; (option = getopt(count, arguments, "m:b:t:n:s:i:l:c")) != -1;) switch (option) {
        case 'm': options.model = optarg; break;
        case 'b': options.B = atoi(optarg); break;
        case 't': options.T = atoi(optarg); break;
        case 'n': options.threads = atoi(optarg); break;
        case 's': options.steps = atoi(optarg); break;
        case 'i': options.isa = optarg; break;
        case 'l': options.llmc = optarg; break;
        case 'c': count_cpu = true; break;
        default: return STATUS_USAGE;
        }
    if (!config_model_named(options.model) || options.B < 1 || options.T < 1 ||
        options.T > config_model_named(options.model)->context || options.threads < 1 || options.steps < 1 ||
        options.steps > STEPS_MAX) {
        fprintf(stderr, "bench_gpt: unknown model or a size out of range\n");
        return STATUS_USAGE;
    }
    const double llmc =
        options.llmc ? run_llmc(options.llmc, options.threads, options.steps < 5 ? options.steps : 5) : 0;
    bench_dtype(&options, DTYPE_F32, llmc);
    bench_dtype(&options, DTYPE_BF16, llmc);
    return STATUS_OK;
}
