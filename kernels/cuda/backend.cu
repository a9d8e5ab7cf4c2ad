/* The GPU backend of kernels.h: the table of functions, and the matrix products. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/wgmma.cuh"

#include <stdio.h>
#include <stdlib.h>

void device_build_text(char *text, size_t room)
{
    char library[64];
    cuda_products_library(library, sizeof library);
    snprintf(text, room, "CUDA %d.%d, %s, %s", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, library,
             WGMMA_BUILT ? "wgmma" : "no wgmma");
}

int cuda_linear_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w,
                        const void *bias, const void *residual, int64_t N, int64_t out, int64_t in, int64_t row,
                        struct error *err)
{
    const int64_t whole = cuda_whole_columns(dtype, out, row);
    struct product product = product_of(dtype, N, whole, in);
    product.transpose_b = true;
    product.bias = bias != NULL;
    product.accumulate = residual && residual == y;
    product.residual = residual && residual != y;
    product.c_row = row;
    const struct product_data data = {y, x, w, bias, residual, NULL};
    int status = cuda_products_run(cuda_of(kernels)->products, &product, &data, err);
    if (!status && whole < out)
        cuda_rest_forward(kernels, dtype, past(y, dtype, whole), x, past(w, dtype, whole * in), N, (int)(out - whole),
                          in, row);
    return status;
}

int cuda_linear_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, bool accumulate, const void *dy,
                               const void *w, int64_t N, int64_t out, int64_t in, int64_t row, struct error *err)
{
    const int64_t whole = cuda_whole_columns(dtype, out, row);
    if (whole < out)
        cuda_rest_backward_input(kernels, dtype, dx, past(dy, dtype, whole), past(w, dtype, whole * in), N,
                                 (int)(out - whole), in, row);
    struct product product = product_of(dtype, N, in, whole);
    product.accumulate = accumulate || whole < out;
    product.a_row = row;
    const struct product_data data = {dx, dy, w, NULL, NULL, NULL};
    return cuda_products_run(cuda_of(kernels)->products, &product, &data, err);
}

int cuda_linear_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                                const void *x, int64_t N, int64_t out, int64_t in, int64_t row, struct error *err)
{
    const int64_t whole = cuda_whole_columns(dtype, out, row);
    if (whole < out)
        cuda_rest_backward_weight(kernels, dtype, past(dw, dtype, whole * in), accumulate, past(dy, dtype, whole), x, N,
                                  (int)(out - whole), in, row);
    struct product product = product_of(dtype, whole, in, N);
    product.transpose_a = true;
    product.accumulate = accumulate;
    product.a_row = row;
    const struct product_data data = {dw, dy, x, NULL, NULL, NULL};
    return cuda_products_run(cuda_of(kernels)->products, &product, &data, err);
}

/* Computes GELU within the product. False: it needs a kernel of its own. If the library, which said that it can, then refuses, it is
 * not asked again. */
static bool runs_fused(struct kernels *kernels, const struct product *product, const struct product_data *data)
{
    struct cuda *cuda = cuda_of(kernels);
    struct error why;
    if (cuda->splits_gelu || !cuda_products_can(cuda->products, product, data)) return false;
    if (cuda_products_run(cuda->products, product, data, &why) == STATUS_OK) return true;
    const cudaError_t state = cudaStreamQuery(cuda->stream->handle);
    cudaGetLastError();
    if (cuda->stream->failure.status || (state != cudaSuccess && state != cudaErrorNotReady))
        return false; /* the GPU has failed, and will say so */
    cuda->splits_gelu = true;
    cuda->gelu_refused = why;
    return false;
}

void kernels_cuda_fuse_gelu(struct kernels *kernels, bool wanted)
{
    cuda_of(kernels)->splits_gelu = !wanted;
}

bool kernels_cuda_gelu_refused(const struct kernels *kernels, struct error *why)
{
    *why = ((const struct cuda *)kernels)->gelu_refused;
    return why->status != STATUS_OK;
}

