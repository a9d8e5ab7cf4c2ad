/* Hides the differences between the C interfaces of oneDNN 2 and 3: in 3, memory descriptors are handles, and there are
 * no operation descriptors. All other calls that products need are the same. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix_desc;
#else
typedef dnnl_memory_desc_t *matrix_desc;
#endif

/* A matrix of rows x columns at these strides, in elements. */
static inline dnnl_status_t matrix_desc_create(matrix_desc *out, dnnl_data_type_t type, int64_t rows, int64_t columns,
                                               int64_t row_stride, int64_t column_stride)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
#else
    *out = malloc(sizeof **out);
    return *out ? dnnl_memory_desc_init_by_strides(*out, 2, dims, type, strides) : dnnl_out_of_memory;
#endif
}

static inline void matrix_desc_destroy(matrix_desc desc)
{
#if DNNL_VERSION_MAJOR >= 3
    if (desc) dnnl_memory_desc_destroy(desc);
#else
    free(desc);
#endif
}

/* c = a b (+ bias, where not NULL) under attr. */
static inline dnnl_status_t matmul_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine, matrix_desc a,
                                               matrix_desc b, matrix_desc bias, matrix_desc c,
                                               const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attr);
#else
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, bias, c);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL) : status;
#endif
}

/* A post-operation: + 1 x what c held. */
static inline dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1.0f);
#endif
}
