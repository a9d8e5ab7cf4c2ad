/* Products by cuBLASLt. The algorithm for a shape is the first that the library's heuristic names, asked for once and kept, so that
 * every run of a shape has the same bits; the workspace is of one size, because the choice depends on it.
 *
 * The library is opened when the first rank needs it and not linked: it is half a gigabyte, and a program that trains on the CPU
 * should start without it. cuBLASLt counts columns first, so it is asked for the transposed product: C^T = op(B)^T op(A)^T. */
#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.cuh"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDART_VERSION >= 13000
#define LIBRARY "libcublasLt.so.13"
#elif CUDART_VERSION >= 12000
#define LIBRARY "libcublasLt.so.12"
#else
#define LIBRARY "libcublasLt.so.11"
#endif
#ifndef CUDA_LIBRARIES
#define CUDA_LIBRARIES "/usr/local/cuda/lib64" /* where this build's toolkit has them */
#endif

#define LIBRARY_CALLS(X)                                                                                               \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)

struct library {
    void *handle;
#define X(name) decltype(&::name) name;
    LIBRARY_CALLS(X)
#undef X
};

enum { WORKSPACE_BYTES = 32 << 20, BUCKETS = 64 };

struct entry {
    struct product product;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    bool missing; /* the library has no way; kept, so that it is asked once */
    struct entry *next;
};

struct products {
    struct device_stream *stream;
    struct library library;
    cublasLtHandle_t handle;
    void *workspace;
    struct entry *buckets[BUCKETS];
};

void cuda_products_library(char *text, size_t room)
{
    snprintf(text, room, "cuBLASLt %d.%d.%d", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
}

static int library_open(struct library *library, struct error *err)
{
    const int how = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE; /* its kernels are in the context, which outlives us */
    library->handle = dlopen(LIBRARY, how);
    if (!library->handle) library->handle = dlopen(CUDA_LIBRARIES "/" LIBRARY, how);
    if (!library->handle)
        return error_set(
            err, STATUS_RUN,
            "%s cannot be opened, neither as it is nor in %s; is the CUDA toolkit's lib folder in LD_LIBRARY_PATH?",
            LIBRARY, CUDA_LIBRARIES);
#define X(name)                                                                                                        \
    library->name = (decltype(&::name))dlsym(library->handle, #name);                                                  \
    if (!library->name) return error_set(err, STATUS_RUN, "%s has no %s", LIBRARY, #name);
    LIBRARY_CALLS(X)
#undef X
    return STATUS_OK;
}

static int failed(const struct product *p, const char *what, cublasStatus_t status, struct error *err)
{
    return error_set(err, STATUS_RUN, "cuBLASLt cannot %s %s [%lld, %lld] x [%lld, %lld] (its status %d)", what,
                     dtype_name(p->dtype), (long long)p->M, (long long)p->K, (long long)p->K, (long long)p->N,
                     (int)status);
}

/* ---- one shape ----------------------------------------------------------------------------------------------------------- */

static cudaDataType_t type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct product *p)
{
    if (p->gelu == GELU_FORWARD) return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (p->gelu == GELU_BACKWARD) return CUBLASLT_EPILOGUE_DGELU;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t operation_create(const struct library *lt, struct entry *entry)
{
    const struct product *p = &entry->product;
    const cublasOperation_t left = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            right = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p);
    const cudaDataType_t type = type_of(p->dtype);
    cublasStatus_t status = lt->cublasLtMatmulDescCreate(&entry->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!status)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (!status)
        status =
            lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (!status)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                    sizeof epilogue);
    if (!status && p->bias)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                                    sizeof type);
    return status;
}

/* Each matrix as the library sees it: our rows are its columns. */
static cublasStatus_t layouts_create(const struct library *lt, struct entry *entry)
{
    const struct product *p = &entry->product;
    const cudaDataType_t type = type_of(p->dtype);
    const uint64_t M = (uint64_t)p->M, N = (uint64_t)p->N, K = (uint64_t)p->K;
    cublasStatus_t status = p->transpose_b ? lt->cublasLtMatrixLayoutCreate(&entry->a, type, K, N, p->K)
                                           : lt->cublasLtMatrixLayoutCreate(&entry->a, type, N, K, p->N);
    if (!status)
        status = p->transpose_a ? lt->cublasLtMatrixLayoutCreate(&entry->b, type, M, K, product_a_row(p))
                                : lt->cublasLtMatrixLayoutCreate(&entry->b, type, K, M, product_a_row(p));
    return status ? status : lt->cublasLtMatrixLayoutCreate(&entry->c, type, N, M, product_c_row(p));
}

