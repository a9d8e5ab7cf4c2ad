#include "kernels/cpu/dnnl_matmul.h"

#include <stdlib.h>

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t matrix_desc_create(matrix_desc *out, dnnl_data_type_t type, int64_t rows, int64_t columns,
                                 int64_t row_stride, int64_t column_stride)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
    return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
}

void matrix_desc_destroy(matrix_desc desc)
{
    if (desc) dnnl_memory_desc_destroy(desc);
}

dnnl_status_t matmul_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine, matrix_desc a, matrix_desc b,
                                 matrix_desc bias, matrix_desc c, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attr);
}

dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

dnnl_status_t append_add(dnnl_post_ops_t ops, matrix_desc other)
{
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, other);
}

#else

dnnl_status_t matrix_desc_create(matrix_desc *out, dnnl_data_type_t type, int64_t rows, int64_t columns,
                                 int64_t row_stride, int64_t column_stride)
{
    const dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
    *out = malloc(sizeof **out);
    if (!*out) return dnnl_out_of_memory;
    return dnnl_memory_desc_init_by_strides(*out, 2, dims, type, strides);
}

void matrix_desc_destroy(matrix_desc desc)
{
    free(desc);
}

dnnl_status_t matmul_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine, matrix_desc a, matrix_desc b,
                                 matrix_desc bias, matrix_desc c, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, bias, c);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &desc, attr, engine, NULL) : status;
}

dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

dnnl_status_t append_add(dnnl_post_ops_t ops, matrix_desc other)
{
    return dnnl_post_ops_append_binary(ops, dnnl_binary_add, other);
}

#endif
