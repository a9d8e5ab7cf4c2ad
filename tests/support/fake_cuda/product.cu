/* Products of the fake device: one thread for each eight elements of a row, in fp32, from the first term to the last. In place of
 * kernels/cuda/product_cublaslt.cu. FAKE_REFUSES_GELU=1: GELU in a product is refused when it is to run for the first time. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.cuh"

#include <stdio.h>
#include <stdlib.h>

struct products {
    struct device_stream *stream;
    bool refused_gelu;
    void *code; /* memory that the first product takes, as of a library that loads its kernels then */
};

enum { WIDTH = 8, CODE_BYTES = 3 << 20, PROPOSALS = 2 }; /* two, of which both are the same */

/* Element (m, n) of c, of which the sum of products is there. */
template <class T>
__device__ void finish(const struct product &p, const struct product_data &data, int64_t m, int64_t n, float sum)
{
    const int64_t i = m * p.N + n, at = m * product_c_row(&p) + n; /* of c */
    if (p.bias) sum += to_float(((const T *)data.bias)[n]);
    if (p.residual) sum += to_float(((const T *)data.residual)[i]);
    if (p.accumulate) sum += to_float(((const T *)data.c)[at]);
    T *fc = (T *)data.fc;
    if (p.gelu == GELU_FORWARD) {
        from_float(fc + i, sum);
        sum *= gelu_gate(sum);
    }
    if (p.gelu == GELU_BACKWARD) sum *= gelu_slope(to_float(fc[i]));
    from_float((T *)data.c + at, sum);
}

template <class T> __global__ void product_elements(struct product p, struct product_data data)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, across = (p.N + WIDTH - 1) / WIDTH;
    const int64_t m = i / across, n = i % across * WIDTH, a_row = product_a_row(&p);
    const T *a = (const T *)data.a + (p.transpose_a ? m : m * a_row), *b = (const T *)data.b;
    const int64_t a_next = p.transpose_a ? a_row : 1; /* from term to term */
    const int64_t b_next = p.transpose_b ? 1 : p.N, b_column = p.transpose_b ? p.K : 1;
    float sums[WIDTH] = {};
    if (m >= p.M) return;
    const int width = p.N - n < WIDTH ? (int)(p.N - n) : WIDTH;
    for (int64_t k = 0; k < p.K; k++) {
        const float x = to_float(a[k * a_next]);
        const T *row = b + k * b_next + n * b_column;
        if (width == WIDTH && b_column == 1)
            for (int j = 0; j < WIDTH; j++) sums[j] += x * to_float(row[j]);
        else if (width == WIDTH)
            for (int j = 0; j < WIDTH; j++) sums[j] += x * to_float(row[j * b_column]);
        else
            for (int j = 0; j < width; j++) sums[j] += x * to_float(row[j * b_column]);
    }
    for (int j = 0; j < width; j++) finish<T>(p, data, m, n + j, sums[j]);
}

int cuda_products_run(struct products *products, const struct product *product, const struct product_data *data,
                      struct error *err)
{
    struct device_stream *stream = products->stream;
    if (product->proposal >= PROPOSALS) return error_set(err, STATUS_RUN, "there are only %d proposals", PROPOSALS);
    if (!products->code) cudaMalloc(&products->code, CODE_BYTES);
    if (product->gelu != GELU_NONE && getenv("FAKE_REFUSES_GELU") && !products->refused_gelu) {
        products->refused_gelu = true;
        return error_set(err, STATUS_RUN, "the library has no GELU after all");
    }
    with_type(product->dtype, [&](auto element) {
        using T = decltype(element);
        const int64_t threads = product->M * ((product->N + WIDTH - 1) / WIDTH);
        launch(stream, "product", product_elements<T>, blocks_for(threads, 256), 256, 0, *product, *data);
    });
    if (stream->failure.status && err) *err = stream->failure;
    return stream->failure.status;
}

/* As cuBLASLt: not in fp32, nor where arrays are off alignment. So both ways are tested. */
bool cuda_products_can(struct products *products, const struct product *product, const struct product_data *data)
{
    (void)products;
    return product->proposal < PROPOSALS && product->dtype != DTYPE_F32 && aligned(data->a, data->b, data->c, data->bias, data->fc);
}

int cuda_products_create(struct products **out, struct device_stream *stream, struct error *err)
{
    *out = (struct products *)calloc(1, sizeof **out);
    if (!*out) return error_set(err, STATUS_RUN, "no memory for the matrix products");
    (*out)->stream = stream;
    return STATUS_OK;
}

void cuda_products_free(struct products *products)
{
    if (products) cudaFree(products->code);
    free(products);
}

void cuda_products_library(char *text, size_t room)
{
    snprintf(text, room, "plain products of the fake device");
}