/* Pointers may lie anywhere an element can: the library is told how well ours are aligned, which is part of the choice. No better
 * than 16 bytes, of which its widest accesses are: else the same product might be made another way, with other bits, where a stage
 * has put a tensor on a rounder address. NULL is nowhere and hinders nothing. */
static uint32_t alignment_of(const void *pointer)
{
    uint32_t bytes = 16;
    while (bytes > 2 && (uintptr_t)pointer % bytes) bytes /= 2;
    return bytes;
}

/* What goes in and out beside the factors: of all that, the library is told one alignment, of the result. */
static uint32_t result_alignment(const struct product_data *data)
{
    const uint32_t c = alignment_of(data->c), bias = alignment_of(data->bias), fc = alignment_of(data->fc);
    const uint32_t least = bias < fc ? bias : fc;
    return c < least ? c : least;
}

/* Where a product's terms are split among blocks, their sums meet in fp32: met in 16 bits they would be rounded once for each
 * part. Beyond that, what is added in 16 bits may be added to a rounded product: on an H200 the library lets the memory add where c is
 * added to in place, as PyTorch adds gradients to gradients, and it rounds before it adds a bias to a split product. */
static cublasStatus_t algorithm_choose(struct products *products, struct entry *entry, const struct product_data *data)
{
    const struct library *lt = &products->library;
    const size_t workspace = WORKSPACE_BYTES;
    const uint32_t a = alignment_of(data->b), b = alignment_of(data->a), d = result_alignment(data),
                   c = data->residual ? alignment_of(data->residual) : d,
                   schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t wish = NULL;
    cublasLtMatmulHeuristicResult_t found[PRODUCT_PROPOSALS];
    const int nth = entry->product.proposal;
    int count = 0;
    cublasStatus_t status = lt->cublasLtMatmulPreferenceCreate(&wish);
#define WISH(name, value)                                                                                              \
    if (!status)                                                                                                       \
    status = lt->cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_##name, &value, sizeof value)
    WISH(MAX_WORKSPACE_BYTES, workspace);
    WISH(REDUCTION_SCHEME_MASK, schemes);
    WISH(MIN_ALIGNMENT_A_BYTES, a);
    WISH(MIN_ALIGNMENT_B_BYTES, b);
    WISH(MIN_ALIGNMENT_C_BYTES, c);
    WISH(MIN_ALIGNMENT_D_BYTES, d);
#undef WISH
    if (!status)
        status = lt->cublasLtMatmulAlgoGetHeuristic(products->handle, entry->operation, entry->a, entry->b, entry->c,
                                                    entry->c, wish, nth + 1, found, &count);
    if (wish) lt->cublasLtMatmulPreferenceDestroy(wish);
    if (!status) status = count > nth ? found[nth].state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (!status) entry->algorithm = found[nth].algo;
    return status;
}

static void entry_free(const struct library *lt, struct entry *entry)
{
    if (entry->operation) lt->cublasLtMatmulDescDestroy(entry->operation);
    if (entry->a) lt->cublasLtMatrixLayoutDestroy(entry->a);
    if (entry->b) lt->cublasLtMatrixLayoutDestroy(entry->b);
    if (entry->c) lt->cublasLtMatrixLayoutDestroy(entry->c);
    free(entry);
}

/* The pointers that belong to the operation and not to the call. */
static cublasStatus_t pointers_set(const struct library *lt, struct entry *entry, const struct product_data *data)
{
    const struct product *p = &entry->product;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &data->bias,
                                                    sizeof data->bias);
    if (!status && p->gelu != GELU_NONE)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                    &data->fc, sizeof data->fc);
    if (!status && p->gelu != GELU_NONE)
        status = lt->cublasLtMatmulDescSetAttribute(entry->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->N,
                                                    sizeof p->N);
    return status;
}

static int entry_create(struct entry **out, struct products *products, const struct product *product,
                        const struct product_data *data, struct error *err)
{
    const struct library *lt = &products->library;
    struct entry *entry = (struct entry *)calloc(1, sizeof *entry);
    if (!entry) return error_set(err, STATUS_RUN, "no memory for a matrix product");
    entry->product = *product;
    cublasStatus_t status = operation_create(lt, entry);
    if (!status) status = layouts_create(lt, entry);
    if (!status) status = pointers_set(lt, entry, data);
    if (!status) status = algorithm_choose(products, entry, data);
    if (status && product->gelu == GELU_NONE) {
        entry_free(lt, entry);
        return failed(product, "find a way to multiply", status, err);
    }
    entry->missing = status != CUBLAS_STATUS_SUCCESS;
    *out = entry;
    return STATUS_OK;
}

