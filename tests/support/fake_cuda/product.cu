/* Products of the fake device: one thread for each element, in fp32, from the first term to the last. In place of
 * kernels/cuda/product_cublaslt.cu. */
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.cuh"

#include <stdio.h>
#include <stdlib.h>

struct products {
    struct device_stream *stream;
};

template <class T> __global__ void product_element(struct product p, struct product_data data)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, m = i / p.N, n = i % p.N;
    const T *a = (const T *)data.a, *b = (const T *)data.b;
    const int64_t a_row = product_a_row(&p), at = m * product_c_row(&p) + n; /* of c */
    if (i >= p.M * p.N) return;
    float sum = 0;
    for (int64_t k = 0; k < p.K; k++)
        sum += to_float(p.transpose_a ? a[k * a_row + m] : a[m * a_row + k]) *
               to_float(p.transpose_b ? b[n * p.K + k] : b[k * p.N + n]);
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

int cuda_products_run(struct products *products, const struct product *product, const struct product_data *data,
                      struct error *err)
{
    struct device_stream *stream = products->stream;
    with_type(product->dtype, [&](auto element) {
        using T = decltype(element);
        launch(stream, "product", product_element<T>, blocks_for(product->M * product->N, 256), 256, 0, *product,
               *data);
    });
    if (stream->failure.status && err) *err = stream->failure;
    return stream->failure.status;
}

/* As cuBLASLt: not in fp32, nor where arrays are off alignment. So both ways are tested. */
bool cuda_products_can(struct products *products, const struct product *product, const struct product_data *data)
{
    (void)products;
    return product->dtype != DTYPE_F32 && aligned(data->a, data->b, data->c, data->bias, data->fc);
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
    free(products);
}

void cuda_products_library(char *text, size_t room)
{
    snprintf(text, room, "plain products of the fake device");
}