int cuda_linear_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, void *fc, const void *x, const void *w,
                             const void *bias, int64_t N, int64_t out, int64_t in, struct error *err)
{
    struct product product = product_of(dtype, N, out, in);
    product.transpose_b = true;
    product.bias = bias != NULL;
    product.gelu = GELU_FORWARD;
    const struct product_data data = {y, x, w, bias, NULL, fc};
    if (runs_fused(kernels, &product, &data)) return STATUS_OK;
    int status = cuda_linear_forward(kernels, dtype, fc, x, w, bias, NULL, N, out, in, out, err);
    if (!status) cuda_gelu_forward(kernels, dtype, y, fc, N * out);
    return status;
}

int cuda_linear_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dfc, const void *dy, const void *w,
                              const void *fc, int64_t N, int64_t out, int64_t in, struct error *err)
{
    struct product product = product_of(dtype, N, in, out);
    product.gelu = GELU_BACKWARD;
    const struct product_data data = {dfc, dy, w, NULL, NULL, (void *)fc};
    if (runs_fused(kernels, &product, &data)) return STATUS_OK;
    int status = cuda_linear_backward_input(kernels, dtype, dfc, false, dy, w, N, out, in, out, err);
    if (!status) cuda_gelu_backward(kernels, dtype, dfc, dfc, fc, N * in);
    return status;
}

static bool cuda_native_products(const struct kernels *kernels, enum dtype dtype)
{
    (void)kernels, (void)dtype;
    return true;
}

static int cuda_check(struct kernels *kernels, struct error *err)
{
    const struct error *failure = &cuda_of(kernels)->stream->failure;
    if (failure->status && err) *err = *failure;
    return failure->status;
}

static void cuda_free(struct kernels *kernels)
{
    struct cuda *cuda = cuda_of(kernels);
    device_use(cuda->stream->device, NULL);
    cudaStreamSynchronize(cuda->stream->handle);
    cuda_products_free(cuda->products);
    if (cuda->partials) cudaFree(cuda->partials);
    if (cuda->sum) cudaFree(cuda->sum);
    free(cuda);
}

static const struct backend *cuda_backend(void)
{
    static const struct backend table = {
        cuda_free,
        cuda_native_products,
        cuda_check,
#define KERNEL(type, name, parameters, arguments) cuda_##name,
#include "kernels/kernels.def"
#undef KERNEL
    };
    return &table;
}

bool kernels_cuda_groups(struct kernels *kernels, bool wanted)
{
    if (kernels->backend != cuda_backend()) return false;
    struct cuda *cuda = cuda_of(kernels);
    const struct device_info *info = device_info(cuda->stream->device);
    return cuda->by_groups = wanted && WGMMA_BUILT && info->major == 9 && info->minor == 0;
}

static int memory_take(struct cuda *cuda, struct error *err)
{
    cudaError_t error = cudaMalloc(&cuda->partials, PARTIALS_BYTES);
    if (error == cudaSuccess) error = cudaMalloc((void **)&cuda->sum, sizeof *cuda->sum);
    return cuda_result(err, "the kernels' own memory", error);
}

int kernels_create_cuda(struct kernels **out, struct device *device, struct device_stream *stream, struct error *err)
{
    struct cuda *cuda = (struct cuda *)calloc(1, sizeof *cuda);
    if (!cuda) return error_set(err, STATUS_RUN, "no memory for the kernels");
    cuda->base.backend = cuda_backend();
    cuda->base.threads = 1;
    cuda->base.isa = "cuda";
    cuda->stream = stream;
    kernels_cuda_groups(&cuda->base, true);
    int status = device_use(device, err);
    if (!status) status = memory_take(cuda, err);
    if (!status) status = cuda_products_create(&cuda->products, stream, err);
    if (status) {
        cuda_free(&cuda->base);
        return status;
    }
    *out = &cuda->base;
    return STATUS_OK;
}