/* Alignment is part of a shape here: a piece of a tensor may begin anywhere. */
static bool same(const struct product *a, const struct product *b)
{
    return a->dtype == b->dtype && a->M == b->M && a->N == b->N && a->K == b->K && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->bias == b->bias && a->residual == b->residual &&
           a->accumulate == b->accumulate && product_a_row(a) == product_a_row(b) &&
           product_c_row(a) == product_c_row(b) && a->gelu == b->gelu && a->alignment == b->alignment &&
           a->proposal == b->proposal;
}

static uint32_t alignment_code(const struct product_data *data)
{
    return alignment_of(data->a) | alignment_of(data->b) << 8 | result_alignment(data) << 16 |
           alignment_of(data->residual) << 24;
}

static int entry_find(struct entry **out, struct products *products, const struct product *product,
                      const struct product_data *data, struct error *err)
{
    struct product exact = *product;
    exact.alignment = alignment_code(data);
    struct entry **bucket = &products->buckets[(uint64_t)(exact.M * 31 + exact.N * 17 + exact.K) % BUCKETS];
    for (*out = *bucket; *out; *out = (*out)->next)
        if (same(&(*out)->product, &exact)) return STATUS_OK;
    int status = entry_create(out, products, &exact, data, err);
    if (status) return status;
    (*out)->next = *bucket;
    *bucket = *out;
    return STATUS_OK;
}

/* Fused GELU reads and writes fc in wide accesses: 16 bytes, and rows of whole eights. In fp32 it is left to our own kernel: how
 * exact the library's tanh is nobody says, and 16 bits hide what 32 would show. The library really fuses it for Hopper (and
 * Blackwell of data centres); elsewhere it was seen to take a second kernel of its own, slower than ours (llm.c's pull requests 363
 * and 653). */
bool cuda_products_can(struct products *products, const struct product *product, const struct product_data *data)
{
    struct entry *entry;
    const int major = products->stream->device->info.major;
    if (major < 9 || major > 11 || product->dtype == DTYPE_F32 || result_alignment(data) < 16 || product->N % 8)
        return false;
    if (device_use(products->stream->device, NULL)) return false;
    return entry_find(&entry, products, product, data, NULL) == STATUS_OK && !entry->missing;
}

/* ---- all ----------------------------------------------------------------------------------------------------------------- */

int cuda_products_run(struct products *products, const struct product *product, const struct product_data *data,
                      struct error *err)
{
    const struct library *lt = &products->library;
    const bool adds = product->residual || product->accumulate;
    const float one = 1, beta = adds ? 1 : 0;
    const void *added = product->residual ? data->residual : data->c;
    struct entry *entry;
    if (products->stream->failure.status) {
        if (err) *err = products->stream->failure;
        return products->stream->failure.status;
    }
    int status = device_use(products->stream->device, err);
    if (!status) status = entry_find(&entry, products, product, data, err);
    if (status) return status;
    products->stream->last = "a matrix product";
    cublasStatus_t result = pointers_set(lt, entry, data);
    if (!result)
        result = lt->cublasLtMatmul(products->handle, entry->operation, &one, data->b, entry->a, data->a, entry->b,
                                    &beta, added, entry->c, data->c, entry->c, &entry->algorithm, products->workspace,
                                    WORKSPACE_BYTES, products->stream->handle);
    return result ? failed(product, "multiply", result, err) : STATUS_OK;
}

int cuda_products_create(struct products **out, struct device_stream *stream, struct error *err)
{
    struct products *products = (struct products *)calloc(1, sizeof *products);
    if (!products) return error_set(err, STATUS_RUN, "no memory for the matrix products");
    products->stream = stream;
    int status = device_use(stream->device, err);
    if (!status) status = library_open(&products->library, err);
    if (!status && products->library.cublasLtCreate(&products->handle))
        status = error_set(err, STATUS_RUN, "cuBLASLt cannot be started on GPU %d", stream->device->ordinal);
    if (!status)
        status =
            cuda_result(err, "the workspace of matrix products", cudaMalloc(&products->workspace, WORKSPACE_BYTES));
    if (status) {
        cuda_products_free(products);
        return status;
    }
    *out = products;
    return STATUS_OK;
}

void cuda_products_free(struct products *products)
{
    if (!products) return;
    for (int b = 0; b < BUCKETS; b++)
        for (struct entry *entry = products->buckets[b], *next; entry; entry = next) {
            next = entry->next;
            entry_free(&products->library, entry);
        }
    if (products->workspace) cudaFree(products->workspace);
    if (products->handle) products->library.cublasLtDestroy(products->handle);
    if (products->library.handle) dlclose(products->library.handle);
    free(products);
}
